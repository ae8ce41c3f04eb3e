#pragma once
#include <string>
#include <vector>

#include "topologies/fabrics/fabric_view.hpp"

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

/// Max-flow between two sets of a fabric's ends, over all its switches. Media that several wires lead to (a hub) limit
/// the flow; a half-duplex wire does not limit its two directions together, because flows go one way.
class FabricCuts {
 public:
  explicit FabricCuts(const FabricView&);
  /// Bytes/s from the chosen ends (a flag for each of `view.ends`) to all others.
  double capacity(const std::vector<char>& chosen);

 private:
  const FabricView& view_;
  MaxFlow flow_;
  int source_ = 0, sink_ = 0;
  std::vector<int> from_source_, to_sink_;  // arcs, by end
};

/// Describes a set of ends that sends more than the links out of it carry, in one sentence; "" if no tested set does.
std::string overloaded_cut(const FabricView&);

/// The loads that a fabric's traffic puts on its links (by index in `graph.links()`) if all ordered pairs of ends send
/// one byte/s each, over the paths really taken or by ideal splitting.
using PairLoads = std::vector<double>;

struct Bisection {
  double rate = 0;  ///< bytes/s, one direction
  bool exact = false;
};
/// `loads` may show that no half is worse than the worst one found; empty: no loads are known.
Bisection bisection_of(const FabricView&, const std::vector<PairLoads>& loads);

/// Splits all traffic over all shortest paths, at each switch by the rates of the wires, and finds the loads of the
/// links.
class IdealSplitting {
 public:
  explicit IdealSplitting(const FabricView&);
  /// Returns true if no link gets more than it carries, whatever the ends send (hose model).
  bool carries_everything() const { return decided_ && everything_; }
  const PairLoads& loads() const { return loads_; }
  /// Upper bound of the loads if any half of the ends sends to the other half.
  const PairLoads& half_loads() const { return half_loads_; }

 private:
  bool decided_ = false, everything_ = false;
  PairLoads loads_, half_loads_;
};

/// Returns true if the fabric carries all traffic through every switch that has ends, in proportion to their rates
/// (Valiant). Each half of the path carries uniform traffic, whatever the ends send. Two such loads must fit.
bool carried_by_way_of_all(const FabricView&, const PairLoads&);

}  // namespace trainyard
