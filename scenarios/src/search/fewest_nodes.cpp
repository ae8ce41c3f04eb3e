#include "scenarios/src/search/fewest_nodes.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace trainyard {
namespace {

/// If twice the nodes save less than this share of the time, more nodes do not help. For fewer additional nodes, the
/// limit is smaller in proportion.
constexpr double kStillHelps = 0.03;
/// Number of steps into which the interval between two numbers is divided.
constexpr int kStepsOfRound = 8;

class FewestFinder {
 public:
  explicit FewestFinder(const NodeCounts& counts) : counts_(counts) {}

  FewestNodes run(int guess) {
    int first = multiple_of_unit(guess);
    while (first > 0 && !counts_.has_plan(first)) first = multiple_of_unit(first / 2);
    if (first == 0) {
      counts_.look(std::max(counts_.unit, multiple_of_unit(guess)), false);  // reports why there is no plan
      return {};
    }
    const NodesTried found = counts_.look(first, false);
    if (found.in_time)
      shrink(first);
    else
      grow(first, found);
    if (found_.in_time > 0) refine();
    return found_;
  }

 private:
  const NodeCounts& counts_;
  FewestNodes found_;

  int multiple_of_unit(int nodes) const { return nodes / counts_.unit * counts_.unit; }

  /// Returns the largest number above `above` and up to `most` that has a plan, in steps of an eighth of the interval.
  /// 0: none.
  int most_with_plan(int most, int above) const {
    const int step = std::max(counts_.unit, multiple_of_unit((most - above) / kStepsOfRound));
    for (int nodes = multiple_of_unit(most); nodes > above; nodes -= step)
      if (counts_.has_plan(nodes)) return nodes;
    return 0;
  }

  void record(int nodes, bool in_time) { (in_time ? found_.in_time : found_.late) = nodes; }

  void shrink(int nodes) {
    record(nodes, true);
    while (found_.late == 0) {
      nodes = most_with_plan(found_.in_time / 2, 0);
      if (nodes == 0) return;
      record(nodes, counts_.look(nodes, true).in_time);
    }
  }

  void grow(int nodes, NodesTried last) {
    record(nodes, false);
    while (nodes < counts_.most) {
      const int more = most_with_plan(std::min(2 * nodes, counts_.most), nodes);
      if (more == 0) return;
      const NodesTried next = counts_.look(more, false);
      record(more, next.in_time);
      if (next.in_time) return;
      const double least_gain = kStillHelps * (more - nodes) / nodes;
      if (last.good && (!next.good || next.time >= last.time * (1 - least_gain))) return;
      last = next;
      nodes = more;
    }
  }

  void refine() {
    int step = 1;
    while (2 * step * kStepsOfRound * counts_.unit <= found_.in_time - found_.late) step *= 2;
    for (; step > 1; step = std::max(1, step / kStepsOfRound)) try_multiples(step * counts_.unit);
    for (int nodes = found_.late + counts_.unit; nodes < found_.in_time; nodes += counts_.unit)
      if (counts_.has_plan(nodes)) record(nodes, counts_.look(nodes, true).in_time);
  }

  /// Evaluates the multiples of a step inside of the interval.
  void try_multiples(int step) {
    std::vector<int> between;
    for (int nodes = (found_.late / step + 1) * step; nodes < found_.in_time; nodes += step) between.push_back(nodes);
    while (!between.empty()) {
      const auto middle = between.begin() + static_cast<std::ptrdiff_t>(between.size() / 2);
      if (!counts_.has_plan(*middle)) {
        between.erase(middle);
        continue;
      }
      const bool in_time = counts_.look(*middle, true).in_time;
      record(*middle, in_time);
      if (in_time)
        between.erase(middle, between.end());
      else
        between.erase(between.begin(), middle + 1);
    }
  }
};

}  // namespace

FewestNodes find_fewest_nodes(int guess, const NodeCounts& counts) { return FewestFinder(counts).run(guess); }

}  // namespace trainyard
