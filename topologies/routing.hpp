#pragma once
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "topologies/cluster.hpp"

namespace trainyard {

/// A segment of a path between two buffers.
struct PathLeg {
  std::string what;            ///< "GPU to GPU", "copies by the CPU", …
  std::vector<LinkId> wires;   ///< in order; empty for copies
  std::vector<LinkUse> links;  ///< all links that it uses: the wires, buses that they share, the memory at its ends
  Picoseconds latency;
};

/// The path of a message from one device to another: directly, or through buffers in host memory.
struct Path {
  std::vector<PathLeg> legs;
  bool reachable = false;
  /// In `nvidia-smi topo -m`'s words: NV, PIX, PXB, PHB, SYS; NET between nodes; ICI between chips; X to itself.
  std::string locality;
  std::string means;  ///< "", "through host memory", "RDMA", "TCP", …
  Bytes chunk;        ///< size of the pieces that buffers forward if there are several legs
  Picoseconds latency() const;
};

/// Distance between the ends of a path, in `nvidia-smi topo -m`'s words: NV, PIX, PXB, PHB, SYS; NET between nodes; X
/// for a path without wires.
std::string locality_of(const DeviceGraph&, std::span<const LinkId> wires);

/// Chooses paths as drivers and communication libraries do. Within a node: peer to peer if the node allows it,
/// otherwise through host memory. Between nodes: through each GPU's own HCA (another one of the node if that one is cut
/// off), by RDMA from GPU or host memory, or by TCP if either end needs it. If a GPU has several HCAs of its own, each
/// message is striped over them, as NCCL's channels (NVIDIA/nccl, src/graph/search.cc: one NIC a channel, in turn) and
/// the multi-rail protocol of EFA's plugin (aws/aws-ofi-nccl, doc/) do. If no switch joins the rails of both ends, a
/// message goes over NVLink to the GPU on the receiver's rail, and leaves by its HCA, as NCCL's PXN does. Without NVLink
/// it arrives at the receiver's node on the sender's rail.
class Routing {
 public:
  /// The graph and the spec must outlive the routing.
  Routing(DeviceGraph&, const ClusterSpec&);

  /// Finds a path between GPUs, CPUs (their memory), NVMe drives, HCAs or switches. The path class restricts its wires.
  Path path(DeviceId from, DeviceId to, PathClass);
  /// Returns the path as a route, which lives as long as this object. Adds `software` to the latency between nodes.
  Route route(DeviceId from, DeviceId to, PathClass, Picoseconds software);
  /// Calls a function with that route, and stores nothing.
  void visit_route(DeviceId from, DeviceId to, PathClass, Picoseconds software,
                   const std::function<void(const Route&)>& visit);
  /// The HCA of a GPU or CPU: the one that the node specifies, otherwise the nearest. GPUs take equally near ones in
  /// turn, by their index in the node. For a switch in the network: the switch itself. −1: none.
  DeviceId hca_of(DeviceId);
  /// The CPU socket to which a device is attached; −1: it is wired to none.
  DeviceId socket_of(DeviceId);
  /// Takes note of a link that failed or came back.
  void link_state(LinkId, bool up);

 private:
  static constexpr DeviceId kNotAsked = -2, kNoDevice = -1;
  DeviceGraph& graph_;
  const ClusterSpec& spec_;
  std::vector<DeviceId> hcas_, sockets_;  // indexed by device, once requested
  std::map<DeviceId, std::vector<DeviceId>> own_hcas_;
  bool was_changed_ = false;  // a link has failed or come back
  std::map<std::tuple<DeviceId, DeviceId, PathClass>, Route> routes_;
  std::deque<std::vector<Route>> alternatives_;  // referred to by routes
  std::optional<int> choice_;  // number of the fabric's path for the present route; no value: the router's own path
  std::deque<std::vector<LinkUse>> links_;
  std::deque<std::vector<Leg>> legs_;
  std::set<std::string> names_;  // names of routes, at addresses that do not change

  const Device& device(DeviceId id) const { return graph_.devices()[id]; }
  const NodeType& type_of(DeviceId id) const { return spec_.type_of(device(id).node); }
  DeviceId nearest(DeviceId, DeviceKind);
  bool lengthen(PathLeg&, DeviceId from, DeviceId to, PathClass);
  bool cross_fabric(PathLeg&, DeviceId out, DeviceId in);
  bool add_leg(Path&, std::string what, DeviceId from, DeviceId to, PathClass);
  struct NetworkEnd;
  bool add_network_leg(Path&, const NetworkEnd& from, const NetworkEnd& to, PathClass);
  bool add_striped_leg(Path&, const NetworkEnd& from, const NetworkEnd& to, PathClass);
  bool add_relayed_legs(Path&, const NetworkEnd& from, const NetworkEnd& to, PathClass);
  bool rails_apart(DeviceId out, DeviceId in) const;
  bool add_network_leg(Path&, DeviceId from, DeviceId out, DeviceId in, DeviceId to, PathClass);
  std::vector<DeviceId> hcas_of(DeviceId);
  std::vector<DeviceId> find_own_hcas(DeviceId);
  /// The HCAs of a device: those of its twin, and the offset from there.
  struct OwnHcas {
    const std::vector<DeviceId>& twin_hcas;
    DeviceId offset = 0;
    std::size_t size() const { return twin_hcas.size(); }
    DeviceId operator[](std::size_t i) const { return twin_hcas[i] < 0 ? twin_hcas[i] : twin_hcas[i] + offset; }
  };
  OwnHcas own_hcas(DeviceId);
  void keep_own_hcas();
  DeviceId twin_offset(DeviceId) const;
  void add_wires(PathLeg&, std::size_t begin, bool media) const;
  std::vector<DeviceId> nearest_all(DeviceId, DeviceKind);
  void add_copies(Path&, DeviceId cpu);
  /// Does nothing for the link −1.
  static void use(PathLeg& leg, LinkId link, double weight = 1) {
    if (link >= 0) add_use(leg.links, link, weight);
  }
  Path within_node(DeviceId from, DeviceId to, PathClass);
  Path between_nodes(DeviceId from, DeviceId to, PathClass);
  Path any_path(DeviceId from, DeviceId to, PathClass);
  struct DescribedRoute;
  Route keep(DescribedRoute);
  const std::vector<Route>* alternatives(DeviceId from, DeviceId to, PathClass, Picoseconds software);
  DescribedRoute described(Path, DeviceId from, DeviceId to, Picoseconds software);
  /// Returns true if the node allows its devices to reach each other's memory over these wires.
  bool peers(const std::vector<LinkId>& wires, const NodeType&) const;
};

}  // namespace trainyard
