#include "scenarios/src/reading/read_cluster.hpp"

#include <fmt/format.h>

#include "scenarios/src/reading/launch_line.hpp"
#include "topologies/nodes/pcie_tree.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kMostNodes = 16384;

/// Checks that a node of this type can be built. Throws UserError at `type_place` if its wiring is unknown, and at
/// `lanes_place` if it has too few PCIe lanes.
void check_node(const NodeType& node, const Place& type_place, const Place& lanes_place, const std::string& what) {
  node_builders().find(node.interconnect, type_place);
  try {
    if (has_lane_plan(node)) plan_lanes(node);
  } catch (const UserError& e) {
    fail(lanes_place, fmt::format("{}: {}", what, e.what()));
  }
}

/// Reads the type of a node, and applies the changes of its figures that stand beside it.
NodeType read_changed_node(Fields& fields, const Catalog& catalog) {
  Node entry = catalog.resolve(
      "node", fields.required_child({"node",
                                     "Type of the nodes: a name, for example dgx-h100, a file beside the scenario, or "
                                     "changes to a named type, {base: NAME, KEY: VALUE} (trainyard list nodes)."}));
  for (const char* part : {"gpu", "gpu_speed", "hca", "nvlink", "pcie", "sockets", "socket_link", "cpu", "host_memory",
                           "nvme", "staging_chunk", "nccl", "power", "rated_power", "rack_units"}) {
    const Node* change = fields.child(part);
    if (!change) continue;
    Node field = *change;
    if (std::string_view(part) == "gpu" && change->kind == Node::Kind::scalar) {  // another type of GPU
      field = Node::empty_map(change->place);
      field.fields.emplace_back("type", *change);
    }
    if (std::string_view(part) == "gpu")  // an override of a key below a name has turned the name into a base
      for (auto& [key, value] : field.fields)
        if (key == "base") key = "type";
    Node wrapped = Node::empty_map(change->place);
    wrapped.fields.emplace_back(part, std::move(field));
    entry = merge_nodes(entry, wrapped);
  }
  NodeType node = read_node(entry, catalog);
  check_node(node, fields.place_of("node"), fields.place_of(fields.has("pcie") ? "pcie" : "node"),
             fields.what() + ".node");
  return node;
}

void require_nodes(std::int64_t nodes, const Place& place) {
  if (nodes > kMostNodes) fail(place, fmt::format("cluster.nodes: {} nodes; at most {}", nodes, kMostNodes));
}

/// Reads the fabric of an island, and the cables that join it with the cluster's fabric.
void read_island(NodeGroup& group, Fields& fields, const Catalog& catalog) {
  const Node* fabric = fields.child_unless_null({"fabric",
                                                 "Fabric of these nodes alone, as in cluster.fabric, for example "
                                                 "leaf-spine; `links` join it with that of the first nodes. Default: "
                                                 "cluster.fabric joins these nodes, too."});
  const Node* cables = fields.child_unless_null({"links",
                                                 "Cables between this fabric and cluster.fabric: {count: 8, rate: 400 "
                                                 "Gbit/s, latency: 1 us}, where latency is that "
                                                 "of the cable alone.",
                                                 "with a fabric of these nodes"});
  if (!fabric) {
    if (cables)
      fields.refuse("links", "these nodes have no other fabric than cluster.fabric; expected `fabric` beside it");
    return;
  }
  const std::string what = fields.what() + ".links";
  if (!cables)
    fail(fields.place(), fmt::format("{}: missing key \"links\", the cables between this fabric and cluster.fabric; "
                                     "expected {{count: 8, rate: 400 Gbit/s, latency: 1 us}} or such",
                                     fields.what()));
  Fields links(*cables, what);
  constexpr int kMostCables = 1 << 20;
  group.links.place = cables->place;
  group.links.count =
      links.integer_within<int>({"count", "Number of cables between both fabrics, for example 8."}, 1, kMostCables);
  group.links.rate = links.bandwidth({"rate", "Rate of one cable, each way, for example 400 Gbit/s."});
  group.links.latency = read_latency(links, {"latency", "Latency of such a cable alone, for example 1 us."});
  links.finish();
  ClusterSpec island;
  island.place = fields.place();
  island.nodes = group.count;
  island.node = group.type;
  read_fabric(island, catalog.resolve("fabric", *fabric), catalog);
  island.fabric_place = fabric->place;
  group.type.network.fabric_latency = island.node.network.fabric_latency;
  group.island = std::make_shared<const ClusterSpec>(std::move(island));
}

/// Throws UserError if cables cannot join the fabrics of all islands.
void require_joinable_islands(const ClusterSpec& spec) {
  if (!spec.has_islands()) return;
  for (const ClusterSpec& part : spec.parts()) {
    const std::string what = part.island > 0 ? fmt::format("cluster.nodes.{}.fabric", part.island) : "cluster.fabric";
    if (const std::string refusal = part.fabric->border_refusal(); !refusal.empty())
      fail(part.fabric_place,
           fmt::format("{}: no cables can lead from {} to another fabric: {}", what, part.fabric->title(), refusal));
    if (part.sharp)
      fail(part.fabric_place,
           fmt::format("{}: sharp: switches reduce for the nodes of one fabric only, but cables join several", what));
    for (const NodeType* type : part.types())
      if (type->network.loss.share > 0)
        fail(part.fabric_place,
             fmt::format("{}: {} loses frames, which is modelled in one fabric only; expected hca.loss: "
                         "0 with several fabrics",
                         what, type->name));
  }
  const auto first = std::ranges::find_if(spec.others, [](const NodeGroup& group) { return group.island != nullptr; });
  const auto late = std::find_if(first, spec.others.end(), [](const NodeGroup& group) { return !group.island; });
  if (late != spec.others.end())
    fail(spec.place,
         fmt::format("cluster.nodes.{}: nodes of cluster.fabric stand behind those with a fabric of their own "
                     "(cluster.nodes.{}); expected before them",
                     late - spec.others.begin() + 1, first - spec.others.begin() + 1));
}

/// Reads `nodes: [{count, node, …}, …]`: the first type of node into `node`, the others into `others`.
void read_groups(ClusterSpec& spec, const Node& list, const Catalog& catalog) {
  if (list.items.empty()) fail(list.place, "cluster.nodes: expected a count, or a list of {count, node}");
  spec.nodes = 0;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    Fields fields(list.items[i], fmt::format("cluster.nodes.{}", i));
    const std::int64_t count = fields.integer({"count", "Number of nodes of this type, for example 2."}, 1);
    require_nodes(spec.nodes + count, fields.place_of("count"));
    NodeGroup group{static_cast<int>(count), read_changed_node(fields, catalog), nullptr, {}};
    if (i > 0) read_island(group, fields, catalog);
    fields.finish();
    spec.nodes += group.count;
    if (i == 0)
      spec.node = std::move(group.type);
    else
      spec.others.push_back(std::move(group));
  }
}

void require_hcas(const ClusterSpec& spec, const Fields& cluster, const Node* nodes) {
  if (!spec.uses_hcas()) return;
  const std::vector<const NodeType*> types = spec.types();
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (types[i]->hcas > 0) continue;
    if (nodes && nodes->kind == Node::Kind::list)
      fail(nodes->items[i].place,
           fmt::format("cluster.nodes.{}: {} has no HCA; it cannot reach the other nodes", i, types[i]->name));
    cluster.refuse("node",
                   fmt::format("{} has no HCA; {} nodes of it cannot reach each other", types[i]->name, spec.nodes));
  }
}

void read_taken_out(ClusterSpec& spec, Fields& fields) {
  const Node* list = fields.child_unless_null(
      {"taken_out",
       "Switches and wires that are out of service, for example [spine3, leaf0 - spine1]. Default: none."});
  if (!list) return;
  if (list->kind != Node::Kind::list)
    fail(list->place, "cluster.taken_out: expected a list of switches and wires, such as [spine3, leaf0 - spine1]");
  for (const Node& item : list->items) {
    if (item.kind != Node::Kind::scalar) fail(item.place, "cluster.taken_out: expected names, such as spine3");
    spec.taken_out.push_back({item.scalar, item.place});
  }
}

}  // namespace

ClusterSpec read_cluster(const Node& node, const Catalog& catalog) {
  Fields fields(node, "cluster");
  ClusterSpec spec;
  spec.place = node.place;
  const Node* nodes = fields.child("nodes");
  if (nodes && nodes->kind == Node::Kind::list) {
    if (fields.child_unless_null("node"))
      fields.refuse("node", "leave it out beside a list of nodes, which names their types (--set cluster.node=null)");
    read_groups(spec, *nodes, catalog);
  } else {
    const std::int64_t count = fields.integer({"nodes",
                                               "Number of nodes, for example 4; or a list for several types of nodes, "
                                               "for example [{count: 2, node: dgx-a100}, {count: 2, node: dgx-h100}]."},
                                              1, 1);
    require_nodes(count, fields.place_of("nodes"));
    spec.nodes = static_cast<int>(count);
    spec.node = read_changed_node(fields, catalog);
  }
  read_taken_out(spec, fields);
  const Node* fabric = fields.child_unless_null(
      {"fabric",
       "Network that joins the nodes, for example leaf-spine (trainyard list fabrics). {base: NAME, "
       "oversubscription: 2}: leaf switches have half as much rate up as to their hosts; {base: NAME, "
       "sharp: true}: its switches sum for NCCL (InfiniBand SHARP).",
       "with several nodes, unless links of their chips join them"});
  Node default_fabric;  // that of the type of node
  if (!fabric && !spec.node.fabric.empty()) {
    default_fabric = Node::scalar_node(spec.node.fabric, fields.place_of("node"));
    fabric = &default_fabric;
  }
  if (spec.nodes > 1 || fabric) {
    if (!fabric)
      fail(fields.place(), fmt::format("cluster of {} nodes: missing key \"fabric\" (what joins them; known: {})",
                                       spec.nodes, fmt::join(catalog.names("fabric"), ", ")));
    read_fabric(spec, catalog.resolve("fabric", *fabric), catalog);
    spec.fabric_place = fabric->place;
    require_hcas(spec, fields, nodes);
    require_joinable_islands(spec);
  }
  spec.background = read_background(fields, spec.nodes);
  if (const Node* preflight = fields.child_unless_null("preflight")) spec.hosts = checked_hosts(*preflight, spec);
  fields.finish();
  return spec;
}

}  // namespace trainyard
