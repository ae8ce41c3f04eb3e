#include "topologies/device_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "sim/error.hpp"

namespace trainyard {
namespace {

struct Edge {
  LinkId wire = 0;
  std::int64_t weight = 0;  // ps for a message of 1 MiB; an integer, so that equal paths cost the same in any order
};
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Edge>;
using Vertex = boost::graph_traits<Graph>::vertex_descriptor;
using EdgeId = boost::graph_traits<Graph>::edge_descriptor;

constexpr std::int64_t kUnreached = std::numeric_limits<std::int64_t>::max();
constexpr double kTypicalMessage = 1 << 20;  // bytes

bool allowed(LinkKind kind, PathClass path_class) {
  const LinkScope scope = scope_of(kind);
  switch (path_class) {
    case PathClass::nvlink:
      return scope == LinkScope::nvlink;
    case PathClass::pcie:
      return scope == LinkScope::pcie || scope == LinkScope::socket;
    case PathClass::network:
      return scope != LinkScope::nvlink;
    case PathClass::fabric:
      return scope == LinkScope::fabric;
    case PathClass::automatic:
      break;
  }
  return true;
}

/// Shortest paths from one vertex of a graph.
struct ShortestPaths {
  std::vector<LinkId> in;          // the last wire of the path to each vertex
  std::vector<std::int64_t> cost;  // kUnreached: no path

  template <class Usable>
  ShortestPaths(const Graph& graph, Vertex from, const Usable& usable) : in(num_vertices(graph)), cost(in.size()) {
    struct Filter {  // a pointer: the iterators of a filtered graph copy it all the time
      const Usable* usable = nullptr;
      bool operator()(const EdgeId& edge) const { return (*usable)(edge); }
    };
    const boost::filtered_graph<Graph, Filter> view(graph, Filter{&usable});
    std::vector<EdgeId> last(in.size());
    boost::dijkstra_shortest_paths(view, from,
                                   boost::distance_map(cost.data())
                                       .weight_map(boost::get(&Edge::weight, graph))
                                       .visitor(boost::make_dijkstra_visitor(
                                           boost::record_edge_predecessors(last.data(), boost::on_edge_relaxed()))));
    for (std::size_t v = 0; v < in.size(); ++v)
      if (cost[v] != kUnreached && v != from) in[v] = graph[last[v]].wire;
  }
};

/// Consecutive devices from `first` on, with the wires between them. Only domains are graphs of Boost, because these take
/// much more memory than the lists of wires.
struct Domain {
  DeviceId first = 0;
  Graph graph;
  std::unordered_map<std::int64_t, ShortestPaths> paths;  // indexed by first device and path class
};

}  // namespace

struct DeviceGraph::Impl : LinkNamer {
  std::vector<Device> devices;
  std::vector<Link> links;   // links of the wires, then (once requested) the shared ones
  std::vector<Link> shared;  // the shared links alone
  std::vector<End> cables;   // ends of the first direction of each cable; the second one has the next number
  std::vector<LinkKind> kinds;
  std::vector<LinkId> media;                // indexed by wire; wires beyond its end have none
  std::vector<char> up;                     // indexed by wire
  std::vector<LinkId> first_out, last_out;  // indexed by device: first and last wire that leaves it; −1: none
  std::vector<LinkId> next_out;             // indexed by wire: next one that leaves the same device; −1: none
  std::vector<std::pair<DeviceId, DeviceId>> nodes;  // first device of each node, and the one after its last
  std::map<int, Domain> domains;                     // indexed by example node; −1: all devices
  std::pair<int, Domain*> last_domain{0, nullptr};   // the one that was requested last
  std::unique_ptr<FabricRouter> router;
  std::map<DeviceId, Host> hosts;
  std::map<LinkKind, Label> labels;  // names of kinds: finding one here takes no lock

  Label label(LinkKind kind) { return labels.try_emplace(kind, name_of(kind)).first->second; }

  std::size_t wires() const { return 2 * cables.size(); }
  End ends(LinkId wire) const {
    const End& cable = cables[static_cast<std::size_t>(wire) / 2];
    return wire % 2 == 0 ? cable : End{cable.to, cable.from, cable.latency};
  }
  std::string link_name(std::int32_t wire) const override {
    const End end = ends(wire);
    return fmt::format("{} -> {}", devices[end.from].name, devices[end.to].name);
  }
  void wires_changed() {
    links.resize(wires());
    forget_paths();
  }
  void forget_paths() {
    last_domain = {0, nullptr};
    domains.clear();
    examples.clear();
  }

  void add_out(LinkId wire) {
    const DeviceId from = ends(wire).from;
    next_out.push_back(-1);
    (first_out[from] < 0 ? first_out[from] : next_out[last_out[from]]) = wire;
    last_out[from] = wire;
  }
  /// Visits the wires that leave a device, in the order in which they were added.
  template <class Visit>
  void each_wire_out(DeviceId from, Visit visit) const {
    for (LinkId wire = first_out[from]; wire >= 0; wire = next_out[wire]) visit(wire);
  }
  Edge edge(LinkId wire) const {
    return {wire, cables[static_cast<std::size_t>(wire) / 2].latency.count +
                      to_picoseconds(Bytes{kTypicalMessage} / links[wire].capacity).count};
  }

  /// Visits the wires between devices of a node, with their ends as numbers within the node.
  template <class Visit>
  void each_wire_inside(int node, Visit visit) const {
    const auto [first, last] = nodes[node];
    for (DeviceId from = first; from < last; ++from)
      each_wire_out(from, [&, first = first, last = last](LinkId wire) {
        const DeviceId to = ends(wire).to;
        if (to >= first && to < last) visit(from - first, to - first, wire);
      });
  }
  /// Fingerprint of the inside of a node: its devices, and its wires by their numbers within the node.
  std::vector<std::int64_t> inside(int node, std::size_t likely_size) const {
    const auto [first, last] = nodes[node];
    std::vector<std::int64_t> shape;
    shape.reserve(likely_size);
    shape.push_back(last - first);
    for (DeviceId d = first; d < last; ++d) shape.push_back(static_cast<std::int64_t>(devices[d].kind));
    const LinkId first_wire = first_wire_of(node);
    each_wire_inside(node, [&](DeviceId from, DeviceId to, LinkId wire) {
      const auto index = static_cast<std::size_t>(wire);
      shape.insert(shape.end(), {from, to, wire - first_wire, edge(wire).weight,
                                 static_cast<std::int64_t>(kinds[index]), up[index]});
    });
    return shape;
  }
  LinkId first_wire_of(int node) const {
    LinkId least = std::numeric_limits<LinkId>::max();
    each_wire_inside(node, [&least](DeviceId, DeviceId, LinkId wire) { least = std::min(least, wire); });
    return least;
  }

  /// Nodes with the same wiring have the same paths, apart from the numbers: paths are searched only in the first of
  /// them.
  struct Example {
    int node = 0;
    DeviceId offset = 0;  // offset from its numbers to those of the node that it stands for
    LinkId wire_offset = 0;
  };
  std::vector<Example> examples;  // indexed by node, once requested
  const Example& example_of(int node) {
    static constexpr Example itself{-1, 0, 0};
    if (node < 0) return itself;
    if (examples.empty()) {
      examples.reserve(nodes.size());
      std::map<std::vector<std::int64_t>, int> first_of_shape;
      std::vector<LinkId> first_wire;
      std::size_t size = 0;
      for (std::size_t n = 0; n < nodes.size(); ++n) {
        const auto index = static_cast<int>(n);
        std::vector<std::int64_t> shape = inside(index, size);
        size = shape.size();
        const int first = first_of_shape.try_emplace(std::move(shape), index).first->second;
        first_wire.push_back(first_wire_of(index));
        examples.push_back({first, nodes[n].first - nodes[first].first, first_wire[n] - first_wire[first]});
      }
    }
    return examples[node];
  }

  /// All devices, or those of one node, with the wires between them.
  Domain& domain(int node) {
    if (last_domain.second && last_domain.first == node) return *last_domain.second;
    const auto [entry, fresh] = domains.try_emplace(node);
    Domain& d = entry->second;
    last_domain = {node, &d};
    if (!fresh) return d;
    if (node < 0) {
      for (std::size_t device = 0; device < devices.size(); ++device) boost::add_vertex(d.graph);
      for (LinkId wire = 0; wire < static_cast<LinkId>(wires()); ++wire)
        boost::add_edge(static_cast<Vertex>(ends(wire).from), static_cast<Vertex>(ends(wire).to), edge(wire), d.graph);
      return d;
    }
    const auto [first, last] = nodes[node];
    d.first = first;
    for (DeviceId device = first; device < last; ++device) boost::add_vertex(d.graph);
    each_wire_inside(node, [&](DeviceId from, DeviceId to, LinkId wire) {
      boost::add_edge(static_cast<Vertex>(from), static_cast<Vertex>(to), edge(wire), d.graph);
    });
    return d;
  }

  const ShortestPaths& paths(int node, DeviceId from, PathClass path_class) {
    Domain& d = domain(node);
    const std::int64_t key = std::int64_t{from} * kPathClasses + static_cast<std::int64_t>(path_class);
    const auto found = d.paths.find(key);
    if (found != d.paths.end()) return found->second;
    const Graph& g = d.graph;
    const auto usable = [this, &d, &g, from, path_class](const EdgeId& e) {
      const DeviceId source = static_cast<DeviceId>(boost::source(e, g)) + d.first;
      const DeviceKind kind = devices[source].kind;
      const bool endpoint = kind == DeviceKind::gpu || kind == DeviceKind::nvme ||
                            (kind == DeviceKind::hca && path_class == PathClass::fabric);
      const bool through_endpoint = endpoint && source != from;
      const auto wire = static_cast<std::size_t>(g[e].wire);
      return up[wire] && !through_endpoint && allowed(kinds[wire], path_class);
    };
    return d.paths.try_emplace(key, g, static_cast<Vertex>(from - d.first), usable).first->second;
  }

  /// Appends the shortest path within a node, or between any devices. Returns false if there is none.
  bool shortest(int node, DeviceId from, DeviceId to, PathClass path_class, std::vector<LinkId>& wires) {
    const Example& example = example_of(node);
    const ShortestPaths& found = paths(example.node, from - example.offset, path_class);
    const DeviceId first = domain(example.node).first + example.offset;
    if (found.cost[to - first] == kUnreached) return false;
    const auto begin = static_cast<std::ptrdiff_t>(wires.size());
    for (DeviceId device = to; device != from; device = ends(wires.back()).from)
      wires.push_back(found.in[device - first] + example.wire_offset);
    std::reverse(wires.begin() + begin, wires.end());
    return true;
  }

  int common_node(DeviceId a, DeviceId b) const {
    const int node = devices[a].node;
    return node == devices[b].node ? node : -1;
  }
};

const char* name_of(DeviceKind kind) {
  static constexpr const char* names[] = {"GPU", "NVSwitch", "PCIe switch", "CPU", "HCA", "NVMe", "switch"};
  return names[static_cast<std::size_t>(kind)];
}

DeviceGraph::DeviceGraph() : impl_(std::make_unique<Impl>()) {}
DeviceGraph::~DeviceGraph() = default;
DeviceGraph::DeviceGraph(DeviceGraph&&) noexcept = default;
DeviceGraph& DeviceGraph::operator=(DeviceGraph&&) noexcept = default;

DeviceId DeviceGraph::add(Device device) {
  const auto id = static_cast<DeviceId>(impl_->devices.size());
  if (device.node >= 0) {
    auto& nodes = impl_->nodes;
    const auto node = static_cast<std::size_t>(device.node);
    if (node == nodes.size()) nodes.emplace_back(id, id);
    if (node >= nodes.size() || nodes[node].second != id)
      throw InternalError(fmt::format("{}: devices of a node are added together, node after node", device.name));
    nodes[node].second = id + 1;
  }
  impl_->devices.push_back(std::move(device));
  impl_->first_out.push_back(-1);
  impl_->last_out.push_back(-1);
  impl_->forget_paths();
  return id;
}

void DeviceGraph::reserve(std::size_t devices, std::size_t wires) {
  constexpr std::size_t kSwitches = 64;  // a small fabric has fewer
  const std::size_t shared = impl_->shared.size() * devices / std::max<std::size_t>(1, impl_->devices.size());
  impl_->devices.reserve(devices + kSwitches);
  impl_->links.reserve(2 * wires + shared);
  impl_->cables.reserve(wires);
  impl_->kinds.reserve(2 * wires);
  impl_->next_out.reserve(2 * wires);
}

LinkId DeviceGraph::connect(DeviceId a, DeviceId b, const Wire& wire) {
  const auto name = [this](DeviceId d) -> const std::string& {
    return impl_->devices.at(static_cast<std::size_t>(d)).name;
  };
  if (!std::isfinite(wire.rate.value) || wire.rate.value < 1 || wire.latency.count < 0)
    throw UserError(
        fmt::format("{} between {} and {}: {} B/s and {} ps; expected a finite rate above 0 and no negative latency",
                    name_of(wire.kind), name(a), name(b), wire.rate.value, wire.latency.count));
  impl_->wires_changed();
  const BytesPerSecond back = wire.back.value > 0 ? wire.back : wire.rate;
  LinkId medium = wire.medium, medium_back = -1;
  if (wire.half_duplex)
    medium = medium_back = add_shared(fmt::format("{} <-> {}", name(a), name(b)), wire.kind, std::max(wire.rate, back));
  const auto first = static_cast<LinkId>(impl_->wires());
  impl_->cables.push_back({a, b, wire.latency});
  const Label kind = impl_->label(wire.kind);
  for (const auto& [link, rate] : {std::pair{first, wire.rate}, std::pair{first + 1, back}}) {
    impl_->links.push_back({{*impl_, link}, kind, rate});
    impl_->kinds.push_back(wire.kind);
    impl_->add_out(link);
    impl_->up.push_back(1);
  }
  if (medium >= 0 || medium_back >= 0) {
    impl_->media.resize(impl_->wires(), -1);
    impl_->media.end()[-2] = medium;
    impl_->media.end()[-1] = medium_back;
  }
  return first;
}

LinkId DeviceGraph::add_shared(std::string name, LinkKind kind, BytesPerSecond rate) {
  if (!std::isfinite(rate.value) || rate.value < 1)
    throw UserError(fmt::format("{}: {} B/s; expected a finite rate above 0", name, rate.value));
  impl_->wires_changed();
  impl_->shared.push_back({std::move(name), name_of(kind), rate});
  return static_cast<LinkId>(impl_->shared.size()) - 1;
}

void DeviceGraph::set_router(std::unique_ptr<FabricRouter> router) { impl_->router = std::move(router); }
std::unique_ptr<FabricRouter> DeviceGraph::take_router() { return std::move(impl_->router); }

void DeviceGraph::set_host(DeviceId cpu, Host host) { impl_->hosts[cpu] = host; }
DeviceGraph::Host DeviceGraph::host(DeviceId cpu) const {
  const auto found = impl_->hosts.find(cpu);
  if (found == impl_->hosts.end()) return {};
  const auto id = [this](LinkId link) { return link < 0 ? link : shared(link); };
  return {id(found->second.memory), id(found->second.copies)};
}

std::span<const Device> DeviceGraph::devices() const { return impl_->devices; }
std::span<const Link> DeviceGraph::wires() const { return std::span(impl_->links).first(impl_->wires()); }
std::span<const Link> DeviceGraph::links() const {
  if (impl_->links.size() == impl_->wires()) {
    impl_->links.reserve(impl_->wires() + impl_->shared.size());
    impl_->links.insert(impl_->links.end(), impl_->shared.begin(), impl_->shared.end());
  }
  return impl_->links;
}
LinkId DeviceGraph::shared(LinkId id) const { return static_cast<LinkId>(impl_->wires()) + id; }
bool DeviceGraph::is_wire(LinkId link) const { return static_cast<std::size_t>(link) < impl_->wires(); }
LinkKind DeviceGraph::kind(LinkId wire) const { return impl_->kinds.at(static_cast<std::size_t>(wire)); }
LinkId DeviceGraph::medium(LinkId wire) const {
  const auto index = static_cast<std::size_t>(wire);
  const LinkId medium = index < impl_->media.size() ? impl_->media[index] : -1;
  return medium < 0 ? medium : shared(medium);
}

std::vector<LinkId> DeviceGraph::with_media(std::span<const LinkId> wires) const {
  std::vector<LinkId> all;
  for (const LinkId wire : wires) {
    all.push_back(wire);
    if (const LinkId shared_medium = medium(wire); shared_medium >= 0) all.push_back(shared_medium);
  }
  return all;
}

std::vector<DeviceId> DeviceGraph::devices_of_kind(DeviceKind kind, int node) const {
  std::vector<DeviceId> found;
  std::pair<DeviceId, DeviceId> range{0, static_cast<DeviceId>(impl_->devices.size())};
  if (node >= 0) {
    if (static_cast<std::size_t>(node) >= impl_->nodes.size()) return found;
    range = impl_->nodes[node];
  }
  for (DeviceId id = range.first; id < range.second; ++id) {
    const Device& device = impl_->devices[id];
    if (device.kind == kind && (node == -2 || device.node == node)) found.push_back(id);
  }
  return found;
}

DeviceGraph::End DeviceGraph::ends(LinkId wire) const { return impl_->ends(wire); }

DeviceGraph::Twin DeviceGraph::twin_of(int node) const {
  const Impl::Example& example = impl_->example_of(node);
  return {example.node, example.offset};
}

std::vector<LinkId> DeviceGraph::links_from(DeviceId device) const {
  std::vector<LinkId> found;
  impl_->each_wire_out(device, [&found](LinkId wire) { found.push_back(wire); });
  return found;
}
std::vector<LinkId> DeviceGraph::links_to(DeviceId device) const {
  std::vector<LinkId> found = links_from(device);
  for (LinkId& wire : found) wire ^= 1;  // the two directions of a wire have neighbouring ids
  return found;
}

bool DeviceGraph::chooses_paths() const { return impl_->router && impl_->router->chooses_paths(); }
Bytes DeviceGraph::flowlet(DeviceId from, DeviceId to) const {
  return impl_->router ? impl_->router->flowlet(from, to) : Bytes{};
}
int DeviceGraph::fabric_choices(DeviceId from, DeviceId to) const {
  return impl_->router ? impl_->router->choices(from, to) : 1;
}
bool DeviceGraph::add_choice(DeviceId from, DeviceId to, int number, std::vector<LinkId>& wires) const {
  return impl_->router->choice(*this, from, to, number, wires);
}
int DeviceGraph::fabric_flows() const { return impl_->router ? impl_->router->flows() : 1; }

bool DeviceGraph::add_path(DeviceId from, DeviceId to, PathClass path_class, std::vector<LinkId>& wires, int flow) {
  if (from == to) return true;
  const int node = impl_->common_node(from, to);
  if (node >= 0 && impl_->shortest(node, from, to, path_class, wires)) return true;
  if (impl_->router && path_class == PathClass::fabric) {
    const auto begin = static_cast<std::ptrdiff_t>(wires.size());
    const bool found = impl_->router->flow_path(*this, from, to, flow, wires);
    if (found && std::all_of(wires.begin() + begin, wires.end(), [this](LinkId wire) { return is_up(wire); }))
      return true;
    wires.erase(wires.begin() + begin, wires.end());
  }
  return impl_->shortest(-1, from, to, path_class, wires);
}

std::optional<std::vector<LinkId>> DeviceGraph::path(DeviceId from, DeviceId to, PathClass path_class) {
  std::vector<LinkId> wires;
  return add_path(from, to, path_class, wires) ? std::optional(std::move(wires)) : std::nullopt;
}

std::optional<std::int64_t> DeviceGraph::cost(DeviceId from, DeviceId to) {
  const Impl::Example& example = impl_->example_of(impl_->common_node(from, to));
  const ShortestPaths& paths = impl_->paths(example.node, from - example.offset, PathClass::automatic);
  const std::int64_t cost = paths.cost[to - example.offset - impl_->domain(example.node).first];
  return cost == kUnreached ? std::nullopt : std::optional(cost);
}

void DeviceGraph::set_up(LinkId link, bool up) {
  if (!is_wire(link)) return;
  impl_->up.at(static_cast<std::size_t>(link)) = up ? 1 : 0;
  impl_->forget_paths();
}
bool DeviceGraph::is_up(LinkId link) const { return !is_wire(link) || impl_->up[link] != 0; }

}  // namespace trainyard
