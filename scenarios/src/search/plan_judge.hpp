#pragma once
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "scenarios/src/search/plan_memory.hpp"
#include "scenarios/src/search/plan_space.hpp"

namespace trainyard {

/// What is known of a plan without simulating it.
struct JudgedPlan {
  PlanMemory memory;
  double floor = 0;   ///< s: no step of it is shorter
  double tasks = 0;   ///< that its stages have: passes of a micro-batch
  std::string error;  ///< why there is no such plan; empty: there is one

  bool fits(double capacity) const { return error.empty() && memory.peak.value <= capacity; }
};

/// Judges plans of one scenario, by its reader and by its layout. What several plans share is made once: networks and
/// the least times of their layers' passes.
class PlanJudge {
 public:
  PlanJudge(const Scenario&, const PlanSpace&);

  JudgedPlan judge(const PlanPoint&);
  /// Why there is no such plan; empty: there is one.
  std::string refusal(const PlanPoint&);
  /// No plan of these groups takes less time, s: stages share out what all layers take, and one of them has as much
  /// as their mean. Infinite where no plan can be read, or none fits: a stage holds the activations of a micro-batch
  /// of its layers. The groups differ in micro-batch and stages alone, with rising micro-batches.
  std::vector<double> group_floors(const std::vector<PlanPoint>& groups);
  /// The whole scenario with that plan, to be simulated. Throws UserError.
  Scenario scenario(const PlanPoint&);
  /// One rank's part of its network.
  std::shared_ptr<const Network> share(const Scenario&);
  /// Bytes of the GPU that has the most.
  double capacity() const { return capacity_; }

 private:
  struct Share {
    std::string key;
    std::shared_ptr<const Network> network;  // null: there is none
    std::string error;
  };
  /// Of a micro-batch through all layers.
  struct Passes {
    double largest_layer = 0, activations = 0;  // bytes
    double seconds = 0;                         // at least
  };
  Scenario of_;  // without sources: nobody asks a plan for them, and each would be a copy
  const PlanSpace& space_;
  double capacity_ = 0;
  std::deque<Share> shares_;  // the latest
  std::map<std::string, Passes> passes_;
  std::map<std::int64_t, Network> whole_;  // by micro-batch

  std::string share_key(const Scenario&) const;
  const Passes& passes(const Scenario&);
};

/// Judges of one scenario for threads that ask at the same time: each is lent to one of them, and remembers what it has
/// made.
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
  const PlanJudge first_;  // the others are copies of it
  std::mutex mutex_;
  std::vector<std::unique_ptr<PlanJudge>> idle_;
};

}  // namespace trainyard
