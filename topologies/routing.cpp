#include "topologies/routing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace trainyard {
namespace {

constexpr std::size_t kUsualWires = 16;  // most paths have fewer

std::string name_of_route(const Path& path) {
  return path.means.empty() ? path.locality : path.locality + ", " + path.means;
}

}  // namespace

Picoseconds Path::latency() const {
  Picoseconds sum;
  for (const PathLeg& leg : legs) sum += leg.latency;
  return sum;
}

Routing::Routing(DeviceGraph& graph, const ClusterSpec& spec)
    : graph_(graph),
      spec_(spec),
      hcas_(graph.devices().size(), kNotAsked),
      sockets_(graph.devices().size(), kNotAsked) {}

void Routing::link_state(LinkId link, bool up) {
  if (!was_changed_) keep_own_hcas();
  was_changed_ = true;
  graph_.set_up(link, up);
  routes_.clear();  // but not the links of the routes: messages under way use them
}

/// Adds the wires of a leg from number `begin` on to its links and its latency, also the media that they share.
void Routing::add_wires(PathLeg& leg, std::size_t begin, bool media) const {
  leg.links.reserve(kUsualWires);
  for (std::size_t i = begin; i < leg.wires.size(); ++i) {
    const LinkId wire = leg.wires[i];
    add_use(leg.links, wire);
    if (media) use(leg, graph_.medium(wire));
    leg.latency += graph_.ends(wire).latency;
  }
}

/// Extends a leg from one device to another. If it starts or ends in host memory, it uses the memory's bandwidth.
/// Returns false if no wires lead there.
bool Routing::lengthen(PathLeg& leg, DeviceId from, DeviceId to, PathClass path_class) {
  const std::size_t begin = leg.wires.size();
  leg.wires.reserve(kUsualWires);
  if (!graph_.add_path(from, to, path_class, leg.wires)) return false;
  add_wires(leg, begin, true);
  for (const DeviceId end : {from, to})
    if (device(end).kind == DeviceKind::cpu) use(leg, graph_.host(end).memory);
  return true;
}

/// Extends a leg from one HCA to another. If several flows carry equal parts of the bytes, their wires have weights.
bool Routing::cross_fabric(PathLeg& leg, DeviceId out, DeviceId in) {
  if (choice_) {
    const std::size_t begin = leg.wires.size();
    if (!graph_.add_choice(out, in, *choice_, leg.wires)) return false;
    add_wires(leg, begin, false);
    return true;
  }
  const int flows = graph_.fabric_flows();
  if (flows == 1) return lengthen(leg, out, in, PathClass::fabric);
  PathLeg all;
  for (int flow = 0; flow < flows; ++flow) {
    const Picoseconds before = std::exchange(all.latency, {});
    all.wires.clear();
    if (!graph_.add_path(out, in, PathClass::fabric, all.wires, flow)) return false;
    add_wires(all, 0, true);
    all.latency = std::max(all.latency, before);
    if (flow == 0) leg.wires.insert(leg.wires.end(), all.wires.begin(), all.wires.end());
  }
  for (const LinkUse& link : all.links) add_use(leg.links, link.link, link.weight / flows);
  leg.latency += all.latency;
  return true;
}

bool Routing::add_leg(Path& path, std::string what, DeviceId from, DeviceId to, PathClass path_class) {
  PathLeg leg{std::move(what), {}, {}, {}};
  if (!lengthen(leg, from, to, path_class)) return false;
  path.legs.push_back(std::move(leg));
  return true;
}

/// One end of a transfer over the network: the device that sends or receives, and the device whose memory the network
/// reads or writes.
struct Routing::NetworkEnd {
  DeviceId device = kNoDevice, data = kNoDevice;
};

/// Adds a leg that uses pairs of HCAs side by side, one of each end. Each pair carries an equal part of the bytes.
/// Returns false if both ends have only one HCA, or if no pair has a path.
bool Routing::add_striped_leg(Path& path, const NetworkEnd& from, const NetworkEnd& to, PathClass path_class) {
  const OwnHcas outs = own_hcas(from.device), ins = own_hcas(to.device);
  const std::size_t count = std::max(outs.size(), ins.size());
  if (count < 2) return false;
  Path stripes;
  for (std::size_t i = 0; i < count; ++i)
    if (!rails_apart(outs[i % outs.size()], ins[i % ins.size()]))
      add_network_leg(stripes, from.data, outs[i % outs.size()], ins[i % ins.size()], to.data, path_class);
  if (stripes.legs.empty()) return false;
  PathLeg leg = stripes.legs.front();
  leg.links.clear();
  for (const PathLeg& stripe : stripes.legs) {
    leg.latency = std::max(leg.latency, stripe.latency);
    for (const LinkUse& link : stripe.links)
      add_use(leg.links, link.link, link.weight / static_cast<double>(stripes.legs.size()));
  }
  path.legs.push_back(std::move(leg));
  return true;
}

/// Returns true if no switch joins the rails of two HCAs. A border switch joins those of different islands.
bool Routing::rails_apart(DeviceId out, DeviceId in) const {
  if (out < 0 || in < 0 || device(out).kind != DeviceKind::hca || device(in).kind != DeviceKind::hca) return false;
  const Fabric* fabric = spec_.fabric_of(device(out).node);
  return fabric && !fabric->joins_rails() && fabric == spec_.fabric_of(device(in).node) &&
         device(out).index != device(in).index;
}

/// Adds a leg over NVLink to the GPU on the receiver's rail, and a leg from its HCA. Pieces are forwarded in chunks:
/// NCCL's network buffers have 8 slots in 4 MB (NCCL_BUFFSIZE), 512 KiB each, as the default of `staging_chunk`.
/// Returns false if there is no such GPU.
bool Routing::add_relayed_legs(Path& path, const NetworkEnd& from, const NetworkEnd& to, PathClass path_class) {
  const DeviceId in = hca_of(to.device);
  if (from.data != from.device || device(from.data).kind != DeviceKind::gpu) return false;
  for (const DeviceId relay : graph_.devices_of_kind(DeviceKind::gpu, device(from.device).node)) {
    const DeviceId out = hca_of(relay);
    if (relay == from.data || out < 0 || rails_apart(out, in)) continue;
    Path relayed;
    if (!add_leg(relayed, "over NVLink to the GPU on the receiver's rail", from.data, relay, PathClass::nvlink))
      return false;
    if (!add_striped_leg(relayed, {relay, relay}, to, path_class) &&
        !add_network_leg(relayed, relay, out, in, to.data, path_class))
      continue;
    path.legs.insert(path.legs.end(), relayed.legs.begin(), relayed.legs.end());
    path.means += ", by NVLink to the rail";
    return true;
  }
  return false;
}

/// Routes through the HCAs of both ends even if another HCA is nearer, as communication libraries do. Two paths then
/// never share a PCIe link by chance.
bool Routing::add_network_leg(Path& path, const NetworkEnd& from, const NetworkEnd& to, PathClass path_class) {
  if (add_striped_leg(path, from, to, path_class)) return true;
  const auto joined = [&](DeviceId out, DeviceId in) {
    return out >= 0 && in >= 0 && add_network_leg(path, from.data, out, in, to.data, path_class);
  };
  const DeviceId own_out = hca_of(from.device), own_in = hca_of(to.device);
  if (rails_apart(own_out, own_in)) {
    if (add_relayed_legs(path, from, to, path_class)) return true;
    const std::vector<DeviceId> hcas = graph_.devices_of_kind(DeviceKind::hca, device(own_in).node);
    const auto same_rail = std::ranges::find_if(hcas, [&](DeviceId in) { return !rails_apart(own_out, in); });
    if (same_rail != hcas.end() && joined(own_out, *same_rail)) return true;
  } else if (joined(own_out, own_in)) {
    return true;  // nearly always true: no other HCAs are tried
  }
  for (const DeviceId out : hcas_of(from.device))
    for (const DeviceId in : hcas_of(to.device))
      if (joined(out, in)) return true;
  return false;
}

bool Routing::add_network_leg(Path& path, DeviceId from, DeviceId out, DeviceId in, DeviceId to, PathClass path_class) {
  PathLeg leg{"over the network", {}, {}, {}};
  if (!lengthen(leg, from, out, path_class) || !cross_fabric(leg, out, in) || !lengthen(leg, in, to, path_class))
    return false;
  path.legs.push_back(std::move(leg));
  return true;
}

/// Adds the copies of the kernel's network stack on one side: one buffer after the other, at one CPU's copy rate.
void Routing::add_copies(Path& path, DeviceId cpu) {
  const int copies = type_of(cpu).network.copies;
  const DeviceGraph::Host host = graph_.host(cpu);
  if (copies == 0 || (host.copies < 0 && host.memory < 0)) return;
  PathLeg leg{fmt::format("{} cop{} by the CPU", copies, copies == 1 ? "y" : "ies"), {}, {}, {}};
  use(leg, host.copies, copies);
  use(leg, host.memory, 2 * copies);  // each byte is read and written
  path.legs.push_back(std::move(leg));
}

std::string locality_of(const DeviceGraph& graph, std::span<const LinkId> wires) {
  const auto kind_at = [&graph](DeviceId id) { return graph.devices()[id].kind; };
  if (wires.empty()) return "X";
  int switches = 0;
  bool cpu = false, socket = false;
  for (const LinkId wire : wires) {
    const LinkScope scope = scope_of(graph.kind(wire));
    if (scope == LinkScope::nvlink) return "NV";
    if (scope != LinkScope::pcie && scope != LinkScope::socket) return "NET";
    socket |= scope == LinkScope::socket;
    const DeviceGraph::End end = graph.ends(wire);
    cpu |= kind_at(end.to) == DeviceKind::cpu || kind_at(end.from) == DeviceKind::cpu;
    switches += kind_at(end.to) == DeviceKind::pcie_switch ? 1 : 0;
  }
  return socket ? "SYS" : cpu ? "PHB" : switches > 1 ? "PXB" : "PIX";
}

bool Routing::peers(const std::vector<LinkId>& wires, const NodeType& type) const {
  const std::string near = locality_of(graph_, wires);
  if (near == "NV" || near == "NET") return true;
  if (near == "SYS") return type.peer_to_peer == PeerToPeer::node;
  if (near == "PHB") return type.peer_to_peer >= PeerToPeer::socket;
  return type.peer_to_peer >= PeerToPeer::pcie_switch;
}

Path Routing::within_node(DeviceId from, DeviceId to, PathClass path_class) {
  Path path;
  const bool gpus = device(from).kind == DeviceKind::gpu && device(to).kind == DeviceKind::gpu;
  // GPUs with NVLink or xGMI between them use it, however fast PCIe is: drivers and libraries take the path of fewest
  // hops (NVIDIA/nccl src/graph/paths.cc, ncclTopoSetPaths).
  path.reachable = (gpus && path_class == PathClass::automatic && add_leg(path, "", from, to, PathClass::nvlink)) ||
                   add_leg(path, "", from, to, path_class);
  if (!path.reachable) return path;
  path.locality = locality_of(graph_, path.legs.front().wires);
  const auto is_device = [this](DeviceId id) {
    return device(id).kind == DeviceKind::gpu || device(id).kind == DeviceKind::nvme;
  };
  if (!is_device(from) || !is_device(to)) return path;
  // Between drives and GPUs, GPUDirect Storage is not assumed.
  if (gpus && peers(path.legs.front().wires, type_of(from))) return path;
  const DeviceId socket = socket_of(from);
  Path staged;
  staged.locality = path.locality;
  if (socket < 0 || !add_leg(staged, "into host memory", from, socket, PathClass::pcie) ||
      !add_leg(staged, "out of host memory", socket, to, PathClass::pcie))
    return path;
  staged.reachable = true;
  staged.means = "through host memory";
  staged.chunk = type_of(from).staging_chunk;
  return staged;
}

Path Routing::between_nodes(DeviceId from, DeviceId to, PathClass path_class) {
  if (path_class == PathClass::nvlink || path_class == PathClass::pcie) return {};  // their paths end at the HCA
  const NodeType &source = type_of(from), &target = type_of(to);
  const bool tcp = source.network.tcp || target.network.tcp;
  // The data of an adapter that is an end itself need no copy; those of a CPU lie in host memory anyway.
  const auto staged = [&](DeviceId end, const NodeType& type) {
    const DeviceKind kind = device(end).kind;
    return kind == DeviceKind::nvme || (kind == DeviceKind::gpu && (tcp || !type.network.gpudirect));
  };
  const bool stage_out = staged(from, source), stage_in = staged(to, target);
  Path path;
  path.locality = "NET";
  const bool grpc = source.network.grpc || target.network.grpc;
  path.means = grpc ? "gRPC" : tcp ? "TCP" : stage_out || stage_in ? "RDMA through host memory" : "RDMA";
  path.chunk = std::min(source.staging_chunk, target.staging_chunk);
  const DeviceId out = stage_out ? socket_of(from) : from, in = stage_in ? socket_of(to) : to;
  if (out < 0 || in < 0) return {};
  if (stage_out && !add_leg(path, "into host memory", from, out, PathClass::pcie)) return {};
  if (tcp && device(out).kind == DeviceKind::cpu) add_copies(path, out);
  if (!add_network_leg(path, {from, out}, {to, in}, path_class)) return {};
  if (tcp && device(in).kind == DeviceKind::cpu) add_copies(path, in);
  if (stage_in && !add_leg(path, "out of host memory", in, to, PathClass::pcie)) return {};
  path.reachable = true;
  return path;
}

/// The shortest path over the allowed wires.
Path Routing::any_path(DeviceId from, DeviceId to, PathClass path_class) {
  Path path;
  path.reachable = add_leg(path, "", from, to, path_class);
  if (path.reachable) path.locality = locality_of(graph_, path.legs.front().wires);
  return path;
}

Path Routing::path(DeviceId from, DeviceId to, PathClass path_class) {
  const int source = device(from).node, target = device(to).node;
  // A switch that takes part in a collective exchanges data with hosts as the hosts do with each other.
  const auto at_switch = [&](DeviceId network_switch, DeviceId host_device) {
    const DeviceKind host = device(host_device).kind;
    return !spec_.joins_chips() && device(network_switch).kind == DeviceKind::network_switch &&
           (host == DeviceKind::gpu || host == DeviceKind::cpu);
  };
  if (at_switch(from, to) || at_switch(to, from)) return between_nodes(from, to, path_class);
  if (source < 0 || target < 0 || from == to) return any_path(from, to, path_class);
  if (spec_.joins_chips() && device(from).kind == DeviceKind::gpu && device(to).kind == DeviceKind::gpu &&
      path_class != PathClass::pcie && path_class != PathClass::nvlink && spec_.same_slice(source, target)) {
    Path path = any_path(from, to, PathClass::fabric);
    path.locality = name_of(LinkKind::ici);
    if (path.reachable) return path;
  }
  return source == target ? within_node(from, to, path_class) : between_nodes(from, to, path_class);
}

/// A route, and the memory of its legs and links.
struct Routing::DescribedRoute {
  Route route;
  Path path;                   // with the links of each leg
  std::vector<Leg> legs;       // empty if there is only one
  std::vector<LinkUse> links;  // links of all legs, if there are several
};

Routing::DescribedRoute Routing::described(Path path, DeviceId from, DeviceId to, Picoseconds software) {
  DescribedRoute found{{}, std::move(path), {}, {}};
  Route& route = found.route;
  route.reachable = found.path.reachable;
  if (!route.reachable) return found;
  route.name = names_.insert(name_of_route(found.path)).first->c_str();
  const bool over_software = device(from).node != device(to).node &&
                             (!spec_.joins_chips() || !spec_.same_slice(device(from).node, device(to).node));
  const Picoseconds first = over_software ? software : Picoseconds{};  // paid before the first leg
  route.latency = first + found.path.latency();
  if (found.path.legs.size() == 1) {
    route.links = found.path.legs.front().links;
    return found;
  }
  PathLeg all;
  for (const PathLeg& part : found.path.legs) {
    Leg& leg = found.legs.emplace_back();
    leg.links = part.links;
    leg.latency = found.legs.size() == 1 ? first + part.latency : part.latency;
    for (const LinkUse& link : part.links) {
      add_use(all.links, link.link, link.weight);
      const double rate = graph_.links()[link.link].capacity.value;
      leg.seconds_per_byte = std::max(leg.seconds_per_byte, link.weight / rate);
    }
  }
  found.links = std::move(all.links);
  route.links = found.links;
  route.legs = found.legs;
  route.chunk = found.path.chunk;
  return found;
}

Route Routing::route(DeviceId from, DeviceId to, PathClass path_class, Picoseconds software) {
  const auto [entry, fresh] = routes_.try_emplace({from, to, path_class});
  Route& route = entry->second;
  if (!fresh) return route;
  route = keep(described(path(from, to, path_class), from, to, software));
  route.alternatives = alternatives(from, to, path_class, software);
  if (route.alternatives) route.flowlet = route.alternatives->front().flowlet;
  return route;
}

/// Stores the legs and links of a route, without the memory that was reserved for longer ones.
Route Routing::keep(DescribedRoute found) {
  if (!found.route.reachable) return found.route;
  const auto stored = [this](const std::vector<LinkUse>& links) -> std::span<const LinkUse> {
    return links_.emplace_back(links.begin(), links.end());
  };
  if (found.legs.empty()) {
    for (const PathLeg& leg : found.path.legs) found.route.links = stored(leg.links);
    return found.route;
  }
  for (std::size_t l = 0; l < found.legs.size(); ++l) found.legs[l].links = stored(found.path.legs[l].links);
  legs_.push_back(std::move(found.legs));
  links_.push_back(std::move(found.links));
  return found.route;
}

/// Returns the routes among which a message may choose, over the alternative paths of the fabric between the two HCAs.
/// Null: there is one path.
const std::vector<Route>* Routing::alternatives(DeviceId from, DeviceId to, PathClass path_class,
                                                Picoseconds software) {
  if (!graph_.chooses_paths() || device(from).node == device(to).node) return nullptr;
  const DeviceId out = hca_of(from), in = hca_of(to);
  const int choices = out >= 0 && in >= 0 ? graph_.fabric_choices(out, in) : 1;
  if (choices < 2) return nullptr;
  std::vector<Route> routes;
  for (int number = 0; number < choices; ++number) {
    if (std::vector<LinkId> wires; !graph_.add_choice(out, in, number, wires)) continue;  // it is down
    choice_ = number;
    DescribedRoute found = described(path(from, to, path_class), from, to, software);
    choice_.reset();
    found.route.flowlet = graph_.flowlet(out, in);
    if (found.route.reachable) routes.push_back(keep(std::move(found)));
  }
  return routes.empty() ? nullptr : &alternatives_.emplace_back(std::move(routes));
}

void Routing::visit_route(DeviceId from, DeviceId to, PathClass path_class, Picoseconds software,
                          const std::function<void(const Route&)>& visit) {
  const auto stored = routes_.find({from, to, path_class});
  if (stored != routes_.end()) return visit(stored->second);
  if (graph_.chooses_paths()) return visit(route(from, to, path_class, software));  // alternatives are stored
  visit(described(path(from, to, path_class), from, to, software).route);
}

}  // namespace trainyard
