#include "strategies/step/gradient_exchange.hpp"

#include <algorithm>
#include <utility>

#include "strategies/plan/update_policy.hpp"

namespace trainyard {
namespace {

Lane gradient_lane(bool experts) { return experts ? Lane::expert_gradients : Lane::gradients; }
Lane copies_lane(bool experts) { return experts ? Lane::expert_copies : Lane::copies; }

/// True if buckets leave while the backward pass fills them. ZeRO stage 2 drops gradients that other ranks hold, so
/// buckets leave during the pass even if the pass waits for them (DeepSpeed, stage_1_and_2.py: hooks with
/// partition_gradients or overlap_comm).
bool sends_in_backward(const TrainingPlan& plan) { return plan.overlap_gradients || plan.zero == ZeroStage::gradients; }

/// A sum of gradients of which several ranks of one replica have parts.
struct SumWithinReplica {
  Lane lane;
  double elements;
  NameId name;
  TrainingBuffer::Kind buffer;
  TrainingCall fill, take;
};

Ops sum_within_replica(StepContext& step, LaneCollectives& collectives, SumWithinReplica sum) {
  if (step.plan.values) co_yield step.call(sum.fill);
  co_yield collectives.run({sum.lane, Operation::all_reduce, sum.elements * step.plan.gradient_element, sum.name,
                            number_of({sum.buffer}), step.out.last_operation(TrainingStreams::compute)});
  if (step.plan.values) co_yield step.call_on(collectives.receives(sum.lane), sum.take);
  step.waits.add(collectives.end_of(sum.lane));
}

/// Number of gradient elements of norms that each tensor rank applies to its own tokens.
double partial_elements(const StepContext& step) {
  double elements = 0;
  if (!step.plan.lane(Lane::tensor).is_used()) return elements;
  for (const std::vector<int>& layers : step.stage.chunks)
    for (const int layer : layers)
      for (const ParameterTensor& tensor : step.layer(layer).parameters)
        if (tensor.partial && !tensor.frozen) elements += tensor.elements;
  return elements;
}

}  // namespace

GradientExchange::GradientExchange(StepContext& step, LaneCollectives& collectives, HostOffload& offload)
    : step_(step), collectives_(collectives), offload_(offload), copies_(step), compressed_(step, collectives) {}

void GradientExchange::begin_step(int step, bool summed, int set) {
  step_number_ = step;
  summed_ = summed;
  set_ = static_cast<std::size_t>(set);
  last_use_.resize(std::max(last_use_.size(), (set_ + 1) * step_.buckets()));
  next_ = opened_ = 0;
  offload_.begin_backward();
  exchanged_.clear();
}

bool GradientExchange::exchanges(bool experts) const {
  return summed_ && (step_.peers.lane(gradient_lane(experts)).group || step_.peers.lane(copies_lane(experts)).group);
}

bool GradientExchange::sends_during_backward(bool last_micro_batch) const {
  return sends_in_backward(step_.plan) && !step_.shards_parameters() &&
         (last_micro_batch || exchanges_each_micro_batch()) &&
         (offload_.is_used() || exchanges(false) || exchanges(true));
}

bool GradientExchange::needs_opening(std::size_t bucket) const {
  const GradientBucket& gradients = step_.stage.buckets[bucket];
  const bool copied = step_.plan.bucket_copy && !step_.plan.host_buckets;
  return step_.plan.zero == ZeroStage::gradients && !copied && !offload_.is_used() && !gradients.late &&
         exchanges(gradients.experts) && step_.shards_of(gradients).count > 1;
}

Ops GradientExchange::open_buckets() {
  if (offload_.is_used()) co_yield offload_.open_buckets(next_);
  for (; opened_ <= next_ && next_ < step_.buckets(); ++opened_)
    if (needs_opening(opened_))
      co_yield step_.change_memory(step_.stage.buckets[opened_].elements * step_.plan.gradient_element.value,
                                   MemoryClass::gradients, step_.words.buckets[opened_]);
}

Ops GradientExchange::free_copies(std::size_t left) {
  if (exchanged_.size() <= left) co_return;
  const auto end = exchanged_.end() - static_cast<std::ptrdiff_t>(left);
  const std::vector<ExchangedBucket> first(exchanged_.begin(), end);
  exchanged_.erase(exchanged_.begin(), end);
  while (step_.waits.has_any()) co_yield step_.take_waits();
  co_yield copies_.copy_out(first);
}

Ops GradientExchange::after_kernel(int layer, int kernel, bool first, bool last) {
  const bool opening = step_.plan.zero == ZeroStage::gradients;
  while (next_ < step_.buckets()) {
    const GradientBucket& bucket = step_.stage.buckets[next_];
    if (bucket.layer < layer || (bucket.layer == layer && bucket.kernel > kernel)) break;
    if (opening) co_yield open_buckets();
    if (!bucket.late) co_yield exchange(next_, exchanges_each_micro_batch() && !first);
    ++next_;
  }
  if (opening) co_yield open_buckets();
  // The next micro-batch begins with the first bucket again.
  if (last || next_ != step_.buckets()) co_return;
  next_ = opened_ = 0;
  offload_.begin_backward();
}

Ops GradientExchange::exchange(std::size_t index, bool accumulates) {
  const GradientBucket& bucket = step_.stage.buckets[index];
  const Lane lane = gradient_lane(bucket.experts), over_copies = copies_lane(bucket.experts);
  const std::size_t place = set_ * step_.buckets() + index;
  const auto waits_for = [&](const CopiesSum& sum) {
    return sum.bucket == index || step_.stage.buckets[sum.bucket].layer != bucket.layer;
  };
  if (std::ranges::any_of(unsummed_, waits_for)) co_yield sum_unsummed();
  Stream ends = TrainingStreams::compute;
  if (exchanges(bucket.experts) && update_policy_of(step_.plan).sums(bucket)) {
    if (frees_copies()) co_yield free_copies(BucketCopies::at_once(step_.plan.overlap_gradients) - 1);
    co_yield copies_.fill(index, place, last_use_[place]);
    Dep start = copies_.filled();
    const std::uint16_t buffer = step_.buffer({TrainingBuffer::Kind::gradients, place});
    const Bytes bytes = bucket.elements * step_.plan.gradient_element;
    const NameId name = step_.words.buckets[index];
    ends = collectives_.receives(lane);
    if (compressed_.is_used()) {
      ExchangedBucket exchanged{index, {}, place, lane, step_number_};
      co_yield compressed_.begin(exchanged);
      exchanged.end = last_use_[place] = step_.out.last_operation(ends);
      exchanged_.push_back(exchanged);
      co_return;
    }
    if (step_.plan.lane(lane).is_used()) {
      co_yield collectives_.run({lane, step_.plan.gradient_operation(), bytes, name, buffer, start});
      start = collectives_.end_of(lane);
    }
    if (step_.plan.lane(over_copies).is_used() && update_policy_of(step_.plan).sums_over_copies()) {
      const CopiesSum sum{index, place, start, accumulates};
      if (step_.plan.overlap_copies) {
        co_yield sum_over_copies(sum);
      } else {
        last_use_[place] = start;
        unsummed_.push_back(sum);
      }
      co_return;
    }
  } else if (!offload_.is_used()) {
    co_return;
  }
  co_yield hand_over(index, accumulates, ends);
}

Ops GradientExchange::sum_over_copies(CopiesSum sum) {
  const GradientBucket& bucket = step_.stage.buckets[sum.bucket];
  const Lane lane = copies_lane(bucket.experts);
  const auto [count, own] = step_.shards_of(bucket);
  co_yield collectives_.run({lane, Operation::all_reduce, bucket.elements * step_.plan.gradient_element / count,
                             step_.words.buckets[sum.bucket],
                             step_.buffer({TrainingBuffer::Kind::gradients, sum.place}), sum.start, 0, own, count});
  co_yield hand_over(sum.bucket, sum.accumulates, collectives_.receives(lane));
}

Ops GradientExchange::sum_unsummed() {
  if (unsummed_.empty()) co_return;
  const std::vector<CopiesSum> sums = std::exchange(unsummed_, {});
  for (const CopiesSum& sum : sums) step_.waits.add(sum.start);
  while (step_.waits.has_any()) co_yield step_.take_waits();
  const Dep start = step_.out.last_operation(TrainingStreams::compute);
  for (const CopiesSum& sum : sums) {
    co_yield sum_over_copies({sum.bucket, sum.place, start, sum.accumulates});
    step_.waits.add(collectives_.end_of(copies_lane(step_.stage.buckets[sum.bucket].experts)));
  }
  while (step_.waits.has_any()) co_yield step_.take_waits();
}

Ops GradientExchange::hand_over(std::size_t index, bool accumulates, Stream ends) {
  const GradientBucket& bucket = step_.stage.buckets[index];
  const std::size_t place = set_ * step_.buckets() + index;
  if (exchanges(bucket.experts) && update_policy_of(step_.plan).sums(bucket)) {
    if (accumulates && !offload_.is_used()) co_yield accumulate(index, ends);
    if (step_.plan.values) co_yield step_.call_on(ends, TrainingCall::keep_gradients, CallArguments::of_bucket(place));
  }
  if (offload_.is_used()) {
    co_yield offload_.send_gradients(index, accumulates, step_.out.last_operation(ends));
    last_use_[place] = offload_.gradients_sent();
    co_return;
  }
  if (needs_opening(index))
    co_yield step_.change_memory(-bucket.elements * step_.plan.gradient_element.value, MemoryClass::gradients,
                                 step_.words.buckets[index], ends);
  last_use_[place] = step_.out.last_operation(ends);
  exchanged_.push_back({index, last_use_[place], place, gradient_lane(bucket.experts), step_number_});
  if (step_.plan.overlap_gradients || step_.plan.zero != ZeroStage::gradients) co_return;
  if (frees_copies())
    co_yield free_copies(0);
  else
    step_.waits.add(last_use_[place]);
}

/// Adds the rank's share to that of earlier micro-batches.
const Op& GradientExchange::accumulate(std::size_t bucket, Stream stream) {
  Op& op = step_.out.begin(Kind::local, stream, step_.words.accumulate, step_.words.compute);
  op.work = step_.plan.accumulation;
  op.work.bytes = op.work.bytes * step_.own_elements(bucket);
  return step_.out.emit();
}

void GradientExchange::wait_for_buffers(int layer) {
  if (!offload_.is_used()) return;
  for (const std::size_t bucket : step_.buckets_of(layer))
    if (const Dep& use = last_use_[bucket]; use.count > 0) step_.waits.add(use);
}

Ops GradientExchange::exchange_layer(int layer, bool first, bool last) {
  const std::vector<std::size_t>& buckets = step_.buckets_of(layer);
  double elements = 0;
  for (const std::size_t bucket : buckets) elements += step_.stage.buckets[bucket].elements;
  if (elements == 0) co_return;
  const double bytes = elements * step_.plan.gradient_element.value;
  const NameId name = step_.words.buckets.front();
  if (step_.plan.sync_last && first) co_yield step_.change_memory(bytes, MemoryClass::gradients, name);
  if (step_.plan.sync_last && !last) co_return;
  // At most two layers hold whole gradients: FSDP waits for the exchange before the last one (PyTorch,
  // _fsdp_param_group.py, post_backward: reduce_scatter_state).
  for (const Dep& exchange_end : reduced_) step_.waits.add(exchange_end);
  while (step_.waits.has_any()) co_yield step_.take_waits();
  reduced_.clear();
  if (!step_.plan.sync_last) co_yield step_.change_memory(bytes, MemoryClass::gradients, name);
  Stream ends = TrainingStreams::compute;
  for (const std::size_t bucket : buckets) {
    if (step_.stage.buckets[bucket].elements == 0) continue;
    co_yield exchange(bucket, exchanges_each_micro_batch() && !first);
    if (!offload_.is_used() && !exchanges(step_.stage.buckets[bucket].experts)) continue;
    ends = last_use_[bucket].stream;
    reduced_.push_back(last_use_[bucket]);
  }
  co_yield step_.change_memory(-bytes, MemoryClass::gradients, name, ends);
}

Ops GradientExchange::exchange_rest() {
  while (step_.waits.has_any()) co_yield step_.take_waits();
  if (step_.shards_parameters()) co_return;
  for (std::size_t b = 0; b < step_.buckets(); ++b)
    if (!sends_in_backward(step_.plan) || step_.stage.buckets[b].late) co_yield exchange(b, false);
}

Ops GradientExchange::give_back(const std::vector<ExchangedBucket>& exchanged) {
  if (compressed_.is_used()) co_yield compressed_.finish(exchanged);
  if (step_.plan.bucket_copy) co_yield copies_.copy_out(exchanged);
}

Ops GradientExchange::finish() {
  while (step_.waits.has_any()) co_yield step_.take_waits();
  if (step_.peers.lane(Lane::tied).group) {
    // First and last stage hold the same weight, and each has a gradient of it.
    co_yield sum_within_replica(
        step_, collectives_,
        {Lane::tied, step_.plan.network->layers.front().parameters.front().elements, step_.words.tied,
         TrainingBuffer::Kind::tied, TrainingCall::fill_tied, TrainingCall::take_tied});
  }
  co_yield exchange_rest();
  co_yield sum_unsummed();
  for (const bool experts : {false, true})
    for (const Lane lane : {gradient_lane(experts), copies_lane(experts)}) {
      const bool sums = lane == gradient_lane(experts) || update_policy_of(step_.plan).sums_over_copies();
      if (sums && step_.plan.lane(lane).is_used() && !exchanged_.empty()) step_.waits.add(collectives_.end_of(lane));
    }
  if (step_.plan.bucket_copy || compressed_.is_used()) {
    step_.waits.clear();  // each bucket waits for its own exchange
    co_yield give_back(exchanged_);
  }
  const double partial = partial_elements(step_);
  if (partial == 0) co_return;
  while (step_.waits.has_any()) co_yield step_.take_waits();
  co_yield sum_within_replica(step_, collectives_,
                              {Lane::tensor, partial, step_.words.partial, TrainingBuffer::Kind::partial,
                               TrainingCall::fill_partial, TrainingCall::take_partial});
}

}  // namespace trainyard
