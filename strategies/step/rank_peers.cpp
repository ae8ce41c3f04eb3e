#include "strategies/step/rank_peers.hpp"

#include <algorithm>

#include "strategies/plan/update_policy.hpp"

namespace trainyard {
namespace {

constexpr Operation kUsed[] = {Operation::all_reduce, Operation::all_gather, Operation::reduce_scatter,
                               Operation::all_to_all, Operation::send_recv,  Operation::broadcast};

/// Returns for each stage: 1 if it exchanges activations with stage `stage`.
std::vector<char> neighbours_of(const TrainingPlan& plan, int stage) {
  std::vector<char> neighbours(static_cast<std::size_t>(plan.mesh.pipeline), 0);
  for (int v = 0; v + 1 < plan.virtual_stages(); ++v) {
    const int from = plan.place_of(v).stage, to = plan.place_of(v + 1).stage;
    if (from == to) continue;
    if (from == stage) neighbours[to] = 1;
    if (to == stage) neighbours[from] = 1;
  }
  return neighbours;
}

}  // namespace

RankPeers::RankPeers(int rank, const TrainingPlan& plan) {
  const auto next_slot = [this] { return static_cast<std::uint16_t>(slots.size()); };
  const auto r = static_cast<std::size_t>(rank);
  for (std::size_t i = 0; i < kLanes; ++i) {
    const LaneGroups& groups = plan.lanes[i];
    if (!groups.is_used() || groups.of_rank[r] < 0) continue;
    const LaneGroup& group = groups.group(rank);
    LanePeers& of_lane = lanes[i];
    of_lane.group = &group;
    of_lane.index = groups.index_of_rank[r];
    of_lane.collectives.resize(kOperations);
    if (group.settings.flow) flows[i] = group.settings.flow.get();
    const GroupPlace place{of_lane.index, static_cast<int>(group.members.size()), &group.settings};
    for (const Operation operation : kUsed) {
      const Collective* algorithm = groups.algorithm[static_cast<std::size_t>(operation)];
      if (!algorithm) continue;
      CollectivePeers& collective = of_lane.collectives[static_cast<std::size_t>(operation)];
      collective.first_slot = next_slot();
      collective.peers = peers_of(*algorithm, place);
      for (const int peer : collective.peers) slots.push_back(group.members[peer]);
    }
  }
  for (std::size_t way = 0; way < kHostWays && !plan.offload.ways.empty(); ++way)
    flows[kLanes + way] = &plan.offload.ways[r][way];
  const std::vector<char> neighbours = neighbours_of(plan, plan.mesh.coordinates(rank).pipeline);
  stages.reserve(neighbours.size());
  for (int stage = 0; stage < plan.mesh.pipeline; ++stage) {
    StagePeers& messages = stages.emplace_back();
    if (!neighbours[stage]) continue;
    messages = {stage_messages(plan, rank, stage, true), stage_messages(plan, rank, stage, false)};
    add_slots(messages);
  }
  tied = {tied_messages(plan, rank, true), tied_messages(plan, rank, false)};
  add_slots(tied);
  first_of_updates = next_slot();
  for (const int peer : update_policy_of(plan).peers(rank)) slots.push_back(peer);
  input_slot = next_slot();
  if (plan.input.is_used() && plan.input.loader_of_rank[r] >= 0) slots.push_back(plan.input.loader_of_rank[r]);
}

/// Assigns one slot to each peer.
void RankPeers::add_slots(StagePeers& stage) {
  const auto first = static_cast<std::ptrdiff_t>(slots.size());
  for (std::vector<StageMessage>* messages : {&stage.sends, &stage.takes})
    for (StageMessage& message : *messages) {
      const auto slot = std::find(slots.begin() + first, slots.end(), static_cast<Actor>(message.peer));
      message.slot = static_cast<std::uint16_t>(slot - slots.begin());
      if (slot == slots.end()) slots.push_back(message.peer);
    }
}

}  // namespace trainyard
