#pragma once
#include <vector>

namespace trainyard {

/// A network of arcs with capacities, and the largest flow from one vertex to another (Boost.Graph's algorithm of
/// Boykov and Kolmogorov).
class MaxFlow {
 public:
  explicit MaxFlow(int vertices) : vertices_(vertices) {}

  int add_vertex() { return vertices_++; }
  /// Returns the arc's number, for `set_capacity` and `flow`.
  int add_arc(int from, int to, double capacity);
  void set_capacity(int arc, double capacity) { arcs_[static_cast<std::size_t>(arc)].capacity = capacity; }
  /// Computes the flow from scratch. Less than 1e-12 of the largest capacity counts as zero.
  double run(int source, int sink);
  /// Returns the flow over an arc in the last run.
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
