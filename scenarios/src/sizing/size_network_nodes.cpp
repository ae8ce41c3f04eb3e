// The nodes that a network of `trainyard size` joins: their adapters, racks and cables.
#include <fmt/format.h>

#include <algorithm>

#include "models/hardware/node_parts.hpp"
#include "scenarios/src/sizing/size_networks.hpp"
#include "topologies/analysis/cable_plan.hpp"

namespace trainyard {
namespace {

/// GPUs of a rack if the site does not say: four nodes of eight, as in the racks of NVIDIA's DGX SuperPOD of H100
/// (reference architecture, 2023; unverified).
constexpr int kGpusOfRack = 32;

}  // namespace

JoinedNodes::JoinedNodes(const ClusterName& cluster, const SizeQuestion& question) : question_(question) {
  const auto add = [this](const std::string& node, int nodes) {
    const Catalog& catalog = question_.catalog();
    groups_.push_back({read_node(catalog.resolve("node", Node::scalar_node(node)), catalog), nodes});
  };
  add(cluster.node, cluster.nodes);
  const Purchase& purchase = question_.prices().purchase;
  if (cluster.beside.empty())
    keeps_fabric_ = purchase.owned_fabric(cluster.node) && cluster.nodes <= purchase.number_owned(cluster.node);
  else if (const Purchase::OwnedFabric* owned = purchase.owned_fabric(cluster.beside))
    border_cables_ = Fields(owned->links, "links").integer<int>("count", 1);
  else
    add(cluster.beside, cluster.beside_nodes);
}

bool JoinedNodes::are_joined() const {
  return !keeps_fabric_ && (groups_.size() > 1 || groups_.front().nodes > 1 || border_cables_ > 0) &&
         std::ranges::all_of(groups_, [](const Group& group) { return group.type.fabric.empty(); });
}

bool JoinedNodes::have_equal_adapters() const { return groups_.front().type.hcas == groups_.back().type.hcas; }

NetworkRequest JoinedNodes::request(int ports) const {
  NetworkRequest request{0, have_equal_adapters() ? groups_.front().type.hcas : 1, ports};
  for (const Group& group : groups_) request.nodes += group.nodes * (group.type.hcas / request.adapters);
  return request;
}

NetworkDesign JoinedNodes::design(const std::string& kind, int ports) const {
  const NetworkKind network = read_network_kind(kind, "--network");
  if (network.rails && !have_equal_adapters())
    throw UserError(fmt::format("{}: rails join nodes of equally many adapters, not of {} and {}", kind,
                                groups_.front().type.hcas, groups_.back().type.hcas));
  if (network.rails && !network.joined && groups_.size() > 1)
    throw UserError(fmt::format("{}: it joins nodes of one type; rail-optimized joins both", kind));
  NetworkDesign design = design_network(network, request(ports));
  if (border_cables_ > 0) add_border(design, border_cables_, network.joined, ports);
  return design;
}

int JoinedNodes::nodes_of_rack(const NodeType& type) const {
  const std::optional<RackRoom> room = rack_room(question_.site(), type, question_.catalog());
  return std::max(1, room ? room->nodes : kGpusOfRack / type.gpus);
}

int JoinedNodes::nodes_of_rack() const {
  int nodes = nodes_of_rack(groups_.front().type);
  for (const Group& group : groups_) nodes = std::min(nodes, nodes_of_rack(group.type));
  return nodes;
}

std::vector<SizeCables> JoinedNodes::cables(const NetworkDesign& design) const {
  FloorPlan floor;
  floor.hosts_of_rack = adapters_of_rack(groups_.front().type);
  for (const Group& group : groups_) floor.hosts_of_rack = std::min(floor.hosts_of_rack, adapters_of_rack(group.type));
  std::vector<SizeCables> all;
  for (const CablesOfLength& cables : plan_cables(cabled_network(design), floor).cables)
    all.push_back({cables.optical, cables.length, cables.count});
  if (design.border_cables > 0) all.back().count += design.border_cables + design.border_links;
  return all;
}

int JoinedNodes::racks_of_switches(std::int64_t switches, const QuestionSwitch& type) const {
  const Site& site = question_.site();
  for (const Group& group : groups_) {
    const std::optional<RackRoom> room = rack_room(site, group.type, question_.catalog());
    if (group.type.rack_units == 0 || !room || room->nodes == 0) continue;
    for (int nodes = group.nodes; nodes > 0; nodes -= room->nodes) {
      const int taken = std::min(nodes, room->nodes) * group.type.rack_units;
      switches -= std::max(0, site.rack_units - taken) / type.rack_units;
    }
  }
  if (switches <= 0) return 0;
  const int of_rack = site.rack_units / type.rack_units;
  return of_rack > 0 ? static_cast<int>(ceiling(switches, of_rack)) : static_cast<int>(switches);
}

}  // namespace trainyard
