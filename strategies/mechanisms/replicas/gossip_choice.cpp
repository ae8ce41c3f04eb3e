#include "strategies/mechanisms/replicas/gossip_choice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/reading/short_form.hpp"

namespace trainyard {
namespace {

int rank_of(const Node& node) {
  try {
    return static_cast<int>(std::clamp<std::int64_t>(parse_integer(node.scalar), -1, 1 << 30));
  } catch (const UserError& e) {
    fail(node.place, fmt::format("plan.data_parallel.gossip.edges: {}", e.what()));
  }
}

Gossip read_edges(const Node& list, int ranks) {
  Gossip::Edges edges;
  for (const Node& edge : list.items) {
    if (edge.items.size() != 2)
      fail(edge.place, "plan.data_parallel.gossip.edges: two ranks each expected, as in [[0, 1], [1, 2]]");
    edges.emplace_back(rank_of(edge.items[0]), rank_of(edge.items[1]));
  }
  try {
    return Gossip::of_edges(ranks, edges);
  } catch (const UserError& e) {
    fail(list.place, fmt::format("plan.data_parallel.gossip.edges: {}", e.what()));
  }
}

Gossip read_topology(Fields& fields, int ranks) {
  const std::string name = fields.choice("topology", {"ring", "torus", "exponential", "pairs"});
  if (fields.has("seed") && name != "pairs")
    fields.refuse("seed", fmt::format("of random pairs only, not of a {}", name));
  const auto seed = fields.integer<std::uint64_t>("seed", 0, 1);
  if (name == "pairs") return Gossip::pairs(ranks, seed);
  return name == "ring" ? Gossip::ring(ranks) : name == "torus" ? Gossip::torus(ranks) : Gossip::exponential(ranks);
}

}  // namespace

Gossip read_gossip(const Node& node, int ranks) {
  const Node map = long_form(&node, node.find("edges") ? nullptr : "topology", node.place);
  Fields fields(map, "plan.data_parallel.gossip");
  const Node* edges = fields.child("edges");
  if (edges && fields.has("topology")) fail(edges->place, "plan.data_parallel.gossip: either a topology or edges");
  const Gossip gossip = edges ? read_edges(*edges, ranks) : read_topology(fields, ranks);
  fields.finish();
  const std::vector<int> rest = gossip.cut_off();
  if (!rest.empty())
    fail(edges ? edges->place : node.place,
         fmt::format(
             "plan.data_parallel.gossip: the graph is not connected; what rank 0 learns never reaches rank{} {}",
             rest.size() == 1 ? "" : "s",
             fmt::join(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(rest.size(), 8)),
                       ", ")));
  return gossip;
}

}  // namespace trainyard
