// Replicas that do not wait for the newest gradients of all others: delayed updates, local steps, gossip.
#include <algorithm>

#include "strategies/step/training_step.hpp"

namespace trainyard {
namespace {
constexpr Tag kGossipMessages = Tag{29} << 27;
}

Stream TrainingStep::sends(Lane lane) const {
  return lane == Lane::gradients ? streams_.of_delayed(slot_) : streams_.send(lane);
}
Stream TrainingStep::receives(Lane lane) const { return static_cast<Stream>(sends(lane) + 1); }

/// The exchange of a step that nobody waits for yet: what the backward pass has left goes out too.
Ops TrainingStep::leave_gradients() {
  co_yield settle();
  if (!plan_.overlap_gradients)
    for (std::size_t b = 0; b < stage_.buckets.size(); ++b) co_yield exchange_gradients(b, false);
  delayed_[static_cast<std::size_t>(slot_)] = exchanged_;
}

/// The update by the gradients of a step some steps ago, once they are there.
Ops TrainingStep::update_delayed(int step) {
  const int slot = step % (plan_.updates.delay + 1);
  const auto& exchanged = delayed_[static_cast<std::size_t>(slot)];
  for (const auto& [bucket, over] : exchanged) {
    if (!plan_.bucket_copy && bucket != exchanged.back().first) continue;  // a stream ends in order
    wait_for(over);
    if (plan_.bucket_copy) co_yield copy(stage_.buckets[bucket], words_.copy_out);
  }
  if (plan_.bucket_copy && plan_.host_buckets) wait_for(out_.after(TrainingStreams::coordinator));
  while (waiting_ > 2) co_yield meet();
  co_yield work(stage_.optimizer, Kind::local, words_.optimizer, words_.optimizer_step);
  if (plan_.values) co_yield call(TrainingCall::update, static_cast<std::size_t>(slot));
}

/// After a step of its own, whatever a replica does with others.
Ops TrainingStep::meet_replicas(int step) {
  if (plan_.updates.local_steps > 0 && (step + 1) % plan_.updates.local_steps == 0) co_yield average_replicas();
  if (plan_.updates.gossip) co_yield gossip(step);
}

/// Parameters of all replicas are averaged (local SGD: Stich 2019); what the optimizer keeps stays.
Ops TrainingStep::average_replicas() {
  co_yield settle();
  for (std::size_t b = stage_.buckets.size(); b-- > 0;) {
    if (plan_.values) co_yield call(TrainingCall::fill_parameters, b);
    co_yield collective(Lane::gradients, Operation::all_reduce, stage_.buckets[b].elements * plan_.parameter_element,
                        words_.average, static_cast<std::uint16_t>(kParameters + b), 0,
                        out_.after(TrainingStreams::compute));
    if (plan_.values) co_yield call_on(streams_.recv(Lane::gradients), {}, TrainingCall::take_parameters, b);
  }
  wait_for(out_.after(streams_.recv(Lane::gradients)));
  co_yield settle();
}

/// Parameters to all neighbours of this round, theirs in, and the weighted average of all. All messages go side by side:
/// no link then has more of them than a rank has neighbours, so that none takes longer than as many would one by one.
Ops TrainingStep::gossip(int round) {
  const std::vector<int> around = plan_.updates.gossip->neighbours(rank_, round);
  if (around.empty()) co_return;
  co_yield settle();
  double elements = 0;
  for (const GradientBucket& bucket : stage_.buckets) elements += bucket.elements;
  const Bytes bytes = elements * plan_.parameter_element;
  if (plan_.values) co_yield call(TrainingCall::give_replica, 0);
  const Dep ready = out_.after(TrainingStreams::compute);
  for (std::size_t i = 0; i < around.size(); ++i) co_yield tell_neighbour(around, i, bytes, ready);
  for (std::size_t i = 0; i < around.size(); ++i) co_yield hear_neighbour(around, i, bytes, ready);
  const auto ways = static_cast<std::size_t>(streams_.gossip_ways());
  for (std::size_t way = 0; way < std::min(ways, around.size()); ++way) {
    while (waiting_ > 2) co_yield meet();
    wait_for(out_.after(streams_.gossip(way)));
  }
  wait_for(out_.after(streams_.recv(Lane::gradients)));
  while (waiting_ > 2) co_yield meet();
  Work mix;  // all read, one written
  mix.kernel = static_cast<std::uint16_t>(Kernel::elementwise);
  mix.precision = stage_.optimizer.precision;
  mix.bytes = bytes * static_cast<double>(around.size() + 2);
  co_yield work(mix, Kind::local, words_.optimizer, words_.average);
  co_yield holds(-bytes.value * static_cast<double>(around.size()), MemoryClass::buffers, words_.average,
                 TrainingStreams::compute, {});
  if (plan_.values) co_yield call(TrainingCall::mix_replicas, around.size());
}

Op& TrainingStep::gossip_op(Kind kind, Stream stream, int peer, Dep ready) {
  Op& op = out_.fresh(kind, stream);
  op.group = words_.lane[static_cast<std::size_t>(Lane::gradients)];
  op.name = words_.average;
  op.message.slot = gossip_slot(peer);
  op.message.tag = kGossipMessages;
  op.message.mode = Mode::put;  // whoever is ready first sends first
  op.deps[0] = ready;
  return op;
}

/// Where neighbours share streams, each rank begins with those next to it upwards: not all with the same one.
const Op& TrainingStep::tell_neighbour(const std::vector<int>& around, std::size_t i, Bytes bytes, Dep ready) {
  const auto above = static_cast<std::size_t>(std::upper_bound(around.begin(), around.end(), rank_) - around.begin());
  Op& op = gossip_op(Kind::send, streams_.gossip(i), around[(above + i) % around.size()], ready);
  op.message.bytes = bytes;
  if (plan_.values) op.effect.read = {kReplicas, 0, 1};
  return out_.give_fresh();
}

const Op& TrainingStep::hear_neighbour(const std::vector<int>& around, std::size_t i, Bytes bytes, Dep ready) {
  Op& op = gossip_op(Kind::recv, streams_.recv(Lane::gradients), around[i], ready);
  op.memory.change = bytes.value;
  op.set_memory_class(static_cast<std::uint8_t>(MemoryClass::buffers));
  if (plan_.values) {
    op.effect.action = Action::copy;
    op.effect.write = {static_cast<std::uint16_t>(kReplicas + 1 + i), 0, 1};
  }
  return out_.give_fresh();
}

std::uint16_t TrainingStep::gossip_slot(int peer) const {
  const auto at = std::lower_bound(peers_.gossip.begin(), peers_.gossip.end(), peer);
  return static_cast<std::uint16_t>(peers_.first_gossip + (at - peers_.gossip.begin()));
}

}  // namespace trainyard
