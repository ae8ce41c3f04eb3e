#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/machine.hpp"

namespace trainyard {

enum class DeviceKind : std::uint8_t { gpu, nvswitch, pcie_switch, cpu, hca, network_switch };
const char* name_of(DeviceKind);

struct Device {
  std::string name;  ///< "node0/gpu3"
  DeviceKind kind = DeviceKind::gpu;
  int node = -1;  ///< −1: between nodes
  int index = 0;  ///< among its kind in the node
};

/// What joins two devices: the same in both directions, each with its own rate (full duplex).
struct Wire {
  std::string kind;  ///< "NVLink", "PCIe", "socket", "HCA"
  BytesPerSecond rate;
  Picoseconds latency;
};

using DeviceId = int;

/// What is wired to what, as a directed graph (Boost.Graph): devices are vertices, each direction of a wire an edge and
/// a Link of the simulation. Routes minimise the time of a message of 1 MiB alone on the path; nothing passes through
/// a GPU. Links that are down are avoided.
class DeviceGraph {
 public:
  DeviceGraph();
  ~DeviceGraph();
  DeviceGraph(DeviceGraph&&) noexcept;
  DeviceGraph& operator=(DeviceGraph&&) noexcept;

  DeviceId add(Device);
  /// Throws UserError for a rate that is not finite and positive, or a negative latency.
  void connect(DeviceId, DeviceId, const Wire&);

  std::span<const Device> devices() const;
  std::span<const Link> links() const;
  std::vector<DeviceId> all(DeviceKind, int node = -2) const;  ///< in order; node −2: anywhere
  std::optional<LinkId> link(DeviceId from, DeviceId to) const;
  std::vector<LinkId> links_from(DeviceId) const;
  std::vector<LinkId> links_to(DeviceId) const;
  struct End {
    DeviceId from = 0, to = 0;
    Picoseconds latency;
  };
  End ends(LinkId) const;

  /// The path's links stay where they are as long as the graph lives. `reachable` is false where there is none.
  Route route(DeviceId from, DeviceId to, PathClass);
  /// What the route minimises, in picoseconds; none where there is no way.
  std::optional<std::int64_t> cost(DeviceId from, DeviceId to);
  void set_up(LinkId, bool up);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainyard
