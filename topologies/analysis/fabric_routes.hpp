#pragma once
#include "topologies/analysis/fabric_cuts.hpp"
#include "topologies/analysis/fabric_findings.hpp"

namespace trainyard {

/// Capacity of the paths that messages really take between the ends of a fabric.
struct RoutedFabric {
  RoutingCheck check;
  PairLoads loads;          ///< without the ends' own wires; empty if not all pairs were examined
  int hops = 0;             ///< links on the longest path; 0 if not all pairs were examined
  Picoseconds latency;      ///< latency of the slowest path
  LinkId worst = -1;        ///< the most overloaded link; −1: none
  std::string unreachable;  ///< name of an end that another one cannot reach
};
RoutedFabric route_all(DeviceGraph&, const FabricView&);

}  // namespace trainyard
