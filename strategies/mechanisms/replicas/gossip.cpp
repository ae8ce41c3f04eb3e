// Decentralised SGD (Lian et al. 2017): each replica updates alone, and averages with its neighbours after every step.
#include <fmt/format.h>

#include <algorithm>

#include "strategies/mechanisms/replicas/replicas.hpp"
#include "strategies/plan/gossip_graph.hpp"
#include "strategies/plan/gossip_mixing.hpp"

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
  const std::string name = fields.choice("topology", {"ring", "torus", "pairs"});
  if (fields.has("seed") && name != "pairs")
    fail(fields.place_of("seed"),
         fmt::format("plan.data_parallel.gossip.seed: of random pairs only, not of a {}", name));
  const auto seed = static_cast<std::uint64_t>(fields.integer("seed", 0, 1));
  return name == "ring" ? Gossip::ring(ranks) : name == "torus" ? Gossip::torus(ranks) : Gossip::pairs(ranks, seed);
}

Gossip read_graph(const Node& node, int ranks) {
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

class GossipSgd : public WholeReplicas {
 public:
  GossipSgd() : WholeReplicas("gossip") {}

  void settle(Fields& fields, const MechanismSetting& setting) override {
    WholeReplicas::settle(fields, setting);
    if (fields.has("all_reduce"))
      fail(fields.place_of("all_reduce"), "plan.data_parallel.all_reduce: there is none with gossip; leave it out");
    graph_ = std::make_shared<const Gossip>(read_graph(fields.required_child("gossip"), setting.mesh.ranks()));
  }
  bool all_reduces() const override { return false; }

  void lay_out(TrainingPlan& plan, const TrainingStates&) const override {
    plan.updates.gossip = graph_;
    plan.gradient_exchange = "gossip";
  }
  StepRhythm rhythm() const override { return {1, "", 1}; }
  /// A message to and one from each neighbour, and the sum.
  double operations(const TrainingPlan& plan) const override {
    return plan.ranks() * (2.0 * graph_->most_neighbours() + 6);
  }

  void book(MechanismFigures& figures, const TrainingPlan&, int) const override {
    figures.replicas.gossip = graph_->name();
    figures.replicas.neighbours = graph_->most_neighbours();
  }
  void book_slow(MechanismFigures& figures) const override {
    if (!graph_->drawn()) figures.replicas.spectral_gap = trainyard::spectral_gap(*graph_);
  }
  std::string summary(const std::string&) const override {
    return graph_->drawn() ? "gossip with a random partner each step" : fmt::format("gossip ({})", graph_->name());
  }
  Report report(const MechanismFigures& figures, const std::function<std::string(double)>&,
                const std::string&) const override {
    const double gap = figures.replicas.spectral_gap;
    return {"updates", {summary("") + (gap > 0 ? fmt::format(", spectral gap {:.4g}", gap) : "")}};
  }

 private:
  std::shared_ptr<const Gossip> graph_;
};

const RegisterMechanism registered{
    {"gossip",
     "replicas update alone and average with their neighbours after every step",
     {"gossip"},
     [](Fields& fields) { return fields.has("gossip"); },
     [](Fields&, const ClusterSpec&) -> std::unique_ptr<Mechanism> { return std::make_unique<GossipSgd>(); }}};

}  // namespace
}  // namespace trainyard
