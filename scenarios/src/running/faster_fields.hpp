#pragma once
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// The resources of a scenario that a what-if makes faster, in the order of a table: "compute" and "memory" (of the GPUs;
/// where a measured step says what they take, "measured step" in their place), kinds of links ("NVLink", "HCA"),
/// "latency", "framework", of samples "storage" and "decode". One that no field of the scenario makes faster is none.
std::vector<std::string> resource_classes(const Scenario&);

/// How much the GPUs hold: no resource of a step's time, but `faster` knows its fields.
inline const std::string kMemoryCapacity = "memory capacity";

/// The fields that make a resource so many times faster, with their values, as --set takes them: rates times the factor,
/// times over it. What follows from a field follows. Empty where the scenario has no such resource.
Overrides faster(const Scenario&, const std::string& resource_class, double factor);

/// Each field as it is written after --set, ready for a shell where it is quoted: "cluster.hca.rate=400 Gbit/s".
std::vector<std::string> as_sets(const Overrides&);

/// The change in words: "2x GPU FLOP/s", "1/2 of the network latency".
std::string what_if_in_words(const std::string& resource_class, double factor);

}  // namespace trainyard
