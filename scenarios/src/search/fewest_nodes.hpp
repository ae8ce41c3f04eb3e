#pragma once
#include <functional>

namespace trainyard {

/// The result on a number of nodes.
struct NodesTried {
  bool good = false;     ///< a training is possible
  bool in_time = false;  ///< it meets the deadline
  double time = 0;       ///< time of the training, s
};

/// The candidate numbers of nodes: multiples of `unit` up to `most`, and how to evaluate them.
struct NodeCounts {
  int unit = 1, most = 4096;
  std::function<bool(int nodes)> has_plan;
  /// Evaluates a number of nodes. `late_is_enough`: it may stop as soon as it knows that the deadline is not met.
  std::function<NodesTried(int nodes, bool late_is_enough)> look;
};

/// `in_time`: the fewest nodes that were found to meet the deadline; 0: none. `late`: the largest smaller number that
/// was evaluated, which does not meet it; 0: no smaller number has a plan. No multiple of the unit between the two has
/// a plan.
struct FewestNodes {
  int late = 0, in_time = 0;
};

/// Finds the fewest nodes that meet the deadline. It doubles or halves the guess until two numbers enclose the
/// deadline, then tries the round numbers between them, the middle one first, and at last each number between the
/// nearest two. If a number is late, smaller ones are skipped. The search stops at larger numbers if more nodes do not
/// help.
FewestNodes find_fewest_nodes(int guess, const NodeCounts&);

}  // namespace trainyard
