#pragma once
#include <vector>

#include "sim/executor/changes.hpp"
#include "topologies/device_graph.hpp"

namespace trainyard {

/// A switch (or any device between others) fails: every wire at it, both ways, from `from` on; they come back at `to`.
/// Later than any simulation: never.
inline std::vector<LinkChange> outage(const DeviceGraph& graph, DeviceId device, Seconds from, Seconds to) {
  std::vector<LinkChange> changes;
  for (const std::vector<LinkId>& wires : {graph.links_from(device), graph.links_to(device)})
    for (const LinkId wire : wires) {
      changes.push_back({from, wire, BytesPerSecond{0}});
      changes.push_back({to, wire, graph.links()[wire].capacity});
    }
  return changes;
}

}  // namespace trainyard
