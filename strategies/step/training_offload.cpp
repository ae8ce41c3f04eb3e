// What lies in host memory or on drives: gradients go there as they are made, the CPU updates, parameters come back (Ren
// et al. 2021, ZeRO-Offload; Rajbhandari et al. 2021, ZeRO-Infinity). Everything is about the rank's own shares.
#include "strategies/step/training_step.hpp"

namespace trainyard {
namespace {

// Tags of joins on ways to the host: beyond those of lanes.
constexpr Tag kFirstHostTag = 16;

BufferRef whole(int first, std::size_t bucket) {
  return {static_cast<std::uint16_t>(static_cast<std::size_t>(first) + bucket), 0, 1};
}

}  // namespace

/// Elements of a bucket that the rank answers for.
double TrainingStep::share_of(std::size_t index) const {
  const GradientBucket& bucket = stage_.buckets[index];
  if (!shares_out()) return bucket.elements;
  return bucket.elements / static_cast<double>(zero_group(plan_, rank_, bucket.experts).size());
}

/// So many bytes on one of the ways, alone on it; to be given.
Op& TrainingStep::host_op(HostWay way, Bytes bytes, NameId name, Dep first, Dep second) {
  const auto at = static_cast<std::size_t>(way);
  const GroupFlow* flow = peers_.flows[kLanes + at];
  Op& op = out_.fresh(Kind::join, streams_.host(way));
  op.group = words_.host[at];
  op.name = name;
  // Drives are striped: an edge each. The memory of a CPU counts what comes and what goes.
  const bool striped = way == HostWay::drive_read || way == HostWay::drive_write;
  const double parts = way == HostWay::in_host ? 2 : striped && flow ? static_cast<double>(flow->edges.size()) : 1;
  op.message.bytes = bytes / parts;
  op.message.steps = 1;
  op.message.slot = static_cast<std::uint16_t>(kLanes + at);
  op.message.tag = (kFirstHostTag + at) << 27 | ++host_calls_[at] | static_cast<Tag>(rank_) << 32;
  op.deps[0] = first;
  op.deps[1] = second;
  return op;
}

const Op& TrainingStep::give_host(Op& op, TrainingCall call, std::size_t bucket) {
  if (plan_.values) {
    op.effect.action = Action::call;
    op.effect.call = static_cast<std::uint16_t>(call);
    op.effect.read = {static_cast<std::uint16_t>(bucket), 0, 0};
  }
  return out_.give_fresh();
}

/// Stage 2: gradients of a bucket take memory from their first on, until their copies have left. Two buckets are there
/// at most: one is filled while the one before leaves.
Ops TrainingStep::open_buckets() {
  if (!plan_.offload.used() || plan_.zero != ZeroStage::gradients) co_return;
  for (; opened_ <= next_bucket_ && next_bucket_ < stage_.buckets.size(); ++opened_) {
    if (left_.front().count > 0) {
      wait_for(left_.front());
      co_yield settle();
    }
    const Bytes bytes = stage_.buckets[opened_].elements * plan_.gradient_element;
    co_yield holds(bytes.value, MemoryClass::gradients, words_.buckets[opened_], TrainingStreams::compute, {});
  }
}

/// Once reduced, the rank's share of a bucket is copied to the host, and there added to those of earlier micro-batches.
Ops TrainingStep::offload_gradients(std::size_t index, bool accumulate, Dep ready) {
  const Stream out = streams_.host(HostWay::to_host), host = streams_.host(HostWay::in_host);
  const double share = share_of(index);
  if (plan_.values) co_yield call_on(out, ready, TrainingCall::fill_share, index);
  // What came before has been added by now.
  Op& copied =
      host_op(HostWay::to_host, share * plan_.gradient_element, words_.gradients_out, ready, added_on_host_[index]);
  if (plan_.values) {
    copied.effect.action = Action::copy;
    copied.effect.read = whole(kShares, index);
    copied.effect.write = whole(kHostStaging, index);
  }
  co_yield out_.give_fresh();
  bucket_free_[index] = out_.after(out);
  left_ = {left_.back(), bucket_free_[index]};
  if (plan_.zero == ZeroStage::gradients)
    co_yield holds(-stage_.buckets[index].elements * plan_.gradient_element.value, MemoryClass::gradients,
                   words_.buckets[index], out, {});
  if (!accumulate && !plan_.values) co_return;
  const Bytes bytes = accumulate ? share * plan_.offload.addition : Bytes{};
  Op& added = host_op(HostWay::in_host, bytes, words_.add_on_host, bucket_free_[index], {});
  co_yield give_host(added, TrainingCall::keep_on_host, index);
  added_on_host_[index] = out_.after(host);
}

/// Numbers: the parameters that the host has from the beginning.
Ops TrainingStep::fill_host() {
  for (std::size_t b = 0; b < stage_.buckets.size(); ++b) co_yield call(TrainingCall::fill_host_parameters, b);
}

/// The rank's share of a bucket's parameters, on its way to the GPU before it is gathered.
Ops TrainingStep::fetch_share(std::size_t index) {
  const Dep now = out_.after(TrainingStreams::compute);
  const Stream in = streams_.host(HostWay::from_host);
  const Bytes bytes = share_of(index) * plan_.parameter_element;
  Dep read;
  if (plan_.offload.parameters == OffloadDevice::nvme) {
    Op& op = host_op(HostWay::drive_read, bytes, words_.read_parameters, now, {});
    co_yield give_host(op, TrainingCall::fill_host_parameters, index);
    read = out_.after(streams_.host(HostWay::drive_read));
  }
  Op& op = host_op(HostWay::from_host, bytes, words_.parameters_in, now, read);
  if (plan_.values) {
    op.effect.action = Action::copy;
    op.effect.read = whole(kHostParameters, index);
    op.effect.write = whole(kOwnParameters, index);
  }
  co_yield out_.give_fresh();
  if (plan_.values) co_yield call_on(in, {}, TrainingCall::take_own, index);
}

/// One bucket's share: states from the drive and back, the update, the new parameters to the GPU.
Ops TrainingStep::update_tile(std::size_t index, Dep begun) {
  const double share = share_of(index);
  const bool on_drive = plan_.offload.optimizer == OffloadDevice::nvme,
             parameters_on_drive = plan_.offload.parameters == OffloadDevice::nvme;
  const Stream host = streams_.host(HostWay::in_host);
  // New parameters of two buckets are in host memory at most.
  Dep read = index + 2 < back_.size() && back_[index + 2].count > 0 ? back_[index + 2] : begun;
  if (on_drive) {
    const auto most = static_cast<std::size_t>(plan_.offload.buffers);
    const Dep room = written_.size() < most ? Dep{} : written_[written_.size() - most];
    Op& op = host_op(HostWay::drive_read, share * plan_.offload.states, words_.read_states, read, room);
    co_yield give_host(op, TrainingCall::read_states, index);
    read = out_.after(streams_.host(HostWay::drive_read));
  }
  // Gradients are scaled by their norm, so that all must be there.
  Op& update = host_op(HostWay::in_host, share * plan_.offload.update, words_.optimizer_step,
                       out_.after(streams_.host(HostWay::to_host)), read);
  co_yield give_host(update, TrainingCall::update_on_host, index);
  if (on_drive || parameters_on_drive) {
    const Bytes bytes = (on_drive ? share * plan_.offload.states : Bytes{}) +
                        (parameters_on_drive ? share * plan_.parameter_element : Bytes{});
    Op& op = host_op(HostWay::drive_write, bytes, words_.write_states, out_.after(host), {});
    co_yield give_host(op, TrainingCall::write_states, index);
    written_.push_back(out_.after(streams_.host(HostWay::drive_write)));
  }
  if (plan_.offload.parameters != OffloadDevice::none) co_return;
  const Stream in = streams_.host(HostWay::from_host);
  Op& copied = host_op(HostWay::from_host, share * plan_.parameter_element, words_.parameters_in, out_.after(host), {});
  if (plan_.values) {
    copied.effect.action = Action::copy;
    copied.effect.read = whole(kHostParameters, index);
    copied.effect.write = whole(kOwnParameters, index);
  }
  co_yield out_.give_fresh();
  if (plan_.values) co_yield call_on(in, {}, TrainingCall::take_own, index);
  back_[index] = out_.after(in);
}

/// Bucket by bucket, the first layers' first: while one is updated, those before it go back to the GPU.
Ops TrainingStep::update_on_host() {
  co_yield settle();
  const Dep begun = out_.after(TrainingStreams::compute);
  written_.clear();
  back_.assign(stage_.buckets.size(), {});
  for (std::size_t b = stage_.buckets.size(); b-- > 0;) co_yield update_tile(b, begun);
  for (const HostWay way : {HostWay::to_host, HostWay::in_host, HostWay::from_host, HostWay::drive_write})
    wait_for(out_.after(streams_.host(way)));
  if (plan_.values) {
    co_yield settle();
    co_yield call(TrainingCall::update, 0);
  }
  if (!shares_out() || plan_.zero == ZeroStage::parameters || plan_.overlap_parameters) co_return;
  for (std::size_t b = stage_.buckets.size(); b-- > 0;) co_yield gather(b, back_[b]);
  for (const Lane lane : {Lane::parameters, Lane::expert_parameters})
    if (plan_.lane(lane).used()) wait_for(out_.after(streams_.recv(lane)));
}

}  // namespace trainyard
