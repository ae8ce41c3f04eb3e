#pragma once
#include <vector>

#include "topologies/analysis/fabric_findings.hpp"

namespace trainyard {

/// Simulates the pattern over the paths of a tree. Returns the time in which all pairs have sent equal bytes, divided
/// by the time of the first pair alone. The ends themselves send and receive, without latencies: the result depends on
/// the rates of the fabric, not on the PCIe links or GPUs behind it. Throws UserError if the links are not a tree.
double simulated_slowdown(const DeviceGraph&, const std::vector<HcaPair>&);
/// Returns the slowdown over the paths that messages really take; the fabric need not be a tree. Throws UserError if no
/// path joins a pair.
double simulated_slowdown_as_routed(DeviceGraph&, const std::vector<HcaPair>&);

}  // namespace trainyard
