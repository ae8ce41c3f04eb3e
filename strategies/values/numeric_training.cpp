#include "strategies/values/numeric_training.hpp"

#include <algorithm>

namespace trainyard {

NumericTraining::NumericTraining(const NumericTask& task, const TrainingPlan& plan)
    : task_(task), plan_(plan), replicas_(static_cast<std::size_t>(plan.ranks()), Replica(task)) {}

void NumericTraining::attach(Values& values) {
  values_ = &values;
  const auto on = [&values](TrainingCall call, auto function) {
    values.on_call(static_cast<std::uint16_t>(call),
                   [function](Actor actor, const Op& op) { function(actor, op.effect.read); });
  };
  on(TrainingCall::forward,
     [this](Actor a, const BufferRef& ref) { of(a).forward(task_, ref.buffer, samples(a, ref.chunk)); });
  on(TrainingCall::backward, [this](Actor a, const BufferRef& ref) {
    of(a).backward(task_, ref.buffer, samples(a, ref.chunk), task_.global_batch);
  });
  on(TrainingCall::keep_gradients, [](Actor, const BufferRef&) {});  // `update` looks into the buckets
  on(TrainingCall::fill_bucket, [this](Actor a, const BufferRef& ref) {
    values_->buffer(a, ref.buffer) = gathered(*plan_.network, buckets()[ref.buffer], of(a).gradients);
  });
  on(TrainingCall::update, [this](Actor a, const BufferRef&) { update(a); });
}

Samples NumericTraining::samples(Actor rank, int micro_batch) const {
  return samples_of(task_, plan_.ranks(), plan_.micro_batches, updates(rank), rank, micro_batch);
}

void NumericTraining::update(Actor actor) {
  Replica& r = of(actor);
  for (std::size_t bucket = 0; bucket < buckets().size() && plan_.ranks() > 1; ++bucket)
    scatter(*plan_.network, buckets()[bucket], values_->buffer(actor, static_cast<std::uint16_t>(bucket)), r.gradients);
  r.update(task_.learning_rate);
  ++r.updates;
}

bool NumericTraining::replicas_identical() const {
  return std::all_of(replicas_.begin(), replicas_.end(), [this](const Replica& r) {
    for (int layer = 0; layer < task_.shape.layers(); ++layer)
      if (r.mlp.parameters(layer) != replicas_.front().mlp.parameters(layer)) return false;
    return true;
  });
}

}  // namespace trainyard
