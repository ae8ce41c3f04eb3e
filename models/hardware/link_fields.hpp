#pragma once
#include <cstdint>
#include <span>

#include "models/reading/document.hpp"

namespace trainyard {

constexpr int kFullWidth = 16;  ///< lanes of the widest PCIe slot; `pcie.rate` is the rate of such a slot

/// Returns the rate per direction of `lanes` PCIe lanes of a generation from 3 to 6, before packet headers.
BytesPerSecond pcie_rate(int generation, int lanes);

/// Reads a number of PCIe lanes: 1, 2, 4, 8 or 16, or 0 if that is the fallback. Throws UserError with the place.
int read_lanes(Fields&, Key, std::optional<int> fallback = {});

/// Reads a latency as picoseconds. It is bounded, so that sums of latencies stay far from overflow.
Picoseconds read_latency(Fields&, Key);

/// Reads `duplex: full | half`. Returns true for half.
bool read_half_duplex(Fields&);

/// Kind of a link: a cable inside a node or between nodes, or a rate that several transfers share. Tables list the
/// kinds in this order.
enum class LinkKind : std::uint8_t {
  nvlink,
  ici,  ///< between chips that are joined without adapters (TPUs)
  pcie,
  socket,  ///< between two CPUs
  nvme,    ///< from a drive to its CPU
  host_memory,
  cpu_copies,
  hca,       ///< between an adapter and the switch that it is plugged into
  uplink,    ///< between switches
  ethernet,  ///< the medium that all ports of a hub share
  storage,
  storage_requests,
  storage_port,
  file_latency,
};

/// Part of the cluster in which links of a kind are. It decides which links a path may use.
enum class LinkScope : std::uint8_t {
  nvlink,
  pcie,    ///< to devices behind a CPU
  socket,  ///< between CPUs
  fabric,  ///< outside the nodes
  shared,  ///< no cable
};

/// Names of a kind of link, and its scope.
struct LinkKindWords {
  const char* name;      ///< name in reports and JSON; also the resource class that a what-if makes faster
  const char* upgraded;  ///< name of the rate that a what-if makes faster: "NVLink rate"
  LinkScope scope;
  const char* outside = "";  ///< name of the network outside the node that a device reaches by it: "network", "ICI"
};
const LinkKindWords& words_of(LinkKind);
std::span<const LinkKind> all_link_kinds();
inline const char* name_of(LinkKind kind) { return words_of(kind).name; }
inline LinkScope scope_of(LinkKind kind) { return words_of(kind).scope; }

}  // namespace trainyard
