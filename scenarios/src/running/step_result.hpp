#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "sim/op.hpp"

namespace trainyard {

class StepRun;
struct Plan;
struct Scenario;
struct SimulateOptions;

/// Returns the result of a run. Throws InternalError if the critical path does not sum up to the step.
Result result_of(const StepRun&);
/// Returns the result of a step with a given time: its rates, and nothing that needs a simulation.
Result prescribed_result(const Scenario&);

/// Simulates the same steps with all samples on the GPUs from the beginning. No value: the scenario has no input
/// pipeline.
std::optional<Result> simulate_without_input_wait(const Scenario&, const Plan&, SimulateOptions);
/// Adds the time that the step waits for samples. `fed`: the result without that wait.
void book_input_wait(const Result& fed, Result&);

/// Adds the critical path of the averaged steps, in seconds by resource. Does nothing if it is empty.
void book_critical_path(const StepRun&, const std::map<std::string, double>& path, Result&);
/// Returns the time of an actor's kernels in a step, s.
double work_in_step(const StepRun&, Actor);
/// Adds memory, traffic and work by actor, if ranks are not alike.
void book_actors(const StepRun&, Result&);
/// Adds the energy of the step, if the power of the GPUs is stated.
void book_energy(const StepRun&, Result&);
/// Adds what the host starts in a step, if the run counts it. Call it when the rank of the breakdown is known.
void book_host_calls(const StepRun&, Result&);
/// Adds the figures of the input pipeline of a run that has one.
void book_input(const StepRun&, Result&);
/// Returns the peak host memory of batches on their way and of cached samples, by node.
std::vector<Bytes> input_on_hosts(const StepRun&);
/// Adds host memory and drives of the fullest node, if the plan has offload or an input pipeline.
void book_host_memory(const StepRun&, Result&);

}  // namespace trainyard
