#pragma once
#include <functional>

namespace trainyard {

/// What is found on a number of nodes.
struct NodesTried {
  bool good = false;     ///< there is a training
  bool in_time = false;  ///< by the deadline
  double time = 0;       ///< s
};

/// How the numbers of nodes are looked at: multiples of `unit` up to `most`.
struct NodeCounts {
  int unit = 1, most = 4096;
  std::function<bool(int nodes)> has_plan;
  /// `late_is_enough`: of one that is late no more is asked than that.
  std::function<NodesTried(int nodes, bool late_is_enough)> look;
};

/// `in_time`: the fewest nodes that were found in time; 0: none. `late`: the most below them that were looked at, none of
/// which is in time; 0: there is no plan on fewer. No multiple of the unit between the two has a plan.
struct FewestNodes {
  int late = 0, in_time = 0;
};

/// From a guess by doublings and halvings to two numbers that enclose the deadline; then the round numbers between them,
/// the middle one first; at last each number between the nearest two. Of what is late by more nodes, fewer are left out.
/// The search ends upwards where more nodes do not help.
FewestNodes find_fewest_nodes(int guess, const NodeCounts&);

}  // namespace trainyard
