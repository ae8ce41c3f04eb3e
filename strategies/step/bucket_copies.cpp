#include "strategies/step/bucket_copies.hpp"

namespace trainyard {

Ops BucketCopies::fill(std::size_t bucket, std::size_t place, Dep last_use) {
  const TrainingPlan& plan = step_.plan;
  const bool on_host = plan.bucket_copy && plan.host_buckets;
  if (on_host && plan.wait_kernel != 0) co_yield wait_for_tick();
  if (on_host) {
    copy(bucket, step_.words.copy_in);
    co_yield step_.out.amend([this](Op& op) { op.deps[0] = step_.out.last_operation(TrainingStreams::compute); });
  } else if (plan.bucket_copy) {
    co_yield copy(bucket, step_.words.copy_in);
  }
  if (plan.values) {
    if (last_use.count > 0) step_.waits.add(last_use);
    while (step_.waits.has_any()) co_yield step_.take_waits();
    co_yield step_.call(TrainingCall::fill_bucket, CallArguments::of_bucket(place));
  }
  if (!on_host && plan.wait_kernel != 0) co_yield wait_for_tick();
}

Ops BucketCopies::copy_out(const std::vector<ExchangedBucket>& exchanged) {
  for (const ExchangedBucket& bucket : exchanged) {
    step_.waits.add(bucket.end);
    co_yield copy(bucket.bucket, step_.words.copy_out);
  }
  if (step_.plan.host_buckets) step_.waits.add(step_.out.last_operation(TrainingStreams::coordinator));
}

const Op& BucketCopies::wait_for_tick() {
  Op& op = step_.out.begin(Kind::delay, TrainingStreams::coordinator, step_.words.wait, step_.words.framework,
                           step_.out.last_operation(TrainingStreams::compute));
  op.work.kernel = step_.plan.wait_kernel;
  return step_.out.emit();
}

/// Fills a bucket from the gradients, or copies it back.
const Op& BucketCopies::copy(std::size_t bucket, NameId name) {
  const bool on_host = step_.plan.host_buckets;
  Op& op = on_host ? step_.out.begin(Kind::delay, TrainingStreams::coordinator)
                   : step_.out.begin(Kind::local, TrainingStreams::compute);
  op.work.kernel = step_.plan.copy_kernel;
  op.work.precision = step_.stage.optimizer.precision;
  // ZeRO stage 2 keeps only the rank's share of the result.
  const bool share = name == step_.words.copy_out && step_.plan.zero == ZeroStage::gradients;
  const double elements = share ? step_.own_elements(bucket) : step_.stage.buckets[bucket].elements;
  op.work.bytes = 2 * elements * step_.plan.gradient_element;
  op.group = on_host ? step_.words.framework : step_.words.compute;
  op.name = name;
  step_.waits.take_into(op);
  return step_.out.emit();
}

}  // namespace trainyard
