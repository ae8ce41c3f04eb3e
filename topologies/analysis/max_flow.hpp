#pragma once
#include <vector>

namespace trainyard {

/// A network of arcs with capacities, and the most that can flow over it from one vertex to another (Boost.Graph's
/// algorithm of Boykov and Kolmogorov).
class MaxFlow {
 public:
  explicit MaxFlow(int vertices) : vertices_(vertices) {}

  int add_vertex() { return vertices_++; }
  /// Returns its number, for `set_capacity` and `flow`.
  int add_arc(int from, int to, double capacity);
  void set_capacity(int arc, double capacity) { arcs_[static_cast<std::size_t>(arc)].capacity = capacity; }
  /// Runs from the start; less than a 1e-12 part of the largest capacity counts as nothing.
  double run(int source, int sink);
  /// The flow over an arc in the last run.
  double flow(int arc) const { return arcs_[static_cast<std::size_t>(arc)].flow; }

 private:
  struct Arc {
    int from, to;
    double capacity, flow;
  };
  int vertices_;
  std::vector<Arc> arcs_;
};

}  // namespace trainyard
