#pragma once
#include "models/reading/document.hpp"

namespace trainyard {

constexpr int kFullWidth = 16;  ///< lanes of the widest PCIe slot, which `pcie.rate` is the rate of

/// Rate per direction of `lanes` PCIe lanes of a generation from 3 to 6, before packet headers.
BytesPerSecond pcie_rate(int generation, int lanes);

/// A latency as picoseconds; bounded, so that sums of them stay far from overflow.
Picoseconds read_latency(Fields&, std::string_view key);

/// Lanes of PCIe that the key has. Throws UserError for what is no width of a link; `expected` says what would be one.
int require_lanes(const Fields&, std::string_view key, std::int64_t lanes, const char* expected = "1, 2, 4, 8 or 16");

/// The number of one of so many devices. Throws UserError with the place.
int number_below(const Node&, int count, const std::string& what);

/// `duplex: full | half`.
bool read_half_duplex(Fields&);

}  // namespace trainyard
