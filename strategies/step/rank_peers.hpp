#pragma once
#include <array>
#include <vector>

#include "strategies/plan/training_plan.hpp"
#include "strategies/step/stage_messages.hpp"

namespace trainyard {

/// The peers that a rank's training program names by slot.
struct RankPeers {
  struct CollectivePeers {
    std::vector<int> peers;  ///< their numbers in the group
    std::uint16_t first_slot = 0;
  };
  struct LanePeers {
    const LaneGroup* group = nullptr;          ///< null: the rank exchanges nothing on this lane
    int index = 0;                             ///< the rank's number in the group
    std::vector<CollectivePeers> collectives;  ///< indexed by operation; empty without a group
  };
  struct StagePeers {
    std::vector<StageMessage> sends, takes;
    bool has_messages() const { return !sends.empty() || !takes.empty(); }
  };
  std::array<LanePeers, kLanes> lanes;
  std::vector<StagePeers> stages;      ///< indexed by pipeline coordinate; empty for stages that are not neighbours
  StagePeers tied;                     ///< see `tied_messages`
  std::uint16_t first_of_updates = 0;  ///< first slot of UpdatePolicy::peers
  std::uint16_t input_slot = 0;
  std::vector<Actor> slots;
  std::array<const GroupFlow*, kLanes + kHostWays> flows{};  ///< indexed by lane, then by kind of transfer to the host

  RankPeers(int rank, const TrainingPlan&);
  const LanePeers& lane(Lane l) const { return lanes[static_cast<std::size_t>(l)]; }

 private:
  void add_slots(StagePeers&);
};

}  // namespace trainyard
