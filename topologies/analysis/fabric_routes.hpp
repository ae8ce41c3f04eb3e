#pragma once
#include "topologies/analysis/fabric_cuts.hpp"
#include "topologies/analysis/fabric_findings.hpp"

namespace trainyard {

/// What the paths that messages really take between the ends of a fabric can carry.
struct RoutedFabric {
  RoutingCheck check;
  PairLoads loads;          ///< empty where not all pairs were looked at; without the ends' own wires
  int hops = 0;             ///< of the longest path; 0 where not all were looked at
  Picoseconds latency;      ///< of the slowest
  LinkId worst = -1;        ///< the link that is overloaded most
  std::string unreachable;  ///< name of an end that another one cannot reach
};
RoutedFabric route_all(DeviceGraph&, const FabricView&);

}  // namespace trainyard
