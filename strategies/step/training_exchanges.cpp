// What replicas exchange: gradients, and where they share these out, parameters.
#include <algorithm>

#include "strategies/collectives/collective_flows.hpp"
#include "strategies/step/training_step.hpp"

namespace trainyard {
namespace {

Lane gradient_lane(bool experts) { return experts ? Lane::expert_gradients : Lane::gradients; }
Lane parameter_lane(bool experts) { return experts ? Lane::expert_parameters : Lane::parameters; }
Lane copies_lane(bool experts) { return experts ? Lane::expert_copies : Lane::copies; }

}  // namespace

bool TrainingStep::exchanges_gradients(bool experts) const {
  if (plan_.updates.alone()) return false;
  return plan_.lane(gradient_lane(experts)).used() || plan_.lane(copies_lane(experts)).used();
}

/// One collective of this rank's group on a lane, on the lane's streams; its receiving stream ends with it.
Ops TrainingStep::collective(Lane lane, Operation operation, Bytes bytes, NameId name, std::uint16_t buffer,
                             std::uint16_t input, Dep start, int part, int parts) {
  const auto at = static_cast<std::size_t>(lane);
  const LaneGroups& groups = plan_.lanes[at];
  if (!groups.used() || groups.of_rank[static_cast<std::size_t>(rank_)] < 0) co_return;
  const LaneGroup& group = groups.of(rank_);
  const int size = static_cast<int>(group.members.size());
  CollectiveCall call;
  call.send_stream = sends(lane);
  call.recv_stream = receives(lane);
  call.more_streams = streams_.more_of_delayed(slot_);
  call.group_flow = static_cast<std::uint16_t>(lane);
  const Peers::OfCollective& peers = peers_.collectives[at][static_cast<std::size_t>(operation)];
  call.first_slot = peers.first_slot;
  call.group = words_.lane[at];
  call.name = name;
  call.tag = static_cast<Tag>(lane) << 27 | ++calls_[at];
  call.group_of = group.members.front();
  call.buffer = buffer;
  call.input = input;
  call.start = start;
  call.launch = to_picoseconds(plan_.collective_launch);
  const int index =
      static_cast<int>(std::find(group.members.begin(), group.members.end(), rank_) - group.members.begin());
  Local me(out_, {index, size, &group.settings}, peers.peers, call, bytes);
  if (parts > 1) me = me.within({bytes, {buffer, static_cast<std::uint16_t>(part), static_cast<std::uint16_t>(parts)}});
  Ops all = collective_ops(*groups.algorithm[static_cast<std::size_t>(operation)], me, bytes);
  co_yield all;
  if (group.settings.fidelity == Fidelity::modelled) co_return;
  // One stream to wait for.
  Op& op = out_.fresh(Kind::mark, call.recv_stream);
  op.name = words_.meet;
  op.deps[0] = out_.after(call.send_stream);
  co_yield out_.give_fresh();
}

/// The coordinator finds the bucket full at its next tick.
const Op& TrainingStep::wait_for_tick() {
  Op& op = out_.fresh(Kind::delay, TrainingStreams::coordinator);
  op.work.kernel = plan_.wait_kernel;
  op.group = words_.framework;
  op.name = words_.wait;
  op.deps[0] = out_.after(TrainingStreams::compute);
  return out_.give_fresh();
}

/// A bucket filled from the gradients, or given back to them: a kernel of the GPU, or work of the coordinator in host
/// memory.
const Op& TrainingStep::copy(const GradientBucket& bucket, NameId name) {
  Op& op = plan_.host_buckets ? out_.fresh(Kind::delay, TrainingStreams::coordinator)
                              : out_.fresh(Kind::local, TrainingStreams::compute);
  op.work.kernel = plan_.copy_kernel;
  op.work.precision = stage_.optimizer.precision;
  op.work.bytes = 2 * bucket.elements * plan_.gradient_element;
  op.group = plan_.host_buckets ? words_.framework : words_.compute;
  op.name = name;
  take_waits(op);
  return out_.give_fresh();
}

/// Buckets leave in their order, each once its last gradient is there.
Ops TrainingStep::gradients_after(int layer, int kernel, bool first, bool last) {
  while (next_bucket_ < stage_.buckets.size()) {
    const GradientBucket& bucket = stage_.buckets[next_bucket_];
    if (bucket.layer < layer || (bucket.layer == layer && bucket.kernel > kernel)) break;
    co_yield open_buckets();
    if (!bucket.late) co_yield exchange_gradients(next_bucket_, leaves_each_micro_batch() && !first);
    ++next_bucket_;
  }
  co_yield open_buckets();
  // The next micro-batch begins with the first of the chunk again.
  if (!last && next_bucket_ == stage_.buckets.size()) next_bucket_ = opened_ = 0;
}

Ops TrainingStep::exchange_gradients(std::size_t index, bool accumulate) {
  const GradientBucket& bucket = stage_.buckets[index];
  const Lane lane = gradient_lane(bucket.experts), copies = copies_lane(bucket.experts);
  if (!exchanges_gradients(bucket.experts)) {
    if (plan_.offload.used()) co_yield offload_gradients(index, accumulate, out_.after(TrainingStreams::compute));
    co_return;
  }
  const Bytes bytes = bucket.elements * plan_.gradient_element;
  const bool on_host = plan_.bucket_copy && plan_.host_buckets;
  if (on_host && plan_.wait_kernel != 0) co_yield wait_for_tick();
  if (plan_.bucket_copy) {
    if (on_host) {
      copy(bucket, words_.copy_in);
      co_yield out_.remake([this](Op& op) { op.deps[0] = out_.after(TrainingStreams::compute); });
    } else {
      co_yield copy(bucket, words_.copy_in);
    }
  }
  const std::size_t place = index + static_cast<std::size_t>(slot_) * stage_.buckets.size();
  if (plan_.values) {
    if (bucket_free_[place].count > 0) wait_for(bucket_free_[place]);
    co_yield settle();
    co_yield call(TrainingCall::fill_bucket, place);
  }
  if (!on_host && plan_.wait_kernel != 0) co_yield wait_for_tick();
  const Dep start = out_.after(plan_.coordinated() ? TrainingStreams::coordinator : TrainingStreams::compute);
  const auto buffer = static_cast<std::uint16_t>(place);
  const NameId name = words_.buckets[index];
  if (plan_.lane(lane).used())
    co_yield collective(lane, shares_out() ? Operation::reduce_scatter : Operation::all_reduce, bytes, name, buffer, 0,
                        start);
  Stream ends = receives(lane);
  if (plan_.lane(copies).used()) {
    const std::vector<int> shared = zero_group(plan_, rank_, bucket.experts);
    const int parts = static_cast<int>(shared.size());
    const int own = static_cast<int>(std::find(shared.begin(), shared.end(), rank_) - shared.begin());
    co_yield collective(copies, Operation::all_reduce, bytes / parts, name, buffer, 0,
                        plan_.lane(lane).used() ? out_.after(streams_.recv(lane)) : start, own, parts);
    ends = streams_.recv(copies);
  }
  if (accumulate && !plan_.offload.used()) {  // to the share of earlier micro-batches
    const double part = static_cast<double>(zero_group(plan_, rank_, bucket.experts).size());
    Op& op = out_.fresh(Kind::local, ends);
    op.work = plan_.accumulation;
    op.work.bytes = op.work.bytes * (bucket.elements / part);
    op.group = words_.compute;
    op.name = words_.accumulate;
    co_yield out_.give_fresh();
  }
  if (plan_.values) co_yield call_on(ends, {}, TrainingCall::keep_gradients, place);
  if (plan_.offload.used()) {
    co_yield offload_gradients(index, accumulate, out_.after(ends));
    co_return;
  }
  exchanged_.emplace_back(static_cast<std::uint16_t>(index), out_.after(ends));
  bucket_free_[place] = out_.after(ends);
}

/// The parameters of a bucket from those that share them out; `start`: the rank's own are there (else: by now).
Ops TrainingStep::gather(std::size_t index, Dep start) {
  const GradientBucket& bucket = stage_.buckets[index];
  const Lane lane = parameter_lane(bucket.experts);
  if (plan_.offload.parameters != OffloadDevice::none) {
    co_yield fetch_share(index);
    start = out_.after(streams_.host(HostWay::from_host));
  }
  if (!plan_.lane(lane).used()) co_return;
  if (plan_.values && start.count > 0) {  // numbers are filled in by the compute stream
    wait_for(start);
    co_yield settle();
  }
  if (plan_.values) co_yield call(TrainingCall::fill_parameters, index);
  co_yield collective(lane, Operation::all_gather, bucket.elements * plan_.parameter_element, words_.gather_parameters,
                      static_cast<std::uint16_t>(kParameters + index), 0,
                      start.count > 0 && !plan_.values ? start : out_.after(TrainingStreams::compute));
  if (plan_.values) co_yield call_on(streams_.recv(lane), {}, TrainingCall::take_parameters, index);
}

/// Every bucket, the first layers' first.
Ops TrainingStep::gather_all() {
  for (std::size_t b = stage_.buckets.size(); b-- > 0;) {
    co_yield gather(b);
    const Lane lane = parameter_lane(stage_.buckets[b].experts);
    if (!plan_.lane(lane).used()) continue;
    const Dep ready = out_.after(streams_.recv(lane));
    for (std::size_t layer = 0; layer < buckets_of_layer_.size(); ++layer)
      if (const std::vector<int>& of = buckets_of_layer_[layer];
          std::find(of.begin(), of.end(), static_cast<int>(b)) != of.end())
        parameters_ready_[layer].push_back(ready);
  }
  // One dependency says it for all buckets of a lane that came before it.
  for (std::vector<Dep>& ready : parameters_ready_) {
    std::vector<Dep> latest;
    for (const Dep& dep : ready) {
      const auto same =
          std::find_if(latest.begin(), latest.end(), [&](const Dep& d) { return d.stream == dep.stream; });
      if (same == latest.end())
        latest.push_back(dep);
      else
        same->count = std::max(same->count, dep.count);
    }
    ready = latest;
  }
}

void TrainingStep::plan_visits() {
  std::vector<bool> met(plan_.network->layers.size());
  for (const PipelineTask& task : stage_.tasks) {
    std::vector<int> layers = stage_.chunks[static_cast<std::size_t>(task.chunk)];
    if (task.pass != PipelineTask::Pass::forward) std::reverse(layers.begin(), layers.end());
    for (const int layer : layers) {
      const bool again = met[static_cast<std::size_t>(layer)];
      met[static_cast<std::size_t>(layer)] = true;
      // Gradients of weights are products of activations and gradients: no weights in them.
      const bool computes_with = task.pass != PipelineTask::Pass::backward_weights;
      visits_.push_back({layer, computes_with && (plan_.reshard || !again)});
    }
  }
}

/// Stage 3: parameters of the layers to come are gathered while this one runs. A layer whose forward and backward pass
/// follow each other is gathered for the second one when the first one's parameters are dropped.
Ops TrainingStep::begin_visit() {
  const std::size_t ahead = visit_ + 1 + static_cast<std::size_t>(std::max(plan_.prefetch, 0));
  for (; next_gather_ < std::min(ahead, visits_.size()); ++next_gather_) {
    const auto [layer, gathers] = visits_[next_gather_];
    if (!gathers) continue;
    if (next_gather_ > visit_ && visits_[next_gather_ - 1].layer == layer) break;
    for (const int needed : weights_of(layer)) {
      if (gathered_[static_cast<std::size_t>(needed)]++ > 0) continue;
      co_yield gather_layer(needed);
      for (const Dep& ready : parameters_ready_[static_cast<std::size_t>(needed)])
        if (needed != layer) parameters_ready_[static_cast<std::size_t>(layer)].push_back(ready);
    }
  }
}

/// Layers whose parameters a layer computes with: its own, and of a tied head the first one's.
std::vector<int> TrainingStep::weights_of(int layer) const {
  if (layer > 0 && plan_.network->layers[static_cast<std::size_t>(layer)].tied_elements > 0) return {layer, 0};
  return {layer};
}

/// Nobody computes with them any more.
Ops TrainingStep::drop_layer(int layer) {
  if (--gathered_[static_cast<std::size_t>(layer)] > 0) co_return;
  double elements = 0;
  for (const int bucket : buckets_of_layer_[static_cast<std::size_t>(layer)]) {
    elements += stage_.buckets[static_cast<std::size_t>(bucket)].elements;
    if (plan_.values) co_yield call(TrainingCall::drop_parameters, static_cast<std::size_t>(bucket));
  }
  if (elements > 0)
    co_yield holds(-elements * plan_.parameter_element.value, MemoryClass::parameters, words_.drop_parameters,
                   TrainingStreams::compute, {});
}

Ops TrainingStep::gather_layer(int layer) {
  double bytes = 0;
  for (const int bucket : buckets_of_layer_[static_cast<std::size_t>(layer)])
    bytes += stage_.buckets[static_cast<std::size_t>(bucket)].elements * plan_.parameter_element.value;
  if (bytes > 0) co_yield holds(bytes, MemoryClass::parameters, words_.gather_parameters, TrainingStreams::compute, {});
  for (const int bucket : buckets_of_layer_[static_cast<std::size_t>(layer)]) {
    co_yield gather(static_cast<std::size_t>(bucket));
    const Lane lane = parameter_lane(stage_.buckets[static_cast<std::size_t>(bucket)].experts);
    if (plan_.lane(lane).used())
      parameters_ready_[static_cast<std::size_t>(layer)].push_back(out_.after(streams_.recv(lane)));
    else if (plan_.offload.parameters != OffloadDevice::none)
      parameters_ready_[static_cast<std::size_t>(layer)].push_back(out_.after(streams_.host(HostWay::from_host)));
  }
}

/// The layer's parameters are dropped; after its backward pass its gradients are shared out.
Ops TrainingStep::end_visit(int layer, Pass pass, bool first, bool last) {
  const std::vector<int>& buckets = buckets_of_layer_[static_cast<std::size_t>(layer)];
  double elements = 0;
  for (const int bucket : buckets) elements += stage_.buckets[static_cast<std::size_t>(bucket)].elements;
  const bool gathered = visits_[visit_].gathers;
  ++visit_;
  const bool backward = pass == Pass::backward || pass == Pass::backward_weights;
  if (plan_.reshard ? gathered : backward && last)
    for (const int needed : weights_of(layer)) co_yield drop_layer(needed);
  if (!backward || elements == 0) co_return;
  // Gradients of two layers at most are there whole: FSDP waits for the exchange before the last one (PyTorch,
  // _fsdp_param_group.py, post_backward: reduce_scatter_state).
  for (const Dep& before : reduced_) wait_for(before);
  co_yield settle();
  reduced_.clear();
  const double gradients = elements * plan_.gradient_element.value;
  co_yield holds(gradients, MemoryClass::gradients, words_.buckets.front(), TrainingStreams::compute, {});
  Stream ends = TrainingStreams::compute;
  for (const int bucket : buckets) {
    const bool experts = stage_.buckets[static_cast<std::size_t>(bucket)].experts;
    co_yield exchange_gradients(static_cast<std::size_t>(bucket), !first);
    if (plan_.offload.used()) {
      ends = bucket_free_[static_cast<std::size_t>(bucket)].stream;
      reduced_.push_back(bucket_free_[static_cast<std::size_t>(bucket)]);
      continue;
    }
    if (!exchanges_gradients(experts)) continue;
    ends = streams_.recv(plan_.lane(copies_lane(experts)).used() ? copies_lane(experts) : gradient_lane(experts));
    reduced_.push_back(out_.after(ends));
  }
  co_yield holds(-gradients, MemoryClass::gradients, words_.buckets.front(), ends, {});
}

/// What the backward pass has left to be exchanged, and what belongs to no replica.
Ops TrainingStep::finish_gradients() {
  co_yield settle();
  co_yield sum_tied();
  if (plan_.zero != ZeroStage::parameters)
    for (std::size_t b = 0; b < stage_.buckets.size(); ++b)
      if (!plan_.overlap_gradients || stage_.buckets[b].late) co_yield exchange_gradients(b, false);
  for (const bool experts : {false, true})
    for (const Lane lane : {gradient_lane(experts), copies_lane(experts)})
      if (plan_.lane(lane).used() && !exchanged_.empty()) wait_for(out_.after(streams_.recv(lane)));
  if (plan_.bucket_copy) {
    waiting_ = 0;  // each copy waits for its own bucket
    for (const auto& [bucket, over] : exchanged_) {
      wait_for(over);
      co_yield copy(stage_.buckets[bucket], words_.copy_out);
    }
    if (plan_.host_buckets) wait_for(out_.after(TrainingStreams::coordinator));
  }
  co_yield sum_partial();
}

/// Norms that each tensor rank applies to tokens of its own: gradients of their weights are sums over these ranks.
Ops TrainingStep::sum_partial() {
  if (!plan_.lane(Lane::tensor).used()) co_return;
  double elements = 0;
  for (const std::vector<int>& layers : stage_.chunks)
    for (const int layer : layers)
      for (const ParameterTensor& tensor : plan_.network->layers[static_cast<std::size_t>(layer)].parameters)
        if (tensor.partial) elements += tensor.elements;
  if (elements == 0) co_return;
  co_yield settle();
  if (plan_.values) co_yield call(TrainingCall::fill_partial, 0);
  co_yield collective(Lane::tensor, Operation::all_reduce, elements * plan_.gradient_element, words_.partial, kPartial,
                      0, out_.after(TrainingStreams::compute));
  if (plan_.values) co_yield call_on(streams_.recv(Lane::tensor), {}, TrainingCall::take_partial, 0);
  wait_for(out_.after(streams_.recv(Lane::tensor)));
}

/// First and last stage have a gradient each of the weight that both hold.
Ops TrainingStep::sum_tied() {
  const LaneGroups& groups = plan_.lane(Lane::tied);
  if (!groups.used() || groups.of_rank[static_cast<std::size_t>(rank_)] < 0) co_return;
  const double elements = plan_.network->layers.front().parameters.front().elements;
  if (plan_.values) co_yield call(TrainingCall::fill_tied, 0);
  co_yield collective(Lane::tied, Operation::all_reduce, elements * plan_.gradient_element, words_.tied, kTied, 0,
                      out_.after(TrainingStreams::compute));
  if (plan_.values) co_yield call_on(streams_.recv(Lane::tied), {}, TrainingCall::take_tied, 0);
  wait_for(out_.after(streams_.recv(Lane::tied)));
  co_yield settle();
}

Ops TrainingStep::update() {
  if (plan_.offload.used()) {
    co_yield update_on_host();
    co_return;
  }
  while (waiting_ > 2) co_yield meet();
  co_yield work(stage_.optimizer, Kind::local, words_.optimizer, words_.optimizer_step);
  if (plan_.values) co_yield call(TrainingCall::update, 0);
  if (!shares_out() || plan_.zero == ZeroStage::parameters || plan_.overlap_parameters) co_return;
  for (std::size_t b = stage_.buckets.size(); b-- > 0;) co_yield gather(b);
  for (const Lane lane : {Lane::parameters, Lane::expert_parameters})
    if (plan_.lane(lane).used()) wait_for(out_.after(streams_.recv(lane)));
}

}  // namespace trainyard
