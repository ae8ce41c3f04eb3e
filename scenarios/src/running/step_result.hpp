#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/answer/result.hpp"

namespace trainyard {

class StepRun;
struct Plan;
struct Scenario;
struct SimulateOptions;

/// What a run of a scenario's steps answers. Throws InternalError where the parts of a step do not sum up to it.
Result result_of(const StepRun&);
/// Of a prescribed step: its rates, and nothing that only a simulation knows.
Result prescribed_result(const Scenario&);

/// The same steps with all samples on the GPUs from the beginning, simulated; nothing of a scenario without an
/// input pipeline.
std::optional<Result> simulate_without_input_wait(const Scenario&, const Plan&, SimulateOptions);
/// What samples add to the step: `fed` is the result without them.
void book_input_wait(const Result& fed, Result&);

/// Adds the critical path of all steps that are looked at, in seconds by resource; an empty one is none.
void book_critical_path(const StepRun&, const std::map<std::string, double>& path, Result&);
/// Adds memory and traffic by actor, where ranks are not alike.
void book_actors(const StepRun&, Result&);
/// Adds the energy of the step, where the power of the GPUs is stated.
void book_energy(const StepRun&, Result&);
/// Adds what the input pipeline tells of a run that has one.
void book_input(const StepRun&, Result&);
/// Host memory that batches on their way and the cache of samples take at most, by node.
std::vector<Bytes> input_on_hosts(const StepRun&);
/// Adds host memory and drives of the fullest node, with offload or an input pipeline.
void book_host_memory(const StepRun&, Result&);

}  // namespace trainyard
