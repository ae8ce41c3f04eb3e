#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate_options.hpp"

namespace trainyard {

/// Simulates a plan: builds programs, machine and observers, and runs them.
Result simulate_here(const Scenario&, const Plan&, const SimulateOptions&);
Result simulate_here(const Scenario&, const SimulateOptions&);
/// Does the same, with two exceptions. It does not simulate a step whose time is given (plan.step_time). If a folded
/// run ends in a deadlock, it runs again without folding, so that the error names real ranks. Failures are not
/// simulated here (see simulate_training).
Result simulate(const Scenario&, const Plan&, const SimulateOptions& = {});
/// Lays the scenario out, then simulates it.
Result simulate(const Scenario&, const SimulateOptions& = {});

/// Returns the rent of all nodes for an hour. `gpu_hour`: rent of one GPU of a node for an hour. No value: a type of
/// node has no such rent.
std::optional<double> cluster_hour(const ClusterSpec&,
                                   const std::function<std::optional<double>(const NodeType&)>& gpu_hour);
/// Adds the costs of step and training, if the scenario has prices. Throws UserError if electricity has a price but the
/// power of the GPUs is not known.
void book_money(const Scenario&, Result&);
/// Replaces the energy of a step of the training half by that of a step of the loop, on all its nodes.
void book_loop_energy(const Scenario&, Result&);

/// Makes each resource class `factor` times faster, one at a time: reads, lays out and simulates the scenario with the
/// fields that `faster` names, as `run --set` does, in parallel on all processors. Uses only transport and folding of
/// the options. Adds those that the scenario refuses to `refused`, if it is not null.
std::vector<WhatIf> what_if(const Scenario&, double factor = 2, const SimulateOptions& = {},
                            std::vector<RefusedWhatIf>* refused = nullptr);

}  // namespace trainyard
