#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/hardware/link_fields.hpp"
#include "sim/machine.hpp"

namespace trainyard {

enum class DeviceKind : std::uint8_t { gpu, nvswitch, pcie_switch, cpu, hca, nvme, network_switch };
const char* name_of(DeviceKind);

struct Device {
  std::string name;  ///< "node0/gpu3"
  DeviceKind kind = DeviceKind::gpu;
  int node = -1;   ///< −1: between nodes
  int index = 0;   ///< number among the node's devices of its kind
  int island = 0;  ///< number of the island whose fabric a switch is part of (ClusterSpec::island)
};

/// Connection of two devices in both directions, each with its own rate (full duplex) and the same latency.
struct Wire {
  LinkKind kind = LinkKind::pcie;
  BytesPerSecond rate;
  Picoseconds latency;
  bool half_duplex = false;  ///< both directions share the rate
  BytesPerSecond back = {};  ///< rate of the opposite direction if it differs; 0: the same
  LinkId medium = -1;        ///< a shared link that the first direction uses too (an Ethernet hub); −1: none
};

using DeviceId = int;

class DeviceGraph;

/// Finds paths through the switches of a fabric. Fabrics have one if they do not route by shortest paths, or if the
/// search for these takes long.
class FabricRouter {
 public:
  virtual ~FabricRouter() = default;
  /// Appends the wires from one device at the edge of the fabric (an HCA, or a chip with links of its own) to another.
  /// Returns false if it knows no path, or only one that is down: the graph then searches a shortest path.
  virtual bool path(const DeviceGraph&, DeviceId from, DeviceId to, std::vector<LinkId>& wires) const = 0;
  /// Number of flows that carry equal parts of each message between two such devices, each over a path of its own.
  virtual int flows() const { return 1; }
  /// Appends the wires of one of these flows; that of flow 0 is `path`.
  virtual bool flow_path(const DeviceGraph& graph, DeviceId from, DeviceId to, int /*flow*/,
                         std::vector<LinkId>& wires) const {
    return path(graph, from, to, wires);
  }
  /// Returns true if each message takes one of several paths, by the load when it starts.
  virtual bool chooses_paths() const { return false; }
  /// The bytes after which a message between two such devices chooses again; 0: it keeps its path.
  virtual Bytes flowlet(DeviceId /*from*/, DeviceId /*to*/) const { return {}; }
  /// Number of paths between two such devices among which a message may choose; 1 if there is no choice.
  virtual int choices(DeviceId /*from*/, DeviceId /*to*/) const { return 1; }
  /// Appends the wires of one of these paths. Returns false if it is down.
  virtual bool choice(const DeviceGraph& graph, DeviceId from, DeviceId to, int /*number*/,
                      std::vector<LinkId>& wires) const {
    return path(graph, from, to, wires);
  }
};

/// The devices and wires of a cluster as a directed graph: devices are vertices, and each direction of a
/// wire is an edge and a Link of the simulation. A path minimises the time of a message of 1 MiB that is alone on it.
/// No path passes through a GPU, an NVMe drive or a link that is down, and no path in the network (PathClass::fabric)
/// through an HCA. Add all devices of a node before those of the next one: paths within a node are searched only among
/// its devices.
class DeviceGraph {
 public:
  DeviceGraph();
  ~DeviceGraph();
  DeviceGraph(DeviceGraph&&) noexcept;
  DeviceGraph& operator=(DeviceGraph&&) noexcept;

  /// Reserves memory, so that devices and cables need not be moved as they are added.
  void reserve(std::size_t devices, std::size_t wires);
  DeviceId add(Device);
  /// Returns the wire from the first device to the second. Throws UserError for a rate that is not finite and positive,
  /// or a negative latency.
  LinkId connect(DeviceId, DeviceId, const Wire&);
  /// Adds a link that is not a wire but shared by several (`Wire::medium`): a bus, or the memory of a CPU.
  LinkId add_shared(std::string name, LinkKind, BytesPerSecond);
  void set_router(std::unique_ptr<FabricRouter>);
  std::unique_ptr<FabricRouter> take_router();  ///< removes the router; null: there is none
  /// Shared links that data use if they start, end or are buffered at a CPU; −1: no limit.
  struct Host {
    LinkId memory = -1, copies = -1;
  };
  void set_host(DeviceId cpu, Host);  ///< links as returned by `add_shared`
  Host host(DeviceId cpu) const;      ///< links as indices into `links()`

  std::span<const Device> devices() const;
  /// Returns both directions of all wires: there, back, there, back, …
  std::span<const Link> wires() const;
  /// The links that the simulation shares: the wires, then the shared links (their ids count from the end of the
  /// wires).
  std::span<const Link> links() const;
  LinkId shared(LinkId id) const;  ///< index in `links()` of a link returned by `add_shared`
  bool is_wire(LinkId) const;
  LinkKind kind(LinkId wire) const;
  /// Returns the devices of a kind by ascending id. `node`: −1 for devices between nodes, −2 for all devices.
  std::vector<DeviceId> devices_of_kind(DeviceKind, int node = -2) const;
  std::vector<LinkId> links_from(DeviceId) const;
  std::vector<LinkId> links_to(DeviceId) const;
  struct End {
    DeviceId from = 0, to = 0;
    Picoseconds latency;
  };
  End ends(LinkId wire) const;
  /// The first node with the same devices and wires inside, and the offset from its devices to those of this node.
  struct Twin {
    int node = 0;
    DeviceId offset = 0;
  };
  Twin twin_of(int node) const;

  /// The wires of a path, in order; empty from a device to itself. No value: there is no path.
  std::optional<std::vector<LinkId>> path(DeviceId from, DeviceId to, PathClass);
  /// Appends the wires of a path. Returns false, and appends nothing, if there is no path.
  /// `flow`: which of the `fabric_flows()` paths through the fabric, from 0 on.
  bool add_path(DeviceId from, DeviceId to, PathClass, std::vector<LinkId>& wires, int flow = 0);
  /// Number of flows that carry equal parts of each message through the fabric (FabricRouter::flows).
  int fabric_flows() const;
  bool chooses_paths() const;                       ///< see FabricRouter
  Bytes flowlet(DeviceId from, DeviceId to) const;  ///< see FabricRouter
  int fabric_choices(DeviceId from, DeviceId to) const;
  /// Appends the wires of a path through the fabric by its number. Returns false, and appends nothing, if it is down.
  bool add_choice(DeviceId from, DeviceId to, int number, std::vector<LinkId>& wires) const;
  /// The medium that the wire shares with others; −1: none.
  LinkId medium(LinkId wire) const;
  /// The wires of a path, each followed by the medium that it shares.
  std::vector<LinkId> with_media(std::span<const LinkId> wires) const;
  /// The quantity that paths minimise, in picoseconds. No value: there is no path.
  std::optional<std::int64_t> cost(DeviceId from, DeviceId to);
  void set_up(LinkId, bool up);
  bool is_up(LinkId) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainyard
