#pragma once
#include <vector>

#include "topologies/analysis/fabric_findings.hpp"

namespace trainyard {

/// The pattern run on the simulator, over the paths that messages really take: the time in which all pairs have sent equal
/// bytes, over that of the first alone. Ends send and receive themselves, without latencies: what is asked is what the
/// rates of the fabric allow, not those of the PCIe links or GPUs behind it. Throws UserError where no path leads.
double simulated_slowdown_as_routed(DeviceGraph&, const std::vector<HcaPair>&);

}  // namespace trainyard
