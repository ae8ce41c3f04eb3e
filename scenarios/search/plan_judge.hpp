#pragma once
#include <map>
#include <memory>
#include <string>

#include "scenarios/search/pass_floors.hpp"
#include "scenarios/search/plan_memory.hpp"
#include "scenarios/search/plan_space.hpp"

namespace trainyard {

/// What is known of a plan without simulating it.
struct JudgedPlan {
  PlanMemory memory;
  double floor = 0;   ///< s: no step of it is shorter
  std::string error;  ///< why there is no such plan; empty: there is one
};

/// Judges plans of one scenario, by its reader and by its layout. What several plans share is made once: networks and the
/// least times of their layers' passes.
class PlanJudge {
 public:
  PlanJudge(const Scenario&, const PlanSpace&);

  JudgedPlan judge(const PlanPoint&);
  /// No plan of the group takes less time, s: its stages share out what all layers take. Infinite where there is none.
  double group_floor(const PlanPoint& group);
  /// The whole scenario with that plan, to be simulated. Throws UserError.
  Scenario scenario(const PlanPoint&);
  /// One rank's part of its network.
  std::shared_ptr<const Network> share(const Scenario&);
  /// Bytes of the GPU that has the most.
  double capacity() const { return capacity_; }

 private:
  struct Share {
    std::shared_ptr<const Network> network;  // null: there is none
    std::string error;
  };
  const Scenario& of_;
  const PlanSpace& space_;
  double capacity_ = 0;
  std::map<std::string, Share> shares_;
  std::map<std::string, std::shared_ptr<const PassFloors>> floors_;
  std::map<std::int64_t, Network> whole_;  // by micro-batch

  std::string share_key(const Scenario&) const;
  const PassFloors& floors(const Scenario&, const std::shared_ptr<const Network>& share);
};

}  // namespace trainyard
