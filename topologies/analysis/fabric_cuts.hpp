#pragma once
#include <string>
#include <vector>

#include "topologies/analysis/max_flow.hpp"
#include "topologies/fabrics/fabric_view.hpp"

namespace trainyard {

/// Max-flow between two sides of a fabric's ends, over all its switches. Media that several wires lead to (a hub) are
/// counted; the two directions of a half-duplex wire are not: flows go one way.
class FabricCuts {
 public:
  explicit FabricCuts(const FabricView&);
  /// bytes/s from the ends that are chosen (by their place among `view.ends`) to all others.
  double capacity(const std::vector<char>& chosen);

 private:
  const FabricView& view_;
  MaxFlow flow_;
  int source_ = 0, sink_ = 0;
  std::vector<int> from_source_, to_sink_;  // arcs, by end
};

/// A set of ends that sends more than the links out of it carry, as one sentence; "" where the sets that were tried
/// have none.
std::string overloaded_cut(const FabricView&);

/// How a fabric spreads traffic: of each link (`graph.links()`) its part of what all ordered pairs of ends send, one
/// byte/s each; by the paths really taken, or by ideal splitting.
using PairLoads = std::vector<double>;

struct Bisection {
  double rate = 0;  ///< bytes/s, one direction
  bool exact = false;
};
/// `loads` may show that no half is worse than the worst one found; empty: nothing is known.
Bisection bisection_of(const FabricView&, const std::vector<PairLoads>& loads);

/// Splits all traffic over all shortest paths, at each switch by the rates of the wires, and sees what links get.
class IdealSplitting {
 public:
  explicit IdealSplitting(const FabricView&);
  /// No link gets more than it carries, whatever the ends send (hose model).
  bool carries_everything() const { return everything_; }
  const PairLoads& loads() const { return loads_; }
  /// The same of any half of the ends that sends to the other: at most so much.
  const PairLoads& half_loads() const { return half_loads_; }

 private:
  bool everything_ = false;  // false too where the fabric is too large for it
  PairLoads loads_, half_loads_;
};

/// By way of every switch that has ends, in proportion to their rates (Valiant): each half of the way carries uniform
/// traffic, whatever the ends send. Two such loads must fit.
bool carried_by_way_of_all(const FabricView&, const PairLoads&);

}  // namespace trainyard
