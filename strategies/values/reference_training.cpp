#include "strategies/values/reference_training.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <limits>

#include "strategies/plan/training_plan.hpp"
#include "strategies/values/learning/whole_network.hpp"

namespace trainyard {
using numeric::Index;

namespace {

constexpr double kMissingValue = std::numeric_limits<double>::infinity();

double apart(double a, double b) {
  const double difference = std::abs(a - b);
  return std::isnan(difference) ? kMissingValue : difference;
}

}  // namespace

double TrainingDifference::largest() const { return std::max({loss, gradients, parameters}); }

TrainingDifference difference(const TrainingValues& split, const TrainingValues& one_device) {
  const TrainingPlan& plan = split.plan();
  TrainingDifference d;
  const numeric::RankParameters& reference = one_device.parameters(0);
  const auto raise = [&d](double& to, double value, const std::string& what) {
    if (value > d.largest()) d.worst = fmt::format("{}: {:.3g}", what, value);
    to = std::max(to, value);
  };
  for (int tensor = 0; tensor < plan.mesh.tensor; ++tensor)
    for (int step = 0; step < plan.steps; ++step) {
      const double loss = one_device.loss(step);
      raise(d.loss, apart(split.loss(step, tensor), loss) / std::abs(loss), fmt::format("loss of step {}", step));
    }
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const numeric::RankParameters& parameters = split.parameters(rank);
    if (parameters.updates() != reference.updates())
      raise(d.parameters, kMissingValue, fmt::format("updates of rank {}", rank));
    for (const int number : parameters.numbers()) {
      const numeric::LayerShard& shard = parameters.layer(number);
      for (const numeric::LayerShard::Tensor& tensor : shard.tensors) {
        const bool copy = !reference.layer(number).has(tensor.name);  // a copy of a tied weight
        const int owner = copy ? 0 : number;
        const numeric::LayerShard& all = reference.layer(owner);
        const Index first = all.find(copy ? "token_embedding.weight" : tensor.name).first;
        const Eigen::VectorXd& gradients = reference.last_gradient(owner);
        const double step = gradients.cwiseAbs().maxCoeff(), size = all.parameters.cwiseAbs().maxCoeff();
        const std::string what = fmt::format("{} of layer {} on rank {}", tensor.name, number, rank);
        for (std::size_t i = 0; i < tensor.shard.numbers.size(); ++i) {
          const Index local = tensor.first + static_cast<Index>(i), element = tensor.shard.numbers[i];
          const bool is_own = parameters.owns(number, local);
          const double gradient = element < 0 ? 0 : gradients[first + element];
          const double parameter = element < 0 ? 0 : all.parameters[first + element];
          if (is_own)
            raise(d.gradients, apart(parameters.last_gradient(number)[local], gradient) / step, "gradient " + what);
          if (is_own || plan.zero != ZeroStage::parameters)
            raise(d.parameters, apart(parameters.parameter(number, local), parameter) / size, what);
        }
      }
    }
  }
  return d;
}

std::vector<TensorComparison> compare_tensors(const TrainingValues& split, const TrainingValues& one_device,
                                              const TrainingValues& before) {
  const TrainingPlan& plan = split.plan();
  const numeric::RankParameters& reference = one_device.parameters(0);
  std::vector<TensorComparison> all;
  for (const int number : reference.numbers()) {
    const numeric::LayerShard& all_of_layer = reference.layer(number);
    const Eigen::VectorXd change = all_of_layer.parameters - before.parameters(0).layer(number).parameters;
    for (const numeric::LayerShard::Tensor& tensor : all_of_layer.tensors) {
      const auto count = static_cast<Index>(tensor.shard.numbers.size());
      TensorComparison comparison{.layer = number, .tensor = tensor.name, .elements = static_cast<double>(count)};
      comparison.elements_by_rank.resize(static_cast<std::size_t>(plan.ranks()));
      comparison.largest_weight = all_of_layer.parameters.segment(tensor.first, count).cwiseAbs().maxCoeff();
      comparison.largest_change = change.segment(tensor.first, count).cwiseAbs().maxCoeff();
      for (int rank = 0; rank < plan.ranks(); ++rank) {
        const numeric::RankParameters& parameters = split.parameters(rank);
        if (!parameters.has(number) || !parameters.layer(number).has(tensor.name)) continue;
        const numeric::LayerShard::Tensor& part = parameters.layer(number).find(tensor.name);
        for (std::size_t i = 0; i < part.shard.numbers.size(); ++i) {
          const Index local = part.first + static_cast<Index>(i), element = part.shard.numbers[i];
          if (element < 0 || (plan.zero == ZeroStage::parameters && !parameters.owns(number, local))) continue;
          comparison.elements_by_rank[rank] += 1;
          comparison.largest_difference =
              std::max(comparison.largest_difference,
                       apart(parameters.parameter(number, local), all_of_layer.parameters[tensor.first + element]));
        }
      }
      all.push_back(std::move(comparison));
    }
  }
  return all;
}

ReferenceTraining::ReferenceTraining(const TrainingTask& task, int global_batch, int steps) : task_(task) {
  task_.micro_batch_size = global_batch;
  plan_ = replica_plan(std::make_shared<const Network>(numeric::network_of(task_)), 1);
  plan_.steps = steps;
  training_ = std::make_unique<TrainingValues>(task_, plan_, values_);
}

void ReferenceTraining::all_layers(TrainingCall call, bool reversed) {
  const int layers = static_cast<int>(plan_.network->layers.size());
  for (int i = 0; i < layers; ++i) training_->call(call, 0, {reversed ? layers - 1 - i : i, 0, kEndOfPass});
}

void ReferenceTraining::forward() { all_layers(TrainingCall::forward, false); }
void ReferenceTraining::backward() { all_layers(TrainingCall::backward, true); }
void ReferenceTraining::update() { training_->call(TrainingCall::update, 0, {}); }

void ReferenceTraining::run() {
  for (int step = 0; step < plan_.steps; ++step) {
    forward();
    backward();
    update();
  }
}

}  // namespace trainyard
