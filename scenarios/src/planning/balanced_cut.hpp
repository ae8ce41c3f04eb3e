#pragma once
#include <cstdint>
#include <vector>

namespace trainyard {

/// Divides layers, in their order, into parts of at least one layer, and returns the number of layers of each part.
///
/// `times[part][layer]` (ps, 0 or more) is the time of a layer in a part; `stage_of[part]` is the pipeline stage that
/// executes that part. Dynamic programming finds the cuts whose slowest part is fastest, and of these one whose fastest
/// part is slowest. If stages have several parts, single layers then move over a boundary as long as that makes the
/// slowest stage (the sum of its parts) faster: a good cut, not always the best. Needs at least as many layers as
/// parts.
std::vector<int> balanced_cut(const std::vector<std::vector<std::int64_t>>& times, const std::vector<int>& stage_of);

}  // namespace trainyard
