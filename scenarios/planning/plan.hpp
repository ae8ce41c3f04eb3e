#pragma once
#include <optional>
#include <string>

#include "scenarios/collectives/tuner.hpp"
#include "scenarios/reading/scenario.hpp"

namespace trainyard {

/// How a scenario is laid out on its cluster, before anything runs.
struct Plan {
  TrainingPlan training;        ///< `steps` are those that are looked at
  CollectiveChoice all_reduce;  ///< of gradients, with its algorithm
  std::optional<Tuning> tuned;  ///< of that, where the scenario says `auto`
  int warm_steps = 0;           ///< before the steps that are looked at: until all buffers are as full as they stay
  double compute_scale = 1;     ///< on modelled kernels and host work, so that a step alone takes what was measured
};

/// Lays a scenario out: layers on stages, tasks, buckets, memory, groups and how they communicate, the mechanism's part,
/// steps. `all_reduce: auto` is decided by simulating collectives alone. Throws UserError with the place for what does not
/// go together.
Plan plan(const Scenario&);

/// The same plan where the machine or the stack is faster (a what-if): layers, buckets and algorithms stay; what they
/// take is priced anew.
Plan replanned(Plan, const Scenario&, const ClusterSpec&, const SoftwareStack&);

/// What carries out its all-reduce: the algorithm, or the library that is modelled.
std::string all_reduce_name(const CollectiveChoice&);

}  // namespace trainyard
