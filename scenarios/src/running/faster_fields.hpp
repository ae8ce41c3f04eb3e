#pragma once
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Returns the resource classes that a what-if makes faster, in the order of a table: "compute" and "memory" of the
/// GPUs (or "measured step", if the scenario has one), kinds of links ("NVLink", "HCA"), "latency", "framework",
/// "storage", "decode", "storage latency" and "readers" of samples, and "stragglers" and "slow links", which a what-if
/// removes. A class that no field of the scenario makes faster is left out.
std::vector<std::string> resource_classes(const Scenario&);

/// Memory capacity of the GPUs. No time depends on it, but `faster` knows its fields.
inline const std::string kMemoryCapacity = "memory capacity";

/// Changes of a post-training loop besides faster resources. Its software takes the times `loop` and `reload` of its stack.
inline const std::string kLoopSoftware = "loop software", kMoreGeneratingNodes = "nodes that generate",
                         kMoreTrainingNodes = "nodes that train", kMoreCriticNodes = "nodes of the critic",
                         kMoreNodes = "nodes", kStaleness = "staleness", kFirstStaleness = "staleness of 1",
                         kSandboxes = "sandboxes", kToolCalls = "calls of tools", kStartedOrder = "order of training";

/// Latency of a read of samples, and the number of threads of a node that read them.
inline const std::string kStorageLatency = "storage latency", kReaders = "readers";

/// Faults of `faults` that slow steps: a what-if removes them.
inline const std::string kStragglers = "stragglers", kSlowLinks = "slow links";

/// The change of `mesh_what_if`.
inline const std::string kMeshOrder = "mesh order";

/// Returns the fields that make a resource `factor` times faster, with their values as --set takes them: rates are
/// multiplied by the factor, times are divided by it. Values that derive from a field change with it. Empty if the
/// scenario has no such resource.
Overrides faster(const Scenario&, const std::string& resource_class, double factor);

/// Returns the scenario with each resource class faster by 1e-13, one class at a time: more than rounding changes any
/// time, and far less than anyone sees. In a step that is well conditioned, times change by about as much. If exchanges
/// queue for each other or share links in a rhythm, this decides which comes first, and the step may change by 1e-2.
/// Faults are no such class, because a what-if removes them, nor are readers, which are counted.
std::vector<Scenario> barely_faster(const Scenario&);

/// Writes each field as --set takes it, without quotes for a shell: "cluster.hca.rate=400 Gbit/s".
std::vector<std::string> as_sets(const Overrides&);

/// Describes the change: "2x GPU FLOP/s", "1/2 of the network latency".
std::string what_if_in_words(const std::string& resource_class, double factor);
/// Names what limits a step in which the change of this class saves most: "GPU memory bandwidth", "the bound on
/// staleness".
std::string limit_in_words(const std::string& resource_class);

}  // namespace trainyard
