#include "strategies/step/training_programs.hpp"

#include "sim/hashing.hpp"
#include "strategies/plan/update_policy.hpp"
#include "strategies/step/host_offload.hpp"
#include "strategies/step/lane_collectives.hpp"
#include "strategies/step/rank_peers.hpp"

namespace trainyard {

TrainingPrograms::TrainingPrograms(const TrainingPlan& plan, Names& names)
    : plan_(plan), tables_(plan, names), streams_(plan), series_(plan, tables_, streams_) {}

std::unique_ptr<Program> TrainingPrograms::program(Actor rank) const {
  return training_program(rank, plan_, tables_, streams_, &series_);
}

/// A rank's program comes from its stage, and from the part that it has in the collectives of its groups.
ActorOutline TrainingPrograms::outline(Actor rank) const {
  const RankPeers peers(rank, plan_);
  ActorOutline outline;
  outline.text = hashed({static_cast<std::uint64_t>(plan_.mesh.of(rank).pipeline), update_policy_of(plan_).text(rank)});
  outline.slots = peers.slots;
  for (std::size_t i = 0; i < kLanes; ++i) {
    const RankPeers::OfLane& lane = peers.lanes[i];
    outline.text = hashed({outline.text, lane.group ? 1U : 0U});
    if (!lane.group) continue;
    const LaneGroups& groups = plan_.lanes[i];
    const LaneGroup& group = *lane.group;
    outline.text =
        hashed({outline.text, group.members.size(), static_cast<std::uint64_t>(groups.kinds[groups.of_rank[rank]])});
    const Fidelity fidelity = group.settings.fidelity;
    if (fidelity != Fidelity::messages)
      outline.meetings.push_back(
          {group_of_join(static_cast<Lane>(i), group.members.front()), peers.flows[i], static_cast<std::uint16_t>(i)});
    if (fidelity == Fidelity::modelled) continue;
    const GroupPlace place{lane.index, static_cast<int>(group.members.size()), &group.settings};
    for (const Collective* algorithm : groups.algorithm)
      if (algorithm) outline.text = hashed({outline.text, role_of(*algorithm, place)});
  }
  const auto add_messages = [&outline](const RankPeers::OfStage& of) {
    for (const std::vector<StageMessage>* messages : {&of.sends, &of.takes})
      for (const StageMessage& m : *messages)
        outline.text = hashed({outline.text, m.slot, m.part.chunk, m.part.of, m.part.count});
  };
  if (!plan_.mesh.widths.empty()) {
    for (const RankPeers::OfStage& of : peers.stages) add_messages(of);
    add_messages(peers.tied);
  }
  for (std::size_t way = 0; way < kHostWays && !plan_.offload.ways.empty(); ++way)
    outline.meetings.push_back({group_of_transfer(static_cast<HostWay>(way), rank), peers.flows[kLanes + way],
                                static_cast<std::uint16_t>(kLanes + way)});
  return outline;
}

Programs TrainingPrograms::all() const {
  Programs programs;
  for (int rank = 0; rank < plan_.ranks(); ++rank) programs.push_back(program(rank));
  return programs;
}

}  // namespace trainyard
