#include "topologies/cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/hardware/adapter_rate.hpp"
#include "models/hardware/node_parts.hpp"
#include "topologies/build_size.hpp"
#include "topologies/island_router.hpp"

namespace trainyard {

Registry<NodeBuilder>& node_builders() {
  static Registry<NodeBuilder> registry{"interconnect"};
  return registry;
}

const NodeType& ClusterSpec::type_of(int node_index) const {
  int first = nodes;
  for (auto group = others.rbegin(); group != others.rend(); ++group) {
    first -= group->count;
    if (node_index >= first) return group->type;
  }
  return node;
}

std::vector<const NodeType*> ClusterSpec::types() const {
  std::vector<const NodeType*> all{&node};
  for (const NodeGroup& group : others) all.push_back(&group.type);
  return all;
}

std::vector<std::pair<const NodeType*, int>> ClusterSpec::counted_types() const {
  std::vector<std::pair<const NodeType*, int>> all{{&node, nodes_of_first_type()}};
  for (const NodeGroup& group : others) all.emplace_back(&group.type, group.count);
  return all;
}

int ClusterSpec::nodes_of_first_type() const {
  int count = nodes;
  for (const NodeGroup& group : others) count -= group.count;
  return count;
}

bool ClusterSpec::has_islands() const {
  return std::ranges::any_of(others, [](const NodeGroup& group) { return group.island != nullptr; });
}

namespace {

/// Returns what begins the names of the switches of this island: "island1-"; "" for the first part.
std::string name_prefix(int island) { return island > 0 ? fmt::format("island{}-", island) : ""; }

/// Returns the ends of a removed wire, or the removed switch alone.
std::vector<std::string> ends_of(const RemovedPart& out) {
  const std::size_t dash = out.name.find(" - ");
  if (dash == std::string::npos) return {out.name};
  return {out.name.substr(0, dash), out.name.substr(dash + 3)};
}

/// Returns the removed switches and wires of this island alone, by their names in its fabric.
std::vector<RemovedPart> removed_from(const std::vector<RemovedPart>& all, int island) {
  std::vector<RemovedPart> found;
  const std::string prefix = name_prefix(island);
  for (const RemovedPart& out : all) {
    std::vector<std::string> ends = ends_of(out);
    if (!std::ranges::all_of(ends, [&](const std::string& end) { return end.starts_with(prefix); })) continue;
    for (std::string& end : ends) end.erase(0, prefix.size());
    found.push_back({fmt::format("{}", fmt::join(ends, " - ")), out.place});
  }
  return found;
}

}  // namespace

std::vector<ClusterSpec> ClusterSpec::parts() const {
  std::vector<ClusterSpec> all{*this};
  if (!has_islands()) return all;
  std::erase_if(all.front().taken_out, [](const RemovedPart& out) {
    return std::ranges::any_of(ends_of(out), [](const std::string& end) {
      return end.starts_with("island") && end.find('/') == std::string::npos;
    });
  });
  std::erase_if(all.front().others, [](const NodeGroup& group) { return group.island != nullptr; });
  int first = nodes_of_first_type();
  for (const NodeGroup& group : others) {
    if (group.island) {
      all.front().nodes -= group.count;
      all.front().border_cables += group.links.count;
      all.front().border_rate = all.front().border_rate + group.links.all();
      ClusterSpec part = *group.island;
      part.border_cables = group.links.count;
      part.border_rate = group.links.all();
      part.node = group.type;
      part.nodes = group.count;
      part.island = static_cast<int>(&group - others.data()) + 1;
      part.first_node = first;
      part.taken_out = removed_from(taken_out, part.island);
      all.push_back(std::move(part));
    }
    first += group.count;
  }
  return all;
}

int ClusterSpec::island_of(int node_index) const {
  int first = nodes;
  for (std::size_t i = others.size(); i > 0; --i) {
    first -= others[i - 1].count;
    if (node_index >= first) return others[i - 1].island ? static_cast<int>(i) : 0;
  }
  return 0;
}

const Fabric* ClusterSpec::fabric_of(int node_index) const {
  const int number = island_of(node_index);
  return number > 0 ? others[static_cast<std::size_t>(number) - 1].island->fabric.get() : fabric.get();
}

Picoseconds ClusterSpec::latency_between(int one_island, int other) const {
  Picoseconds sum;
  if (one_island == other) return sum;
  for (const int each : {one_island, other})
    if (each > 0) sum = sum + others[static_cast<std::size_t>(each - 1)].links.latency;
  return sum;
}

int ClusterSpec::node_of_gpu(int rank) const {
  int first = nodes_of_first_type();
  if (rank < first * node.gpus) return rank / node.gpus;
  rank -= first * node.gpus;
  for (const NodeGroup& group : others) {
    if (rank < group.count * group.type.gpus) return first + rank / group.type.gpus;
    rank -= group.count * group.type.gpus;
    first += group.count;
  }
  throw InternalError(fmt::format("a rank is {} beyond the {} GPUs of the cluster", rank, gpus()));
}

int ClusterSpec::gpus() const {
  int count = nodes * node.gpus;
  for (const NodeGroup& group : others) count += group.count * (group.type.gpus - node.gpus);
  return count;
}

namespace {

constexpr const char* kCustomFabric = "custom-fabric";  // name of a fabric that the scenario itself describes

/// The rate at which data arrive over the slowest of an HCA, its slot and its switch port.
BytesPerSecond port_rate(const ClusterSpec& spec, const NodeType& type) {
  const BytesPerSecond rate = slot_rate(type);
  return delivered_rate(type, spec.switch_rate.value > 0 ? std::min(rate, spec.switch_rate) : rate);
}

/// Reads a length, "30 m" or "2.5 km", in km.
double read_km(Fields& fields, const std::string& key) {
  const std::string text = fields.text(key, "0 km");
  const std::size_t unit = text.find_first_not_of("0123456789.eE+- ");
  const std::string name = unit == std::string::npos ? "" : text.substr(unit);
  std::string digits = text.substr(0, unit);
  while (!digits.empty() && digits.back() == ' ') digits.pop_back();
  double length = -1;
  try {
    length = parse_number(digits);
  } catch (const UserError&) {
  }
  constexpr double farthest = 1e6;  // km
  if ((name != "m" && name != "km") || !(length >= 0) || length > farthest)
    fields.refuse(key, fmt::format("\"{}\" is no distance; expected one such as 30 m or 100 km", text));
  return name == "m" ? length / 1000 : length;
}

/// Reads the ports, rate and latency of the switch that the fabric names, with their sources, or the fabric's own
/// `switch_latency`. A key of the scenario overrides one of the catalog's fabric.
std::pair<Seconds, Sources> read_switch(ClusterSpec& spec, Fields& fields, const Catalog& catalog) {
  const Node* type = fields.child("switch");
  const Node* own_latency = fields.child("switch_latency");
  if (!type || type->kind == Node::Kind::null) return {fields.seconds("switch_latency"), {}};
  const NetworkSwitch network_switch = read_network_switch(catalog.resolve("switch", *type));
  spec.switch_rate = network_switch.rate;
  spec.switch_ports = network_switch.ports;
  spec.switch_power = network_switch.power;
  Sources sources = network_switch.sources;
  if (own_latency && own_latency->kind != Node::Kind::null &&
      (catalog.holds(type->place) || !catalog.holds(own_latency->place))) {
    std::erase_if(sources, [](const FigureSource& f) { return f.figure.ends_with(": latency"); });
    return {fields.seconds("switch_latency"), sources};
  }
  return {network_switch.latency.seconds(), sources};
}

/// Reads `sharp: true`: the fabric's switches reduce for NCCL. Refuses it if they cannot, or if the adapters are not
/// InfiniBand adapters.
bool read_sharp(const ClusterSpec& spec, Fields& fields, const Catalog& catalog) {
  if (!fields.boolean("sharp", false)) return false;
  const auto refuse = [&fields](const std::string& why) {
    fail(fields.place_of("sharp"), fmt::format("{}: sharp: {}", fields.what(), why));
  };
  if (spec.fabric->joins_chips() || !spec.fabric->reduces_in_switches())
    refuse(
        fmt::format("the switches of a fabric of type {} cannot reduce; InfiniBand switches can", spec.fabric->type()));
  for (const NodeType* type : spec.types()) {
    const std::string& network = type->network.nccl_network;
    if (type->network.sharp) continue;
    refuse(fmt::format("only InfiniBand has SHARP, but the adapters of {} {}; expected sharp: false", type->name,
                       type->network.tcp                            ? "use TCP"
                       : network.empty() || network == "infiniband" ? "are no InfiniBand adapters (hca.sharp: possible)"
                                                                    : "use " + network));
  }
  const Node* named = fields.child("switch");
  if (!named || named->kind == Node::Kind::null) return true;
  const NetworkSwitch network_switch = read_network_switch(catalog.resolve("switch", *named));
  if (network_switch.sharp) return true;
  std::vector<std::string> able;
  for (const std::string& name : catalog.names("switch"))
    if (read_network_switch(catalog.resolve("switch", Node::scalar_node(name, named->place))).sharp)
      able.push_back(name);
  refuse(fmt::format("switch {} cannot reduce; expected one of {}", network_switch.name, fmt::join(able, ", ")));
  return false;
}

/// Takes down the cables and devices that the user has removed.
void disconnect_taken_out(DeviceGraph& graph, const ClusterSpec& spec, bool fabric) {
  std::vector<std::string> names;
  for (const Device& device : graph.devices()) names.push_back(device.name);
  const auto find = [&](const std::string& name, const Place& place) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end())
      fail(place, fmt::format("cluster.taken_out: unknown device \"{}\"{}", name, hint(name, names)));
    return static_cast<DeviceId>(found - names.begin());
  };
  std::set<std::string> left_out;  // names that the fabrics of the parts leave out themselves
  if (fabric)
    for (const ClusterSpec& part : spec.parts())
      for (const RemovedPart& out : part.taken_out)
        if (part.fabric->leaves_out(out)) {
          std::vector<std::string> ends = ends_of(out);
          for (std::string& end : ends) end.insert(0, name_prefix(part.island));
          left_out.insert(fmt::format("{}", fmt::join(ends, " - ")));
        }
  for (const RemovedPart& out : spec.taken_out) {
    if (left_out.contains(out.name)) continue;
    const std::size_t dash = out.name.find(" - ");
    const DeviceId a = find(out.name.substr(0, dash), out.place);
    std::vector<LinkId> wires = graph.links_from(a);
    if (dash != std::string::npos) {
      const DeviceId b = find(out.name.substr(dash + 3), out.place);
      std::erase_if(wires, [&](LinkId wire) { return graph.ends(wire).to != b; });
      if (wires.empty()) fail(out.place, fmt::format("cluster.taken_out: \"{}\": no wire joins them", out.name));
    }
    for (const LinkId wire : wires)  // both directions
      for (const LinkId direction : {wire & ~1, wire | 1}) graph.set_up(direction, false);
  }
}

/// Size of a node's own devices. Each has one or two cables.
BuildSize size_of(const NodeType& type) {
  const double devices = type.gpus + type.hcas + type.nvme.count + type.sockets + std::max(type.gpus, type.hcas) +
                         static_cast<double>(type.pcie_switches.size() + type.extra_switches.size());
  return {devices, devices + static_cast<double>(type.nvlink_mesh.size() + type.wires.size())};
}

void require_buildable_nodes(const ClusterSpec& spec) {
  BuildSize all;
  for (const auto& [type, count] : spec.counted_types()) {
    const BuildSize node_size = size_of(*type);
    all.devices += count * node_size.devices;
    all.cables += count * node_size.cables;
  }
  require_buildable(all, fmt::format("a cluster of {} nodes", spec.nodes), spec.place);
}

/// The title of the fabric, with its name in the catalog, if it has one, in place of its type: "rail-optimized", not
/// "folded-clos".
std::string fabric_title(const ClusterSpec& spec) {
  if (!spec.fabric) return "";
  const std::string title = spec.fabric->title(), type = spec.fabric->type();
  if (spec.fabric_name.empty() || !title.starts_with(type)) return title;
  return spec.fabric_name + title.substr(type.size());
}

/// Builds the fabric of each part, and joins the top or border switch of each island with that of the first nodes.
void build_islands(DeviceGraph& graph, const ClusterSpec& spec) {
  const std::vector<ClusterSpec> parts = spec.parts();
  std::vector<JoinedFabric> fabrics(parts.size());
  for (std::size_t i = parts.size(); i-- > 0;) {
    parts[i].fabric->build(graph, parts[i]);
    fabrics[i].ends = fabric_hcas(graph, parts[i]);
    fabrics[i].top = static_cast<DeviceId>(graph.devices().size()) - 1;
    fabrics[i].router = graph.take_router();
    if (!fabrics[i].router) fabrics[i].router = shortest_paths_router(graph, fabrics[i]);
  }
  // The cables between two switches carry equal shares of each message, so one wire stands for them.
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const IslandLinks& links = spec.others[static_cast<std::size_t>(parts[i].island) - 1].links;
    const Picoseconds switches{(parts[0].switch_latency.count + parts[i].switch_latency.count) / 2};
    fabrics[i].cables =
        graph.connect(fabrics[i].top, fabrics[0].top, {LinkKind::uplink, links.all(), links.latency + switches});
  }
  graph.set_router(island_router(graph, std::move(fabrics)));
}

/// Length as a latency: light in fibre takes 5 us/km (c over a refractive index of 1.47 gives 4.9).
Picoseconds fibre_latency(double km) { return to_picoseconds(Seconds{5e-6 * km}); }

}  // namespace

BytesPerSecond fastest_port(const ClusterSpec& spec) {
  BytesPerSecond rate;
  for (const NodeType* type : spec.types()) rate = std::max(rate, port_rate(spec, *type));
  return rate;
}

BytesPerSecond fastest_node(const ClusterSpec& spec) {
  BytesPerSecond rate;
  for (const NodeType* type : spec.types()) rate = std::max(rate, port_rate(spec, *type) * type->hcas);
  return rate;
}

Wire hca_wire(const ClusterSpec& spec, int node) {
  const NodeType& type = spec.type_of(node);
  // The two wires of a path share the latency of a switch, because its ports do, and the latency of the distance.
  const Picoseconds half{spec.switch_latency.count / 2 + spec.distance.count / 2};
  return {LinkKind::hca, port_rate(spec, type), type.hca_latency + half, type.network.half_duplex};
}

void read_fabric(ClusterSpec& spec, const Node& entry, const Catalog& catalog) {
  const std::string what = entry_title("fabric", entry);
  Fields fields(entry, what);
  const std::string name = fields.text("name", "");
  spec.fabric_name = name == kCustomFabric ? "" : name;
  fields.text("description", "");
  fields.child("sources");
  const std::string type = fields.choice({"type", "Structure of the fabric."}, fabric_types().names());
  const auto [latency, switch_sources] = read_switch(spec, fields, catalog);
  constexpr Seconds most{10};  // sums of latencies stay far from overflow
  if (latency > most)
    fail(fields.place_of("switch_latency"), fmt::format("{}: switch_latency: more than {}", what, show(most)));
  spec.switch_latency = to_picoseconds(latency);
  spec.distance = fibre_latency(read_km(fields, "distance"));
  spec.fabric_place = entry.place;
  spec.fabric = fabric_types().find(type, entry.place)(fields);
  if (fields.has("oversubscription") && spec.fabric->levels().empty())
    fail(fields.place_of("oversubscription"),
         fmt::format("{}: oversubscription: a fabric of type {} has no levels of switches; nearest is {{base: "
                     "leaf-spine, oversubscription: {}}}",
                     what, type, fields.number("oversubscription", 1e-3, 1e6)));
  spec.sharp = read_sharp(spec, fields, catalog);
  const auto levels_below_top = static_cast<std::int64_t>(spec.fabric->levels().size());
  const Picoseconds through = spec.switch_latency * (2 * levels_below_top + 1) + spec.distance;
  spec.node.network.fabric_latency = through;
  for (NodeGroup& group : spec.others)
    if (!group.island) group.type.network.fabric_latency = through;
  fields.finish();
  spec.fabric_sources = figure_sources(entry, what);
  if (switch_sources.empty()) return;
  const bool its_latency =
      std::ranges::any_of(switch_sources, [](const FigureSource& f) { return f.figure.ends_with(": latency"); });
  std::erase_if(spec.fabric_sources,
                [its_latency](const FigureSource& f) { return its_latency && f.figure.ends_with(": switch_latency"); });
  spec.fabric_sources.insert(spec.fabric_sources.end(), switch_sources.begin(), switch_sources.end());
}

std::vector<DeviceId> fabric_hcas(const DeviceGraph& graph, const ClusterSpec& part) {
  std::vector<DeviceId> hcas = graph.devices_of_kind(DeviceKind::hca);
  std::erase_if(hcas, [&graph, &part](DeviceId hca) {
    const int node = graph.devices()[static_cast<std::size_t>(hca)].node;
    return node < part.first_node || node >= part.first_node + part.nodes;
  });
  return hcas;
}

Device fabric_switch(const ClusterSpec& part, const std::string& name, int index) {
  return {name_prefix(part.island) + name, DeviceKind::network_switch, -1, index, part.island};
}

DeviceGraph build_cluster(const ClusterSpec& spec) {
  require_buildable_nodes(spec);
  DeviceGraph graph;
  for (int i = 0; i < spec.nodes; ++i) {
    const NodeType& type = spec.type_of(i);
    node_builders().find(type.interconnect, spec.place)(graph, type, i);
    if (i == 0) {  // most nodes are like the first, and each adapter has a cable
      const auto nodes = static_cast<std::size_t>(spec.nodes), hcas = static_cast<std::size_t>(type.hcas);
      graph.reserve(nodes * graph.devices().size(), nodes * (graph.wires().size() / 2 + hcas));
    }
  }
  const bool joined = spec.nodes > 1 || spec.joins_chips();
  if (joined) {
    if (!spec.fabric) fail(spec.place, fmt::format("{} nodes, but no fabric joins them", spec.nodes));
    for (const NodeType* type : spec.types())
      if (type->hcas == 0 && spec.uses_hcas())
        fail(spec.place,
             fmt::format("{} nodes of {}, which has no HCA: they cannot reach each other", spec.nodes, type->name));
    if (spec.has_islands())
      build_islands(graph, spec);
    else
      spec.fabric->build(graph, spec);
  }
  disconnect_taken_out(graph, spec, joined);
  return graph;
}

std::string describe(const ClusterSpec& spec) {
  std::vector<std::string> kinds;
  for (const auto& [type, count] : spec.counted_types())
    kinds.push_back(fmt::format("{} × {}", with_commas(count), type->name));
  std::string text = fmt::format("{}", fmt::join(kinds, " + "));
  if (!spec.uses_hcas() && spec.joins_chips()) return text + ", " + spec.fabric->title();
  if (spec.nodes > 1) {
    std::vector<std::string> hcas;  // each kind once
    for (const ClusterSpec& part : spec.parts())
      for (const NodeType* type : part.types()) {
        std::string hca = fmt::format("{} × {:.4g} Gbit/s HCA{}{}", type->hcas, type->hca_rate.value * 8e-9,
                                      type->network.grpc  ? " (gRPC)"
                                      : type->network.tcp ? " (TCP)"
                                                          : "",
                                      cap_in_words(*type, part.switch_rate));
        if (const double loss = type->network.loss.share; loss > 0)
          hca += fmt::format(" that loses {:.3g} of the frames and delivers {:.4g} Gbit/s", loss,
                             port_rate(part, *type).value * 8e-9);
        if (std::ranges::find(hcas, hca) == hcas.end()) hcas.push_back(std::move(hca));
      }
    text += fmt::format(", {}, {}", fmt::join(hcas, " or "), fabric_title(spec));
    for (const NodeGroup& group : spec.others)
      if (group.island)
        text += fmt::format("; {} on {} of their own, over {} x {:.4g} Gbit/s", group.type.name,
                            fabric_title(*group.island), group.links.count, group.links.rate.value * 8e-9);
    if (spec.sharp) text += " with SHARP";
  }
  if (!spec.taken_out.empty()) text += fmt::format(", {} taken out", spec.taken_out.size());
  for (const BackgroundTraffic& traffic : spec.background) text += ", " + traffic.text();
  return text;
}

ClusterSpec::ClusterSpec(const ClusterSpec&) = default;
ClusterSpec::ClusterSpec(ClusterSpec&&) noexcept = default;
ClusterSpec& ClusterSpec::operator=(const ClusterSpec&) = default;
ClusterSpec& ClusterSpec::operator=(ClusterSpec&&) noexcept = default;
ClusterSpec::~ClusterSpec() = default;

}  // namespace trainyard
