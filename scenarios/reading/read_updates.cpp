#include "scenarios/reading/read_updates.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {
namespace {

constexpr std::int64_t kMostDelay = 16, kMostLocalSteps = 1 << 16;

int steps_in(Fields& fields, const char* key, std::int64_t least, std::int64_t most) {
  const std::int64_t steps = fields.integer(key, least, least);
  if (steps > most)
    fail(fields.place_of(key), fmt::format("plan.data_parallel.{}: {} steps; at most {}", key, steps, most));
  return static_cast<int>(steps);
}

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
  const std::string name = fields.choice("topology", {"ring", "torus", "pairs"});
  if (fields.has("seed") && name != "pairs")
    fail(fields.place_of("seed"),
         fmt::format("plan.data_parallel.gossip.seed: of random pairs only, not of a {}", name));
  const auto seed = static_cast<std::uint64_t>(fields.integer("seed", 0, 1));
  return name == "ring" ? Gossip::ring(ranks) : name == "torus" ? Gossip::torus(ranks) : Gossip::pairs(ranks, seed);
}

Gossip read_gossip(const Node& node, int ranks) {
  Node map = node;
  if (node.kind == Node::Kind::scalar) {
    map = Node{};
    map.kind = Node::Kind::map;
    map.place = map.key_place = node.place;
    map.fields.emplace_back("topology", node);
  }
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

}  // namespace

ReplicaUpdates read_updates(Fields& fields, const ParallelChoice& choice) {
  ReplicaUpdates updates;
  updates.delay = steps_in(fields, "delay", 0, kMostDelay);
  const bool local = fields.has("local_steps");
  if (local) updates.local_steps = steps_in(fields, "local_steps", 1, kMostLocalSteps);
  const Node* gossip = fields.has("gossip") ? fields.child("gossip") : nullptr;
  const char* key = updates.delay > 0 ? "delay" : local ? "local_steps" : gossip ? "gossip" : nullptr;
  if (!key) return updates;
  const auto refuse = [&](const std::string& why) {
    fail(fields.place_of(key), fmt::format("plan.data_parallel.{}: {}", key, why));
  };
  if ((updates.delay > 0) + local + (gossip != nullptr) > 1) refuse("one of delay, local_steps and gossip at a time");
  if (choice.any() || choice.mechanism != Mechanism::all_reduce)
    refuse(
        "replicas of a whole model only: no tensor, pipeline, context or expert parallelism, no ZeRO, no "
        "recomputation, and mechanism all-reduce");
  if (choice.mesh.ranks() == 1) refuse("there is one rank only, and nobody to exchange with");
  if (gossip) {
    if (fields.has("all_reduce"))
      fail(fields.place_of("all_reduce"), "plan.data_parallel.all_reduce: there is none with gossip; leave it out");
    updates.gossip = std::make_shared<const Gossip>(read_gossip(*gossip, choice.mesh.ranks()));
  }
  return updates;
}

int turns_of(const ReplicaUpdates& updates) {
  return updates.local_steps > 0 ? updates.local_steps : updates.delay + 1;
}

std::string in_words(const ReplicaUpdates& updates) {
  if (updates.delay > 0) return fmt::format("updates {} step{} late", updates.delay, updates.delay == 1 ? "" : "s");
  if (updates.local_steps > 0) return fmt::format("parameters averaged every {} steps", updates.local_steps);
  if (!updates.gossip) return "";
  if (updates.gossip->drawn()) return "gossip with a random partner each step";
  return fmt::format("gossip ({})", updates.gossip->name());
}

}  // namespace trainyard
