#pragma once
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "scenarios/src/reading/plan_choice.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// A framework's name for a way to train on several devices, and what it does.
struct FrameworkMode {
  std::string name;
  std::string mechanism = kAllReduce;
  std::string consistency;   ///< of parameter servers, where a plan says none; "": the mechanism's own
  int zero_stage = 0;        ///< where a plan says none
  int least_zero_stage = 0;  ///< that it can do
  int most_zero_stage = 0;
  bool splits_model = false;           ///< over tensor, pipeline, context or expert ranks
  std::vector<std::string> schedules;  ///< of its pipelines; where it splits the model
  bool one_node = false;               ///< one process, or one host
  std::string for_nodes;               ///< what does the same on several
  bool on_tpus = false;                ///< on these, and nothing else
  std::string stack;                   ///< catalog entry where a scenario says no software; "": none
  std::vector<std::string> stacks;     ///< others that it runs with; every mode runs without
  std::string description;
};

/// pytorch-dp, pytorch-ddp, …: as `plan.strategy` names them.
const std::vector<FrameworkMode>& framework_modes();
/// Throws UserError at `where` naming the nearest.
const FrameworkMode& find_framework_mode(const std::string& name, const Place& where);

/// Where the scenario has `plan.strategy`, fills in what that mode does where the scenario itself says nothing:
/// `plan.data_parallel.mechanism`, `consistency` and `zero_stage`, `software`. Throws UserError with the place and the rule where it
/// says something that the mode does not do. Null: it names no mode.
const FrameworkMode* apply_framework_mode(Node& scenario);

/// The pipeline schedules of the mode of that name; of no name, all that are registered. Throws UserError.
std::vector<std::string> schedules_of_mode(const std::string& name);

/// Throws UserError for a pipeline schedule that the mode does not have.
void require_schedule(const FrameworkMode&, const PlanChoice&);

/// Throws UserError at `where` for a cluster or a number of nodes in use that are not the mode's.
void require_mode_fits(const FrameworkMode&, const ClusterSpec&, int ranks, const Place& where);

}  // namespace trainyard
