#pragma once
#include <string>

#include "topologies/device_graph.hpp"

namespace trainyard {

/// Returns "12.5 GB/s", or a range from the slowest to the fastest.
std::string rates_text(BytesPerSecond slowest, BytesPerSecond fastest);
/// Rates of a cable from its first device's view: "12.5 GB/s", or "reads 3.00 GB/s, writes 1.00 GB/s". Adds "half
/// duplex" if both directions share the rate, and "down" if the cable is down.
std::string cable_text(const DeviceGraph&, LinkId wire);

}  // namespace trainyard
