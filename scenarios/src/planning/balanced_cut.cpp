#include "scenarios/src/planning/balanced_cut.hpp"

#include <algorithm>
#include <limits>

namespace trainyard {
namespace {

using Time = std::int64_t;
using Table = std::vector<std::vector<Time>>;
constexpr Time kNever = std::numeric_limits<Time>::max();

/// Returns the time of layers `from` to `to` − 1 in a part, as a difference of sums from the first layer on.
Time span(const Table& sums, std::size_t part, std::size_t from, std::size_t to) {
  return sums[part][to] - sums[part][from];
}

/// Returns the ends of the parts for which the largest `sign` x time of a part is smallest, with no part longer than
/// `limit`. The best division of the first `end` layers into `part` + 1 parts extends a best division of fewer layers
/// into `part` parts.
std::vector<std::size_t> best_ends(const Table& sums, Time sign, Time limit) {
  const std::size_t parts = sums.size(), layers = sums.front().size() - 1;
  Table best(parts + 1, std::vector<Time>(layers + 1, kNever));
  std::vector<std::vector<std::size_t>> begin(parts, std::vector<std::size_t>(layers + 1, 0));
  best[0][0] = -kNever;
  for (std::size_t part = 0; part < parts; ++part)
    for (std::size_t end = part + 1; end + (parts - part - 1) <= layers; ++end)
      for (std::size_t from = end; from-- > part;) {
        const Time time = span(sums, part, from, end);
        if (time > limit || (sign > 0 && time >= best[part + 1][end])) break;  // longer parts only take longer
        const Time most = std::max(best[part][from], sign * time);
        if (most >= best[part + 1][end]) continue;
        best[part + 1][end] = most;
        begin[part][end] = from;
      }
  std::vector<std::size_t> ends(parts, layers);
  for (std::size_t part = parts; part-- > 1;) ends[part - 1] = begin[part][ends[part]];
  return ends;
}

Time slowest_part(const Table& sums, const std::vector<std::size_t>& ends) {
  Time slowest = 0;
  for (std::size_t part = 0; part < ends.size(); ++part)
    slowest = std::max(slowest, span(sums, part, part == 0 ? 0 : ends[part - 1], ends[part]));
  return slowest;
}

Time slowest_stage(const Table& sums, const std::vector<std::size_t>& ends, const std::vector<int>& stage_of) {
  std::vector<Time> stages(ends.size());
  for (std::size_t part = 0; part < ends.size(); ++part)
    stages[static_cast<std::size_t>(stage_of[part])] += span(sums, part, part == 0 ? 0 : ends[part - 1], ends[part]);
  return *std::max_element(stages.begin(), stages.end());
}

/// Moves one boundary by one layer: of all these moves the one that makes the slowest stage fastest. Returns false if no
/// move helps.
bool improve(const Table& sums, std::vector<std::size_t>& ends, const std::vector<int>& stage_of) {
  Time least = slowest_stage(sums, ends, stage_of);
  std::vector<std::size_t> best;
  for (std::size_t part = 0; part + 1 < ends.size(); ++part) {
    const std::size_t before = part == 0 ? 0 : ends[part - 1], current = ends[part];
    for (const std::size_t moved : {current - 1, current + 1}) {
      if (moved <= before || moved >= ends[part + 1]) continue;
      ends[part] = moved;
      if (const Time time = slowest_stage(sums, ends, stage_of); time < least) {
        least = time;
        best = ends;
      }
      ends[part] = current;
    }
  }
  if (!best.empty()) ends = best;
  return !best.empty();
}

}  // namespace

std::vector<int> balanced_cut(const Table& times, const std::vector<int>& stage_of) {
  Table sums;
  for (const std::vector<Time>& part_times : times) {
    std::vector<Time>& sum = sums.emplace_back(1, 0);
    for (const Time time : part_times) sum.push_back(sum.back() + time);
  }
  const Time limit = slowest_part(sums, best_ends(sums, 1, kNever));
  std::vector<std::size_t> ends = best_ends(sums, -1, limit);
  while (improve(sums, ends, stage_of)) {
  }
  std::vector<int> sizes;
  std::size_t before = 0;
  for (const std::size_t end : ends) {
    sizes.push_back(static_cast<int>(end - before));
    before = end;
  }
  return sizes;
}

}  // namespace trainyard
