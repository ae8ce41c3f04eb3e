#pragma once
#include <cstdint>
#include <vector>

namespace trainyard {

/// Divides layers, in their order, into parts of one layer at least, and returns how many each part has.
///
/// `times[part][layer]` (ps, 0 or more) is what a layer takes in a part; `stage_of[part]` is the pipeline stage that does
/// that part. The slowest part takes as little as any cut allows, by dynamic programming; of such cuts it is one whose
/// quickest part takes most. Where stages have several parts, single layers then move over a boundary as long as that
/// makes the slowest stage, the sum of its parts, quicker: a good cut, not always the best. Needs as many layers as parts.
std::vector<int> balanced_cut(const std::vector<std::vector<std::int64_t>>& times, const std::vector<int>& stage_of);

}  // namespace trainyard
