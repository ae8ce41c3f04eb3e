#include "strategies/mechanisms/central/worker_step.hpp"

namespace trainyard {

Ops WorkerStep::passes() {
  next_bucket_ = 0;
  for (int micro_batch = 0; micro_batch < step_.micro_batches; ++micro_batch) {
    for (int layer = 0; layer < layers(); ++layer) co_yield pass(Pass::forward, layer, micro_batch);
    for (int layer = layers() - 1; layer >= 0; --layer) co_yield pass(Pass::backward, layer, micro_batch);
  }
  co_yield push_ready(-1, 0);
}

Ops WorkerStep::pass(Pass what, int layer, int micro_batch) {
  const bool first = micro_batch == 0, last = micro_batch + 1 == step_.micro_batches;
  const bool pushes = what == Pass::backward && last && step_.overlap_gradients;
  const bool fine = pushes && !step_.values_by_layer();  // values are computed layer by layer
  if (what == Pass::forward && first) co_yield await_parameters(layer);
  for (const PassItem& item : tables_.pass(what, layer, first, fine).items) {
    co_yield kernel(item);
    if (fine) co_yield push_ready(layer, item.kernel);
  }
  const bool end = what == Pass::forward && layer + 1 == layers();
  if (!step_.values_by_layer() && !(step_.rides && end)) co_return;
  co_yield drain_waits();
  co_yield call(what == Pass::forward ? TrainingCall::forward : TrainingCall::backward, static_cast<std::size_t>(layer),
                micro_batch);
  if (pushes) co_yield push_ready(layer, 1 << 30);
}

/// Pushes the buckets whose last gradient is computed when this kernel of this layer has ended.
Ops WorkerStep::push_ready(int layer, int kernel) {
  for (; next_bucket_ < stage_.buckets.size(); ++next_bucket_) {
    const GradientBucket& bucket = stage_.buckets[next_bucket_];
    if (bucket.layer < layer || (bucket.layer == layer && bucket.kernel > kernel)) break;
    co_yield push(next_bucket_);
  }
}

}  // namespace trainyard
