#pragma once
#include "models/reading/document.hpp"

namespace trainyard {

constexpr int kFullWidth = 16;  ///< lanes of the widest PCIe slot, which `pcie.rate` is the rate of

/// Rate per direction of `lanes` PCIe lanes of a generation from 3 to 6, before packet headers.
BytesPerSecond pcie_rate(int generation, int lanes);

/// A latency as picoseconds; bounded, so that sums of them stay far from overflow.
Picoseconds read_latency(Fields&, std::string_view key);

/// `duplex: full | half`.
bool read_half_duplex(Fields&);

}  // namespace trainyard
