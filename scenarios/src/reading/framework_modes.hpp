#pragma once
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "scenarios/src/reading/plan_choice.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// A framework's way to train on several devices, and the choices of a plan that it makes.
struct FrameworkMode {
  std::string name, description;
  std::string mechanism = kAllReduce;
  std::string consistency = {};             ///< default of a plan with parameter servers; "": the mechanism's own
  int zero_stage = 0;                       ///< default of a plan
  int least_zero_stage = 0;                 ///< lowest ZeRO stage that it supports
  int most_zero_stage = 0;                  ///< highest ZeRO stage that it supports
  std::string zero_group = {};              ///< default of a plan; "": the plan's own
  bool splits_model = false;                ///< whether it splits over tensor, pipeline, context or expert ranks
  std::vector<std::string> schedules = {};  ///< pipeline schedules that it has; empty if it splits no model
  bool one_node = false;                    ///< whether it works on the devices of one node only
  std::string for_nodes = {};               ///< the mode that does the same on several nodes
  bool chooses_communication = false;       ///< whether it takes `plan.communication`
  bool on_tpus = false;                     ///< true: only on TPUs; false: only on other devices
  std::string stack = {};                   ///< default software stack, an entry of the catalog; "": none
  std::vector<std::string> stacks = {};     ///< other stacks that it runs on; every mode also runs on plain
};

/// Returns all modes: pytorch-dp, pytorch-ddp, …, by the names that `plan.strategy` takes.
const std::vector<FrameworkMode>& framework_modes();

/// Removes `software: null` and `cluster.fabric: null`, which are as if the keys were absent: the strategy may then choose
/// the stack, and the type of node the fabric. Leaves keys after which nothing is written, which readers refuse.
void drop_null_parts(Node& scenario);

/// If the scenario has `plan.strategy`, adds the keys that the scenario leaves out, with the values of that mode:
/// `plan.data_parallel.mechanism`, `consistency` and `zero_stage`, and `software`. With `plan.communication: ring` also
/// `plan.data_parallel.all_reduce` and `cluster.hca.transport`. Throws UserError with the place and
/// the rule for a key that contradicts the mode. Returns null if the scenario names no mode.
const FrameworkMode* apply_framework_mode(Node& scenario);

/// Returns the pipeline schedules of a mode. If the name is empty: all registered schedules that hold the network once,
/// since with two copies a plan of two stages is data parallelism under another name; and none that is solved, since in
/// the memory of 1f1b such an order is as long as zb-h1's. Throws UserError.
std::vector<std::string> schedules_of_mode(const std::string& name);

/// Throws UserError for a pipeline schedule that the mode does not have.
void require_schedule(const FrameworkMode&, const PlanChoice&, bool names_software);

/// Throws UserError at `where` if the mode does not run on these devices, or not on as many nodes as the ranks use.
void require_mode_fits(const FrameworkMode&, const ClusterSpec&, int ranks, const Place& where);

}  // namespace trainyard
