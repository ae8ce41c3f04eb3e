#pragma once
#include <filesystem>

namespace trainyard {

struct Plan;
struct SimulateOptions;

/// Changes the options of a run so that its step is written as a Chakra execution trace. Each rank has a file
/// (PREFIX.RANK.et); PREFIX.groups.json has the communicators. A trace has every operation with its duration, its sizes
/// and its dependencies. Every rank is simulated. A replay on the same cluster takes the same time. Throws UserError if
/// the step has too many operations, or if steps differ from each other (the run then decides how many it simulates).
void export_chakra(const Plan&, const std::filesystem::path& prefix, SimulateOptions&);

}  // namespace trainyard
