#include "strategies/values/numeric_training.hpp"

#include <algorithm>

#include "strategies/values/training_values.hpp"

namespace trainyard {

NumericTraining::NumericTraining(const NumericTask& task, const Network& network, const DataParallelPlan& plan)
    : task_(task), network_(network), plan_(plan), replicas_(static_cast<std::size_t>(plan.ranks), Replica(task)) {}

void NumericTraining::attach(Values& values) {
  values_ = &values;
  CallDispatcher calls(values);
  calls.on(TrainingCall::forward, [this](Actor a, const CallArguments& call) {
    of(a).forward(task_, call.index, samples(a, call.micro_batch));
  });
  calls.on(TrainingCall::backward, [this](Actor a, const CallArguments& call) {
    of(a).backward(task_, call.index, samples(a, call.micro_batch), task_.global_batch);
  });
  calls.on(TrainingCall::keep_gradients, [](Actor, const CallArguments&) {});  // `update` looks into the buckets
  calls.on(TrainingCall::fill_bucket, [this](Actor a, const CallArguments& call) {
    buffer_of(*values_, a, TrainingBuffer::Kind::gradients, call.bucket()) =
        gathered(network_, plan_.buckets[call.bucket()], of(a).gradients);
  });
  calls.on(TrainingCall::update, [this](Actor a, const CallArguments&) { update(a); });
}

Samples NumericTraining::samples(Actor rank, int micro_batch) const {
  return samples_of(task_, plan_.ranks, plan_.micro_batches, updates(rank), rank, micro_batch);
}

void NumericTraining::update(Actor actor) {
  Replica& r = of(actor);
  for (std::size_t bucket = 0; bucket < plan_.buckets.size() && plan_.ranks > 1; ++bucket)
    scatter(network_, plan_.buckets[bucket], buffer_of(*values_, actor, TrainingBuffer::Kind::gradients, bucket),
            r.gradients);
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
