#include "strategies/numeric_training.hpp"

#include <algorithm>

namespace trainyard {

NumericTraining::NumericTraining(const NumericTask& task, const Network& network, const DataParallelPlan& plan)
    : task_(task), network_(network), plan_(plan) {
  for (int rank = 0; rank < plan.ranks; ++rank) {
    Replica replica{Mlp(task.shape, task.seed), {}, {}, {}, 0};
    replica.activations.resize(static_cast<std::size_t>(task.shape.layers()) + 1);
    for (int layer = 0; layer < task.shape.layers(); ++layer)
      replica.gradients.emplace_back(Eigen::VectorXd::Zero(task.shape.parameters(layer)));
    replicas_.push_back(std::move(replica));
  }
}

void NumericTraining::attach(Values& values) {
  values_ = &values;
  const auto on = [&values](TrainingCall call, auto function) {
    values.on_call(static_cast<std::uint16_t>(call),
                   [function](Actor actor, const Op& op) { function(actor, op.effect.read); });
  };
  on(TrainingCall::forward, [this](Actor a, const BufferRef& ref) { forward(a, ref.buffer, ref.chunk); });
  on(TrainingCall::backward, [this](Actor a, const BufferRef& ref) { backward(a, ref.buffer, ref.chunk); });
  on(TrainingCall::keep_gradients, [](Actor, const BufferRef&) {});  // `update` looks into the buckets
  on(TrainingCall::fill_bucket, [this](Actor a, const BufferRef& ref) { fill(a, ref.buffer); });
  on(TrainingCall::update, [this](Actor a, const BufferRef&) { update(a); });
}

std::pair<Eigen::Index, Eigen::Index> NumericTraining::samples(int rank, int micro_batch) const {
  const int share = task_.global_batch / plan_.ranks, size = share / plan_.micro_batches;
  const int step = replicas_[static_cast<std::size_t>(rank)].updates;
  return {step * task_.global_batch + rank * share + micro_batch * size, size};
}

void NumericTraining::forward(Actor actor, int layer, int micro_batch) {
  Replica& r = replicas_[static_cast<std::size_t>(actor)];
  if (layer == 0) {
    const auto [first, count] = samples(actor, micro_batch);
    r.activations[0] = task_.inputs.middleCols(first, count);
  }
  const auto l = static_cast<std::size_t>(layer);
  r.activations[l + 1] = r.mlp.forward(layer, r.activations[l]);
}

void NumericTraining::backward(Actor actor, int layer, int micro_batch) {
  Replica& r = replicas_[static_cast<std::size_t>(actor)];
  const auto l = static_cast<std::size_t>(layer);
  if (layer + 1 == task_.shape.layers()) {
    const auto [first, count] = samples(actor, micro_batch);
    r.gradient = r.mlp.loss_gradient(r.activations[l + 1], task_.targets.middleCols(first, count), task_.global_batch);
  }
  r.gradient = r.mlp.backward(layer, r.activations[l], r.activations[l + 1], r.gradient, r.gradients[l]);
}

Eigen::Index NumericTraining::offset(const GradientBucket::Part& part) const {
  double before = part.first;
  const Layer& layer = network_.layers[static_cast<std::size_t>(part.layer)];
  for (int tensor = 0; tensor < part.tensor; ++tensor)
    before += layer.parameters[static_cast<std::size_t>(tensor)].elements;
  return static_cast<Eigen::Index>(before);
}

void NumericTraining::fill(Actor actor, std::uint16_t bucket) {
  const Replica& r = replicas_[static_cast<std::size_t>(actor)];
  const GradientBucket& b = plan_.buckets[bucket];
  Eigen::VectorXd& buffer = values_->buffer(actor, bucket);
  buffer.resize(static_cast<Eigen::Index>(b.elements));
  Eigen::Index at = 0;
  for (const GradientBucket::Part& part : b.parts) {
    const auto length = static_cast<Eigen::Index>(part.elements);
    buffer.segment(at, length) = r.gradients[static_cast<std::size_t>(part.layer)].segment(offset(part), length);
    at += length;
  }
}

void NumericTraining::update(Actor actor) {
  Replica& r = replicas_[static_cast<std::size_t>(actor)];
  if (plan_.ranks > 1)
    for (std::size_t bucket = 0; bucket < plan_.buckets.size(); ++bucket) {
      const Eigen::VectorXd& buffer = values_->buffer(actor, static_cast<std::uint16_t>(bucket));
      Eigen::Index at = 0;
      for (const GradientBucket::Part& part : plan_.buckets[bucket].parts) {
        const auto length = static_cast<Eigen::Index>(part.elements);
        r.gradients[static_cast<std::size_t>(part.layer)].segment(offset(part), length) = buffer.segment(at, length);
        at += length;
      }
    }
  for (int layer = 0; layer < task_.shape.layers(); ++layer) {
    Eigen::VectorXd& gradient = r.gradients[static_cast<std::size_t>(layer)];
    r.mlp.update(layer, gradient, task_.learning_rate);
    gradient.setZero();
  }
  ++r.updates;
}

bool NumericTraining::replicas_identical() const {
  return std::all_of(replicas_.begin(), replicas_.end(), [this](const Replica& r) {
    for (int layer = 0; layer < task_.shape.layers(); ++layer)
      if (r.mlp.parameters(layer) != replicas_.front().mlp.parameters(layer)) return false;
    return true;
  });
}

Mlp train_plainly(const NumericTask& task, int steps) {
  Mlp mlp(task.shape, task.seed);
  for (int step = 0; step < steps; ++step) {
    const Eigen::Index first = static_cast<Eigen::Index>(step) * task.global_batch;
    const auto gradients = mlp.gradients(task.inputs.middleCols(first, task.global_batch),
                                         task.targets.middleCols(first, task.global_batch), task.global_batch);
    for (int layer = 0; layer < task.shape.layers(); ++layer)
      mlp.update(layer, gradients[static_cast<std::size_t>(layer)], task.learning_rate);
  }
  return mlp;
}

double largest_difference(const Mlp& a, const Mlp& b) {
  double largest = 0;
  for (int layer = 0; layer < a.layers(); ++layer)
    largest = std::max(largest, (a.parameters(layer) - b.parameters(layer)).cwiseAbs().maxCoeff());
  return largest;
}

}  // namespace trainyard
