#pragma once
#include <optional>
#include <string>

#include "scenarios/src/collectives/tuner.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {

/// Method by which a run finds the steps to average, if steps differ from each other (see SteadyState).
struct StepSearch {
  int unit = 1;           ///< period of the steps, in steps
  int batch = 1;          ///< number of steps in one value of the search for the warm-up: a multiple of `unit`
  int fewest = 1;         ///< fewest steps before the search decides anything
  bool is_given = false;  ///< true: as many steps as the scenario says; false: until their mean is known well enough
  bool finds_warm_up = true;  ///< whether to search for further warm-up steps; false: Plan::warm_steps are all
};

/// The number of operations that all ranks together run in one step. It is estimated from the first and the last member
/// of each group: in trees and rings, the other members lie between them.
struct StepOperations {
  double all = 0;
  double fused = 0;  ///< with consecutive kernels as one operation, if the plan allows it
};

/// The layout of a scenario on its cluster, before anything runs.
struct Plan {
  TrainingPlan training;             ///< `steps`: number of steps to average; with a search, the most of them
  CollectiveChoice all_reduce;       ///< all-reduce of gradients, with its algorithm
  std::optional<Tuning> tuned;       ///< candidates for the all-reduce. No value: the scenario does not say `auto`
  int warm_steps = 0;                ///< steps before the averaged ones, in which buffers fill
  std::optional<StepSearch> search;  ///< No value: all steps are alike
  StepOperations operations;         ///< number of operations of a step
  /// Factor on the times of modelled kernels and host work. With it, a step of one device takes the measured time.
  double compute_scale = 1;
};

/// Lays a scenario out: layers on stages, tasks, buckets, memory, groups and their communication, the mechanism's part,
/// steps. Decides `all_reduce: auto` by simulating collectives alone. Throws UserError with the place for choices that
/// contradict each other.
Plan plan(const Scenario&);
/// Does the same with one rank's part of every layer, which `share_of_rank` has made before.
Plan plan(const Scenario&, std::shared_ptr<const Network> share);

/// Makes one rank's part of every layer; if stages differ, that of a rank of the layer's stage. Throws UserError with
/// the place for a layer that cannot be split so.
std::shared_ptr<const Network> share_of_rank(const Scenario&);
/// Does the first part of `plan`: the tasks and the memory of each stage, before communication is chosen. Throws all
/// errors of contradicting choices except those of collectives and mechanisms.
TrainingPlan lay_out_stages(const Scenario&, std::shared_ptr<const Network> share);

/// Returns the name of the all-reduce: its algorithm, or the modelled library.
std::string all_reduce_name(const CollectiveChoice&);

/// Collective by which a library sums gradients, and the number of rings that run at the same time. A modelled library
/// chooses by size; these are those of its call for the largest bucket. 0 channels: the library takes no ring.
struct GradientCollective {
  std::string method;  ///< algorithm and protocol of a modelled library, for example "ring, Simple"; else ""
  int channels = 1;
};
GradientCollective gradient_collective(const Plan&);

}  // namespace trainyard
