#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/error.hpp"
#include "strategies/values/layers/numeric_step.hpp"

namespace trainyard {
using numeric::Index;

namespace {

constexpr double kMissing = std::numeric_limits<double>::infinity();

double apart(double a, double b) {
  const double difference = std::abs(a - b);
  return std::isnan(difference) ? kMissing : difference;
}

Network whole_network(const NumericStepTask& task) {
  if (const MlpShape* shape = std::get_if<MlpShape>(&task.model))
    return mlp_network(*shape, task.micro_batch_size, Precision::fp64);
  return transformer_network(std::get<TransformerConfig>(task.model), task.micro_batch_size, task.seq_length,
                             Precision::fp64);
}

}  // namespace

double NumericDifference::largest() const { return std::max({loss, gradients, parameters}); }

double NumericStep::loss(int step, int tensor) const {
  double sum = 0;
  bool any = false;
  for (const auto& rank : ranks_)
    if (rank->at.tensor == tensor && rank->parameters->has(static_cast<int>(stands_.size()) - 1)) {
      if (static_cast<std::size_t>(step) >= rank->losses.size()) return kMissing;
      sum += rank->losses[static_cast<std::size_t>(step)];
      any = true;
    }
  return any ? sum : kMissing;
}

NumericDifference NumericStep::difference(const NumericStep& one_device) const {
  NumericDifference d;
  const numeric::RankParameters& whole = *one_device.ranks_.front()->parameters;
  const auto raise = [&d](double& to, double value, const std::string& what) {
    if (value > d.largest()) d.worst = fmt::format("{}: {:.3g}", what, value);
    to = std::max(to, value);
  };
  for (int tensor = 0; tensor < plan_.mesh.tensor; ++tensor)
    for (int step = 0; step < plan_.steps; ++step) {
      const double one = one_device.loss(step);
      raise(d.loss, apart(loss(step, tensor), one) / std::abs(one), fmt::format("loss of step {}", step));
    }
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    const numeric::RankParameters& mine = *ranks_[rank]->parameters;
    if (mine.updates() != whole.updates()) raise(d.parameters, kMissing, fmt::format("updates of rank {}", rank));
    for (const int number : mine.numbers()) {
      const numeric::LayerShard& shard = mine.layer(number);
      for (const numeric::LayerShard::Tensor& tensor : shard.tensors) {
        const bool copy = !whole.layer(number).has(tensor.name);  // of a tied weight
        const int owner = copy ? 0 : number;
        const numeric::LayerShard& all = whole.layer(owner);
        const Index first = all.find(copy ? "token_embedding.weight" : tensor.name).first;
        const Eigen::VectorXd& gradients = whole.last_gradient(owner);
        const double step = gradients.cwiseAbs().maxCoeff(), size = all.parameters.cwiseAbs().maxCoeff();
        const std::string what = fmt::format("{} of layer {} on rank {}", tensor.name, number, rank);
        for (std::size_t i = 0; i < tensor.shard.whole.size(); ++i) {
          const Index at = tensor.first + static_cast<Index>(i), element = tensor.shard.whole[i];
          const bool own = mine.own(number, at);
          const double gradient = element < 0 ? 0 : gradients[first + element];
          const double parameter = element < 0 ? 0 : all.parameters[first + element];
          if (own) raise(d.gradients, apart(mine.last_gradient(number)[at], gradient) / step, "gradient " + what);
          if (own || plan_.zero != ZeroStage::parameters)
            raise(d.parameters, apart(mine.parameter(number, at), parameter) / size, what);
        }
      }
    }
  }
  return d;
}

ReferenceStep::ReferenceStep(const NumericStepTask& task, int global_batch, int steps) : task_(task) {
  task_.micro_batch_size = global_batch;
  network_ = whole_network(task_);
  plan_.network = &network_;
  plan_.steps = steps;
  plan_.stages.resize(1);
  plan_.stages[0].chunks.emplace_back();
  for (std::size_t layer = 0; layer < network_.layers.size(); ++layer)
    plan_.stages[0].chunks[0].push_back(static_cast<int>(layer));
  numbers_ = std::make_unique<NumericStep>(task_, plan_);
  numbers_->attach(values_);
}

void ReferenceStep::all_layers(TrainingCall call, bool reversed) {
  const int layers = static_cast<int>(network_.layers.size());
  for (int i = 0; i < layers; ++i) numbers_->call(call, 0, {reversed ? layers - 1 - i : i, 0, kEndOfPass});
}

void ReferenceStep::forward() { all_layers(TrainingCall::forward, false); }
void ReferenceStep::backward() { all_layers(TrainingCall::backward, true); }
void ReferenceStep::update() { numbers_->call(TrainingCall::update, 0, {}); }

void ReferenceStep::run() {
  for (int step = 0; step < plan_.steps; ++step) {
    forward();
    backward();
    update();
  }
}

}  // namespace trainyard
