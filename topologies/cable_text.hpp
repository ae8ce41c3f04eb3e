#pragma once
#include <string>

#include "topologies/device_graph.hpp"

namespace trainyard {

/// "12.5 GB/s", or the slowest and the fastest.
std::string rates_text(BytesPerSecond slowest, BytesPerSecond fastest);
/// Rates of a cable as its first device sees it: "12.5 GB/s", "reads 3.00 GB/s, writes 1.00 GB/s", with "half duplex"
/// where both directions share it, and "down" where it is.
std::string cable_text(const DeviceGraph&, LinkId wire);

}  // namespace trainyard
