#pragma once
#include <vector>

#include "topologies/analysis/fabric_findings.hpp"

namespace trainyard {

/// Simulates the pattern over the paths that messages take. Returns the time in which all pairs have sent equal bytes,
/// divided by the time of the first pair alone. The ends themselves send and receive, without latencies: the result
/// depends on the rates of the fabric, not on the PCIe links or GPUs behind it. Throws UserError if no path joins a
/// pair.
double simulated_slowdown(DeviceGraph&, const std::vector<HcaPair>&);

}  // namespace trainyard
