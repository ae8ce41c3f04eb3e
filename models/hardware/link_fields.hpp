#pragma once
#include "models/reading/document.hpp"

namespace trainyard {

constexpr int kFullWidth = 16;  ///< lanes of the widest PCIe slot; `pcie.rate` is the rate of such a slot

/// Returns the rate per direction of `lanes` PCIe lanes of a generation from 3 to 6, before packet headers.
BytesPerSecond pcie_rate(int generation, int lanes);

/// Reads a number of PCIe lanes: 1, 2, 4, 8 or 16, or 0 if that is the fallback. Throws UserError with the place.
int read_lanes(Fields&, std::string_view key, std::optional<int> fallback = {});

/// Reads a latency as picoseconds. It is bounded, so that sums of latencies stay far from overflow.
Picoseconds read_latency(Fields&, std::string_view key);

/// Reads `duplex: full | half`. Returns true for half.
bool read_half_duplex(Fields&);

}  // namespace trainyard
