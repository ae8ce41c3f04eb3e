#pragma once
#include <filesystem>

namespace trainyard {

struct Plan;
struct SimulateOptions;

/// The step that is simulated with these options is written as a Chakra execution trace, a file a rank (PREFIX.RANK.et, and
/// PREFIX.groups.json): every operation with its duration, its sizes and what it waited for. Every rank is simulated.
/// Replayed on the same cluster it takes as long. Throws UserError for steps that are too many, or whose ranks decide as
/// they go.
void export_chakra(const Plan&, const std::filesystem::path& prefix, SimulateOptions&);

}  // namespace trainyard
