#include "topologies/device_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <boost/range/iterator_range.hpp>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <tuple>

#include "sim/error.hpp"

namespace trainyard {
namespace {

struct Edge {
  LinkId link = 0;
  std::int64_t weight = 0;  // ps of a 1 MiB message; whole, so that equal ways cost the same in any order
};
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, boost::no_property, Edge>;
using Vertex = boost::graph_traits<Graph>::vertex_descriptor;
using EdgeId = boost::graph_traits<Graph>::edge_descriptor;

constexpr std::int64_t kUnreached = std::numeric_limits<std::int64_t>::max();
constexpr double kTypicalMessage = 1 << 20;  // bytes

bool allowed(const std::string& wire, PathClass path) {
  switch (path) {
    case PathClass::nvlink:
      return wire == "NVLink";
    case PathClass::pcie:
      return wire == "PCIe" || wire == "socket";
    case PathClass::network:
      return wire != "NVLink";
    case PathClass::fabric:
      return wire == "HCA" || wire == "uplink";
    case PathClass::automatic:
      break;
  }
  return true;
}

}  // namespace

struct DeviceGraph::Impl {
  Graph graph;
  std::vector<Device> devices;
  std::vector<Link> links;
  std::vector<End> ends;
  std::vector<char> up;
  std::deque<std::vector<LinkUse>> paths;  // of every route ever given
  struct Tree {                            // shortest paths from one device
    std::vector<LinkId> in;                // the last link of the way to each device
    std::vector<std::int64_t> cost;        // kUnreached: no way
  };
  std::map<std::pair<DeviceId, PathClass>, Tree> trees;

  const Tree& tree(DeviceId from, PathClass path) {
    const auto [at, fresh] = trees.try_emplace({from, path});
    Tree& t = at->second;
    if (!fresh) return t;
    const auto usable = [this, from, path](const EdgeId& e) {
      const auto source = static_cast<std::size_t>(boost::source(e, graph));
      const auto link = static_cast<std::size_t>(graph[e].link);
      const bool through_gpu = devices[source].kind == DeviceKind::gpu && static_cast<DeviceId>(source) != from;
      return up[link] && !through_gpu && allowed(links[link].kind, path);
    };
    const boost::filtered_graph<Graph, std::function<bool(const EdgeId&)>> view(graph, usable);
    const std::size_t n = devices.size();
    std::vector<Vertex> before(n);
    t.cost.resize(n);
    std::vector<EdgeId> in(n);
    boost::dijkstra_shortest_paths(view, static_cast<Vertex>(from),
                                   boost::predecessor_map(before.data())
                                       .distance_map(t.cost.data())
                                       .weight_map(boost::get(&Edge::weight, graph))
                                       .visitor(boost::make_dijkstra_visitor(
                                           boost::record_edge_predecessors(in.data(), boost::on_edge_relaxed()))));
    t.in.resize(n);
    for (std::size_t v = 0; v < n; ++v)
      if (t.cost[v] != kUnreached && static_cast<DeviceId>(v) != from) t.in[v] = graph[in[v]].link;
    return t;
  }
};

const char* name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu:
      return "GPU";
    case DeviceKind::nvswitch:
      return "NVSwitch";
    case DeviceKind::pcie_switch:
      return "PCIe switch";
    case DeviceKind::cpu:
      return "CPU";
    case DeviceKind::hca:
      return "HCA";
    case DeviceKind::network_switch:
      return "switch";
  }
  return "";
}

DeviceGraph::DeviceGraph() : impl_(std::make_unique<Impl>()) {}
DeviceGraph::~DeviceGraph() = default;
DeviceGraph::DeviceGraph(DeviceGraph&&) noexcept = default;
DeviceGraph& DeviceGraph::operator=(DeviceGraph&&) noexcept = default;

DeviceId DeviceGraph::add(Device device) {
  impl_->devices.push_back(std::move(device));
  return static_cast<DeviceId>(boost::add_vertex(impl_->graph));
}

void DeviceGraph::connect(DeviceId a, DeviceId b, const Wire& wire) {
  const auto name = [this](DeviceId d) { return impl_->devices.at(static_cast<std::size_t>(d)).name; };
  if (!std::isfinite(wire.rate.value) || wire.rate.value < 1 || wire.latency.count < 0)
    throw UserError(
        fmt::format("{} between {} and {}: {} B/s and {} ps; expected a finite rate above 0 and no negative latency",
                    wire.kind, name(a), name(b), wire.rate.value, wire.latency.count));
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    const auto link = static_cast<LinkId>(impl_->links.size());
    const std::int64_t weight = wire.latency.count + to_picoseconds(Bytes{kTypicalMessage} / wire.rate).count;
    boost::add_edge(static_cast<Vertex>(from), static_cast<Vertex>(to), Edge{link, weight}, impl_->graph);
    impl_->links.push_back({fmt::format("{} -> {}", name(from), name(to)), wire.kind, wire.rate});
    impl_->ends.push_back({from, to, wire.latency});
    impl_->up.push_back(1);
  }
  impl_->trees.clear();
}

std::span<const Device> DeviceGraph::devices() const { return impl_->devices; }
std::span<const Link> DeviceGraph::links() const { return impl_->links; }

std::vector<DeviceId> DeviceGraph::all(DeviceKind kind, int node) const {
  std::vector<DeviceId> found;
  for (std::size_t i = 0; i < impl_->devices.size(); ++i)
    if (impl_->devices[i].kind == kind && (node == -2 || impl_->devices[i].node == node))
      found.push_back(static_cast<DeviceId>(i));
  return found;
}

DeviceGraph::End DeviceGraph::ends(LinkId link) const { return impl_->ends.at(static_cast<std::size_t>(link)); }

std::optional<LinkId> DeviceGraph::link(DeviceId from, DeviceId to) const {
  const auto [edge, found] = boost::edge(static_cast<Vertex>(from), static_cast<Vertex>(to), impl_->graph);
  return found ? std::optional(impl_->graph[edge].link) : std::nullopt;
}
std::vector<LinkId> DeviceGraph::links_from(DeviceId device) const {
  std::vector<LinkId> found;
  for (const EdgeId& e : boost::make_iterator_range(boost::out_edges(static_cast<Vertex>(device), impl_->graph)))
    found.push_back(impl_->graph[e].link);
  return found;
}
std::vector<LinkId> DeviceGraph::links_to(DeviceId device) const {
  std::vector<LinkId> found;
  for (const EdgeId& e : boost::make_iterator_range(boost::in_edges(static_cast<Vertex>(device), impl_->graph)))
    found.push_back(impl_->graph[e].link);
  return found;
}

Route DeviceGraph::route(DeviceId from, DeviceId to, PathClass path) {
  if (from == to) return {};
  const Impl::Tree& tree = impl_->tree(from, path);
  Route route;
  route.reachable = tree.cost[static_cast<std::size_t>(to)] != kUnreached;
  if (!route.reachable) return route;
  std::vector<LinkUse>& links = impl_->paths.emplace_back();
  for (DeviceId at = to; at != from;) {
    const LinkId link = tree.in[static_cast<std::size_t>(at)];
    links.push_back({link, 1});
    route.latency += impl_->ends[static_cast<std::size_t>(link)].latency;
    at = impl_->ends[static_cast<std::size_t>(link)].from;
  }
  std::reverse(links.begin(), links.end());
  route.links = links;
  return route;
}

std::optional<std::int64_t> DeviceGraph::cost(DeviceId from, DeviceId to) {
  const std::int64_t cost = impl_->tree(from, PathClass::automatic).cost[static_cast<std::size_t>(to)];
  return cost == kUnreached ? std::nullopt : std::optional(cost);
}

void DeviceGraph::set_up(LinkId link, bool up) {
  impl_->up.at(static_cast<std::size_t>(link)) = up ? 1 : 0;
  impl_->trees.clear();
}

}  // namespace trainyard
