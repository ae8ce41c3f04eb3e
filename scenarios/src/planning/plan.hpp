#pragma once
#include <optional>
#include <string>

#include "scenarios/src/collectives/tuner.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// How a run finds the steps that it looks at, where steps differ from each other (see SteadyState).
struct StepSearch {
  int unit = 1;        ///< what comes in turns does so again after so many steps
  int batch = 1;       ///< steps in one value of which the warm-up is told: multiple of `unit`
  int fewest = 1;      ///< from the first that may be looked at on, before anything is told
  bool given = false;  ///< as many steps as the scenario says; false: until their mean is known well enough
  bool warms = true;   ///< further steps of warm-up are looked for; false: those of Plan::warm_steps are all
};

/// How many operations all ranks together run in one step: those of the first and the last member of each group stand
/// for all (between them, in the trees and rings there are, lie the others).
struct StepOperations {
  double all = 0;
  double fused = 0;  ///< where kernels in a row may be one operation, they are
};

/// How a scenario is laid out on its cluster, before anything runs.
struct Plan {
  TrainingPlan training;  ///< `steps` are those that are looked at; the most of them, of a search until it is enough
  CollectiveChoice all_reduce;  ///< of gradients, with its algorithm
  std::optional<Tuning> tuned;  ///< of that, where the scenario says `auto`
  int warm_steps = 0;           ///< before the steps that are looked at: until all buffers are as full as they stay
  std::optional<StepSearch> search;  ///< none: all steps are alike
  StepOperations operations;         ///< how many a step has
  double compute_scale = 1;  ///< on modelled kernels and host work, so that a step alone takes what was measured
};

/// Lays a scenario out: layers on stages, tasks, buckets, memory, groups and how they communicate, the mechanism's part,
/// steps. `all_reduce: auto` is decided by simulating collectives alone. Throws UserError with the place for what does not
/// go together.
Plan plan(const Scenario&);
/// The same of a network that was made before: one rank's part of every layer (see `share_of_rank`).
Plan plan(const Scenario&, std::shared_ptr<const Network> share);

/// One rank's part of every layer; where stages are unlike, that of a rank of the layer's stage. Throws UserError with the place for what cannot be split so.
std::shared_ptr<const Network> share_of_rank(const Scenario&);
/// The first part of `plan`: what each stage does and holds, before anybody is told how to communicate. All errors of
/// what does not go together but those of collectives and mechanisms come from here.
TrainingPlan lay_out_stages(const Scenario&, std::shared_ptr<const Network> share);

/// What carries out its all-reduce: the algorithm, or the library that is modelled.
std::string all_reduce_name(const CollectiveChoice&);

}  // namespace trainyard
