#pragma once
#include <vector>

#include "sim/machine.hpp"
#include "sim/program.hpp"

namespace trainyard {

/// The routes of all edges of a group as one: a link that several of them cross is taken as many times.
struct GroupRoute {
  std::vector<LinkUse> links;
  Picoseconds latency;  ///< of the longest one, of a flow that copy engines move
  bool reachable = true;
};
GroupRoute route_of_group(const Machine&, const GroupFlow&);

}  // namespace trainyard
