#pragma once
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "scenarios/src/search/pass_floors.hpp"
#include "scenarios/src/search/plan_memory.hpp"
#include "scenarios/src/search/plan_space.hpp"

namespace trainyard {

/// The properties of a plan that are known without a simulation.
struct JudgedPlan {
  PlanMemory memory;
  double floor = 0;   ///< lower bound of its step time, s
  double tasks = 0;   ///< number of tasks of its stages; a task is a pass of a micro-batch
  std::string error;  ///< why there is no such plan; empty: there is one

  bool fits(double capacity) const { return error.empty() && memory.fits && memory.peak.value <= capacity; }
};

/// Judges plans of one scenario by reading and laying them out. It reuses what several plans share: networks and the
/// lower bounds of their layers' passes.
class PlanJudge {
 public:
  PlanJudge(const Scenario&, const PlanSpace&);

  JudgedPlan judge(const PlanPoint&);
  /// Returns why there is no such plan; empty: there is one.
  std::string refusal(const PlanPoint&);
  /// Returns a lower bound of the step times of all plans of each group, s. Stages divide the time of all layers, and
  /// at least one stage has the mean time. Infinite: no plan of the group can be read, or none fits, because each stage
  /// stores at least the activations of one micro-batch of its layers. The groups must differ only in micro-batch and
  /// stages, with rising micro-batches.
  std::vector<double> group_floors(const std::vector<PlanPoint>& groups);
  /// Returns the complete scenario with this plan, to be simulated. Throws UserError.
  Scenario scenario(const PlanPoint&);
  /// Returns one rank's part of the scenario's network.
  std::shared_ptr<const Network> share(const Scenario&);
  /// Returns the memory of the largest GPU, bytes.
  double capacity() const { return capacity_; }

 private:
  /// Everything on which a network's layers depend.
  struct ShareKey {
    std::int64_t micro_batch = 0;
    bool splits_model = false, ends_apart = false;
    Sharding sharding;

    auto operator<=>(const ShareKey&) const = default;
  };
  struct Share {
    ShareKey key;
    std::shared_ptr<const Network> network;  // null: the model cannot be split in this way
    std::string error;
  };
  Scenario scenario_;  // without sources: plans do not need them, and each plan would copy them
  const PlanSpace& space_;
  double capacity_ = 0;
  std::deque<Share> shares_;  ///< the newest shares, the last one at the end
  /// Floors indexed by share, pairs of passes, recomputed blocks, data ranks and stages.
  std::map<std::tuple<ShareKey, bool, int, int, int>, std::shared_ptr<const PassFloors>> floors_;
  std::map<std::int64_t, Network> whole_networks_;  // unsharded networks by micro-batch

  static ShareKey share_key(const Scenario&);
  const PassFloors& floors(const Scenario&, const std::shared_ptr<const Network>& share);
};

/// A pool of judges of one scenario for concurrent threads. Each judge is lent to one thread at a time and keeps its
/// cache.
class PlanJudges {
 public:
  PlanJudges(const Scenario& scenario, const PlanSpace& space) : first_(scenario, space) {}

  struct GiveBack {
    PlanJudges* to;
    void operator()(PlanJudge*) const;
  };
  using Loan = std::unique_ptr<PlanJudge, GiveBack>;
  Loan lend();
  double capacity() const { return first_.capacity(); }

 private:
  const PlanJudge first_;  // the other judges are copies of it
  std::mutex mutex_;
  std::vector<std::unique_ptr<PlanJudge>> idle_;
};

}  // namespace trainyard
