#pragma once
#include <algorithm>

#include "topologies/analysis/fabric_cuts.hpp"
#include "topologies/analysis/fabric_simulation.hpp"

namespace trainyard {

/// Capacity from the ends `from` to all others (max-flow = min-cut), one direction.
inline BytesPerSecond cut_capacity(const DeviceGraph& graph, const std::vector<DeviceId>& from) {
  const FabricView view(graph);
  std::vector<char> chosen(view.ends.size(), 0);
  for (std::size_t i = 0; i < view.ends.size(); ++i)
    chosen[i] = std::find(from.begin(), from.end(), view.ends[i]) != from.end();
  return BytesPerSecond{FabricCuts(view).capacity(chosen)};
}

inline double simulated_slowdown(DeviceGraph&& graph, const std::vector<HcaPair>& pairs) {
  return simulated_slowdown_as_routed(graph, pairs);
}

}  // namespace trainyard
