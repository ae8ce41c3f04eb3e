#include "scenarios/src/running/host_calls.hpp"

#include <algorithm>

#include "strategies/step/training_streams.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

/// Returns true if, in each group of the lane, all ranks are on chips that links of their own join.
bool is_on_chips(const LaneGroups& lane, const ClusterSpec& cluster) {
  return std::ranges::all_of(lane.groups, [&cluster](const LaneGroup& group) {
    const int first = cluster.node_of_gpu(group.members.front());
    return std::ranges::all_of(group.members, [&](int rank) {
      return cluster.joins_chips() && cluster.same_slice(first, cluster.node_of_gpu(rank));
    });
  });
}

}  // namespace

HostCallCount::HostCallCount(Actor ranks, const TrainingPlan& plan, const ClusterSpec& cluster,
                             const SoftwareStack& stack, const PassTables& tables, const Names& names)
    : stack_(stack),
      tables_(tables),
      words_(tables.words()),
      names_(names),
      offloads_(plan.offload.copies()),
      calls_(position(ranks)) {
  const TrainingStreams streams(plan);
  group_by_stream_.fill(words_.lane[static_cast<std::size_t>(Lane::gradients)]);
  stays_on_chips_.fill(cluster.joins_chips() && cluster.slices() == 1);
  for (std::size_t l = 0; l < words_.lane.size(); ++l) {
    const auto lane = static_cast<Lane>(l);
    if (!plan.lane(lane).is_used()) continue;
    group_by_stream_[streams.recv(lane)] = words_.lane[l];
    stays_on_chips_[words_.lane[l]] = is_on_chips(plan.lane(lane), cluster);
  }
}

void HostCallCount::finished(const OpRun& run) {
  if (position(run.op->actor) >= calls_.size()) return;
  Calls& calls = calls_[run.op->actor];
  if (run.whole_series()) return count_whole(calls, run);
  run.for_each_op([&](const Op& op) { count(calls, op); });
}

/// Counts a series whose parts have all ended. The counts are whole numbers, so that their order does not matter.
void HostCallCount::count_whole(Calls& calls, const OpRun& run) {
  std::optional<Calls>& more = calls_of_whole_[run.whole_series()][calls.in_graph ? 1 : 0];
  if (!more) {
    more.emplace().in_graph = calls.in_graph;
    run.for_each_op([&](const Op& op) { count(*more, op); });
  }
  calls.kernels += more->kernels;
  calls.launches += more->launches;
  calls.exchanges += more->exchanges;
  calls.through_adapters += more->through_adapters;
  calls.copies += more->copies;
  calls.in_graph = more->in_graph;
}

void HostCallCount::count(Calls& calls, const Op& op) const {
  const Group& group = names_.groups()[op.group];
  switch (op.kind) {
    case Kind::compute:
    case Kind::local:  // sums within a collective are part of its kernel
      if (group.role == Role::work) count_kernels(calls, op.work);
      break;
    case Kind::join:  // a modelled collective, or a barrier without bytes and latency of its own
      if (offloads_ && std::ranges::find(words_.host, op.group) != words_.host.end())
        calls.copies += op.group == words_.host[static_cast<std::size_t>(HostTransfer::to_host)] ? 1 : 0;
      else if (op.message.bytes.value > 0 || op.message.extra_latency.count > 0)
        count_exchange(calls, op.group);
      break;
    case Kind::mark:  // the end of a collective that is simulated by its messages
      if (op.name == words_.wait_for_messages && op.stream != TrainingStreams::compute)
        count_exchange(calls, group_by_stream_[op.stream]);
      break;
    case Kind::send:
    case Kind::recv:
      if (group.name == kInputGroup)
        calls.copies += op.kind == Kind::recv ? 1 : 0;
      else if (group.role == Role::point_to_point)
        count_exchange(calls, op.group);
      break;
    case Kind::delay:
    case Kind::series:
      break;
  }
}

void HostCallCount::count_kernels(Calls& calls, const Work& work) const {
  const auto add = [&](const Work& kernel) {
    if (!is_kernel(kernel.kernel) && kernel.kernel != kBucketCopy) return;
    calls.kernels += kernel.launches;
    if (!calls.in_graph) calls.launches += stack_.host.cuda_graphs ? 1 : kernel.launches;
    calls.in_graph = stack_.host.cuda_graphs;
  };
  if (!is_fused(work.kernel)) return add(work);
  for (const Work& kernel : tables_.fused().runs()[work.kernel - kFirstFused]) add(kernel);
}

void HostCallCount::count_exchange(Calls& calls, GroupId group) const {
  calls.exchanges += 1;
  if (!stays_on_chips_[group]) calls.through_adapters += 1;
  calls.in_graph = false;
}

}  // namespace trainyard
