#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/hardware/link_kind.hpp"
#include "sim/machine.hpp"

namespace trainyard {

enum class DeviceKind : std::uint8_t { gpu, nvswitch, pcie_switch, cpu, hca, nvme, network_switch };
const char* name_of(DeviceKind);

struct Device {
  std::string name;  ///< "node0/gpu3"
  DeviceKind kind = DeviceKind::gpu;
  int node = -1;  ///< −1: between nodes
  int index = 0;  ///< among its kind in the node
};

/// What joins two devices: the same in both directions, each with its own rate (full duplex).
struct Wire {
  LinkKind kind = LinkKind::pcie;
  BytesPerSecond rate;
  Picoseconds latency;
  bool half_duplex = false;  ///< both directions share the rate
  BytesPerSecond back = {};  ///< rate of the way back where it is another; 0: the same
  LinkId medium = -1;        ///< a shared link that the way there uses as well (an Ethernet hub)
};

using DeviceId = int;

class DeviceGraph;

/// Finds paths through the switches of a fabric where shortest paths are not the rule, or searching them takes long.
class FabricRouter {
 public:
  virtual ~FabricRouter() = default;
  /// Appends the wires from one device at the edge of the fabric (an HCA, or a chip with links of its own) to another.
  /// False: it knows none, or only one that is down; a shortest one is then searched.
  virtual bool path(const DeviceGraph&, DeviceId from, DeviceId to, std::vector<LinkId>& wires) const = 0;
};

/// What is wired to what, as a directed graph (Boost.Graph): devices are vertices, each direction of a wire an edge and
/// a Link of the simulation. A path minimises the time of a message of 1 MiB that is alone on it. No path passes through
/// a GPU, an NVMe drive or a link that is down, and none in the network (PathClass::fabric) through an HCA. All devices
/// of a node are added before those of the next: paths within a node are searched among its devices only.
class DeviceGraph {
 public:
  DeviceGraph();
  ~DeviceGraph();
  DeviceGraph(DeviceGraph&&) noexcept;
  DeviceGraph& operator=(DeviceGraph&&) noexcept;

  /// Room for so many devices and cables, which saves moving them as they come.
  void reserve(std::size_t devices, std::size_t wires);
  DeviceId add(Device);
  /// Throws UserError for a rate that is not finite and positive, or a negative latency.
  void connect(DeviceId, DeviceId, const Wire&);
  /// A link that is not a wire but shared by several (`Wire::medium`): a bus, or the memory of a CPU.
  LinkId add_shared(std::string name, LinkKind, BytesPerSecond);
  void set_router(std::unique_ptr<FabricRouter>);
  /// Shared links that data use when they start, end or are buffered at a CPU; −1: no limit.
  struct Host {
    LinkId memory = -1, copies = -1;
  };
  void set_host(DeviceId cpu, Host);  ///< as `add_shared` returned them
  Host host(DeviceId cpu) const;      ///< as in `links()`

  std::span<const Device> devices() const;
  /// Directions of wires: there, back, there, back, …
  std::span<const Link> wires() const;
  /// What the simulation shares: the wires, then the shared links (their ids are counted from the end of the wires).
  std::span<const Link> links() const;
  LinkId shared(LinkId id) const;  ///< in `links()`, of what `add_shared` returned
  bool is_wire(LinkId) const;
  LinkKind kind(LinkId wire) const;
  std::vector<DeviceId> all(DeviceKind, int node = -2) const;  ///< in order; node −2: anywhere
  std::optional<LinkId> link(DeviceId from, DeviceId to) const;
  std::vector<LinkId> links_from(DeviceId) const;
  std::vector<LinkId> links_to(DeviceId) const;
  struct End {
    DeviceId from = 0, to = 0;
    Picoseconds latency;
  };
  End ends(LinkId wire) const;

  /// The wires of a path, in order; none where there is no path, empty from a device to itself.
  std::optional<std::vector<LinkId>> path(DeviceId from, DeviceId to, PathClass);
  /// Appends them; false, and nothing appended, where there is no path.
  bool add_path(DeviceId from, DeviceId to, PathClass, std::vector<LinkId>& wires);
  /// The medium that the wire shares with others; −1: none.
  LinkId medium(LinkId wire) const;
  /// What the path minimises, in picoseconds; none where there is no path.
  std::optional<std::int64_t> cost(DeviceId from, DeviceId to);
  void set_up(LinkId, bool up);
  bool is_up(LinkId) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainyard
