// Decentralised SGD (Lian et al. 2017): each replica updates alone, and averages with its neighbours after every step.
#include <fmt/format.h>

#include <algorithm>

#include "models/reading/document.hpp"
#include "strategies/mechanisms/replicas/replicas.hpp"
#include "strategies/step/rank_updates.hpp"
#include "strategies/values/gossip_mixing.hpp"
#include "strategies/values/training_values.hpp"

namespace trainyard {
namespace {

constexpr Tag kGossipMessages = Tag{29} << 27;

/// Number of streams for sends to neighbours: one for each, or `free` streams that several neighbours share.
int send_streams(const Gossip& gossip, int free) { return std::clamp(gossip.most_neighbours(), 1, std::max(1, free)); }

class RankGossip : public RankUpdates {
 public:
  RankGossip(const StepParts& parts, const Gossip& gossip)
      : RankUpdates(parts),
        gossip_(gossip),
        peers_(gossip.all_neighbours(parts.step.rank)),
        send_streams_(send_streams(gossip, kMaxStreams - parts.step.streams.updates())) {}

  Ops after_backward(int step) override {
    co_yield RankUpdates::after_backward(step);
    const std::vector<int> neighbours = gossip_.neighbours(parts_.step.rank, step);
    if (!neighbours.empty()) co_yield average_with(neighbours);
  }

 private:
  const Gossip& gossip_;
  std::vector<int> peers_;  // ascending
  int send_streams_;

  /// Sends parameters to all neighbours, receives theirs, and computes the weighted average of all. All messages are
  /// sent at once. A link carries at most as many of them as a rank has neighbours, so the last one arrives no later
  /// than if the rank sent them one by one.
  Ops average_with(const std::vector<int>& neighbours) {
    StepContext& step = parts_.step;
    while (step.waits.has_any()) co_yield step.take_waits();
    double elements = 0;
    for (const GradientBucket& bucket : step.stage.buckets) elements += bucket.elements;
    const Bytes bytes = elements * step.plan.parameter_element;
    if (step.plan.values) co_yield step.call(TrainingCall::give_replica);
    const Dep ready = step.out.last_operation(TrainingStreams::compute);
    for (std::size_t i = 0; i < neighbours.size(); ++i) co_yield send(neighbours, i, bytes, ready);
    for (std::size_t i = 0; i < neighbours.size(); ++i) co_yield receive(neighbours, i, bytes, ready);
    for (std::size_t i = 0; i < std::min(static_cast<std::size_t>(send_streams_), neighbours.size()); ++i) {
      while (step.waits.exceed_one_op()) co_yield step.take_waits();
      step.waits.add(step.out.last_operation(stream_to(i)));
    }
    step.waits.add(parts_.collectives.end_of(Lane::gradients));
    while (step.waits.exceed_one_op()) co_yield step.take_waits();
    const auto count = static_cast<double>(neighbours.size());
    Work mix;  // reads the parameters of all, writes its own
    mix.kernel = static_cast<std::uint16_t>(Kernel::elementwise);
    mix.precision = step.stage.optimizer.precision;
    mix.bytes = bytes * (count + 2);
    co_yield step.work(mix, Kind::local, step.words.optimizer, step.words.average);
    co_yield step.change_memory(-bytes.value * count, MemoryClass::buffers, step.words.average);
    if (step.plan.values) co_yield step.call(TrainingCall::mix_replicas, {static_cast<int>(neighbours.size())});
  }

  Stream stream_to(std::size_t neighbour) const {
    return static_cast<Stream>(parts_.step.streams.updates() + static_cast<int>(neighbour) % send_streams_);
  }

  Op& message(Kind kind, Stream stream, int peer, Dep ready) {
    StepContext& step = parts_.step;
    Op& op =
        step.out.begin(kind, stream, step.words.average, step.words.lane[static_cast<std::size_t>(Lane::gradients)]);
    const auto slot = std::lower_bound(peers_.begin(), peers_.end(), peer) - peers_.begin();
    op.address(step.peers.first_of_updates + slot, kGossipMessages, Mode::put);  // the sender does not wait
    op.deps[0] = ready;
    return op;
  }

  /// Each rank sends to the next higher rank first. If neighbours share streams, ranks thus start with different ones.
  const Op& send(const std::vector<int>& neighbours, std::size_t i, Bytes bytes, Dep ready) {
    const auto above = std::upper_bound(neighbours.begin(), neighbours.end(), parts_.step.rank) - neighbours.begin();
    const int peer = neighbours[(static_cast<std::size_t>(above) + i) % neighbours.size()];
    Op& op = message(Kind::send, stream_to(i), peer, ready);
    op.message.bytes = bytes;
    if (parts_.step.plan.values) op.effect.read = {number_of({TrainingBuffer::Kind::replica}), 0, 1};
    return parts_.step.out.emit();
  }

  const Op& receive(const std::vector<int>& neighbours, std::size_t i, Bytes bytes, Dep ready) {
    Op& op = message(Kind::recv, parts_.collectives.receives(Lane::gradients), neighbours[i], ready);
    op.book_memory(bytes.value, MemoryClass::buffers);
    if (parts_.step.plan.values) op.write_to({number_of({TrainingBuffer::Kind::replica, i + 1}), 0, 1});
    return parts_.step.out.emit();
  }
};

class GossipPolicy : public UpdatePolicy {
 public:
  explicit GossipPolicy(std::shared_ptr<const Gossip> gossip) : gossip_(std::move(gossip)) {}

  bool sums_gradients(int) const override { return false; }
  std::string exchange() const override { return "gossip"; }
  std::vector<int> peers(int rank) const override { return gossip_->all_neighbours(rank); }
  std::vector<std::string> streams(int, int free) const override {
    std::vector<std::string> names;
    for (int i = 0; i < send_streams(*gossip_, free); ++i) names.push_back(fmt::format("send to neighbour {}", i));
    return names;
  }
  std::unique_ptr<RankUpdates> of_rank(const StepParts& parts) const override {
    return std::make_unique<RankGossip>(parts, *gossip_);
  }
  void add_values(TrainingValues& values) const override {
    values.register_call(TrainingCall::give_replica, [&values](Actor rank, const CallArguments&) {
      values.buffer(rank, TrainingBuffer::Kind::replica) = values.replica(rank).all_parameters();
    });
    values.register_call(
        TrainingCall::mix_replicas, [&values, gossip = gossip_](Actor rank, const CallArguments& call) {
          std::vector<Eigen::VectorXd> neighbours;
          for (std::size_t i = 1; i <= call.bucket(); ++i)
            neighbours.push_back(values.buffer(rank, TrainingBuffer::Kind::replica, i));
          Replica& replica = values.replica(rank);
          const int round = values.rank(rank).steps() - 1;
          replica.set_all_parameters(mix_parameters(*gossip, rank, round, replica.all_parameters(), neighbours));
        });
  }

 private:
  std::shared_ptr<const Gossip> gossip_;
};

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
      fail(edge.place, "plan.data_parallel.gossip.edges: expected two ranks for each edge, as in [[0, 1], [1, 2]]");
    edges.emplace_back(rank_of(edge.items[0]), rank_of(edge.items[1]));
  }
  try {
    return Gossip::of_edges(ranks, edges);
  } catch (const UserError& e) {
    fail(list.place, fmt::format("plan.data_parallel.gossip.edges: {}", e.what()));
  }
}

Gossip read_topology(Fields& fields, int ranks) {
  const std::string name = fields.choice(
      {"topology", "Graph of the replicas that average with each other: ring, torus, exponential, or random pairs."},
      {"ring", "torus", "exponential", "pairs"});
  if (fields.has("seed") && name != "pairs")
    fields.refuse("seed", fmt::format("only random pairs have a seed; a {} has none", name));
  const auto seed = fields.integer<std::uint64_t>({"seed", "Seed of the random pairs, for example 2."}, 0, 1);
  if (name == "pairs") return Gossip::pairs(ranks, seed);
  return name == "ring" ? Gossip::ring(ranks) : name == "torus" ? Gossip::torus(ranks) : Gossip::exponential(ranks);
}

/// Reads `gossip: ring | torus | exponential | pairs` (`{topology, seed}`, `{edges: [[0, 1], …]}`) of
/// plan.data_parallel. Throws UserError with the place if the graph is not connected.
Gossip read_gossip(const Node& node, int ranks) {
  const Node map = long_form(&node, node.find("edges") ? nullptr : "topology", node.place);
  Fields fields(map, "plan.data_parallel.gossip");
  const Node* edges = fields.child({"edges",
                                    "Pairs of replicas that average with each other, for example [[0, 1], [1, 2]], in "
                                    "place of a topology. Default: the pairs of the topology."});
  if (edges && fields.has("topology")) fail(edges->place, "plan.data_parallel.gossip: either a topology or edges");
  const Gossip gossip = edges ? read_edges(*edges, ranks) : read_topology(fields, ranks);
  fields.finish();
  const std::vector<int> unreached = gossip.cut_off();
  if (!unreached.empty())
    fail(edges ? edges->place : node.place,
         fmt::format(
             "plan.data_parallel.gossip: the graph is not connected; what rank 0 learns never reaches rank{} {}",
             unreached.size() == 1 ? "" : "s",
             fmt::join(unreached.begin(),
                       unreached.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(unreached.size(), 8)),
                       ", ")));
  return gossip;
}

class GossipSgd : public WholeReplicas {
 public:
  GossipSgd() : WholeReplicas("gossip") {}

  void read_setting(Fields& fields, const MechanismSetting& setting) override {
    WholeReplicas::read_setting(fields, setting);
    if (fields.has("all_reduce")) fields.refuse("all_reduce", "there is no all-reduce with gossip; leave it out");
    for (const char* key : {"overlap", "bucket", "first_bucket", "bucket_boundaries"})
      if (fields.has(key))
        fields.refuse(key,
                      "it would change nothing: neighbours exchange all parameters at the end of a step; leave it "
                      "out");
    graph_ = std::make_shared<const Gossip>(read_gossip(fields.required_child("gossip"), setting.mesh.ranks()));
  }
  bool all_reduces() const override { return false; }
  std::string refuses_compression() const override {
    return "neighbours average parameters, and exchange no gradients";
  }

  void lay_out(TrainingPlan& plan, const TrainingStates&) const override { plan.updates = gossip_updates(graph_); }
  StepRhythm rhythm() const override {
    StepRhythm rhythm;
    rhythm.varies = graph_->is_random();
    return rhythm;
  }
  /// Counts a message to and one from each neighbour, and the average.
  double operations(const TrainingPlan& plan) const override {
    return plan.ranks() * (2.0 * graph_->most_neighbours() + 6);
  }

  void add_figures(MechanismFigures& figures, const TrainingPlan&, int) const override {
    figures.replicas["gossip"] = graph_->name();
    figures.replicas["neighbours"] = std::int64_t{graph_->most_neighbours()};
    figures.replicas["spectral_gap"] = std::optional<double>{};
  }
  void add_slow_figures(MechanismFigures& figures) const override {
    if (graph_->is_random()) return;
    if (const double gap = spectral_gap(*graph_); gap > 0) figures.replicas["spectral_gap"] = std::optional{gap};
  }
  std::string summary(const std::string&) const override {
    return graph_->is_random() ? "gossip with a random partner each step" : fmt::format("gossip ({})", graph_->name());
  }
  Report report(const MechanismFigures& figures, const std::function<std::string(double)>&,
                const std::string&) const override {
    const auto& gap = figure<std::optional<double>>(figures.replicas, "spectral_gap");
    return {"updates", {summary("") + (gap ? fmt::format(", spectral gap {:.4g}", *gap) : "")}};
  }

 private:
  std::shared_ptr<const Gossip> graph_;
};

const RegisterMechanism register_gossip{
    {"gossip",
     "replicas update alone and average with their neighbours after every step",
     {"gossip"},
     [](Fields& fields) {
       return fields.has({"gossip",
                          "Graph of the replicas that average their parameters: ring, torus, exponential, pairs or "
                          "{edges: [[0, 1], [1, 2]]}, for example ring."});
     },
     [](Fields&, const ClusterSpec&) -> std::unique_ptr<Mechanism> { return std::make_unique<GossipSgd>(); },
     {{"gossip", "graph of the replicas that average their parameters", std::string{}},
      {"neighbours", "largest number of neighbours of a rank in one step", std::int64_t{}},
      {"spectral_gap",
       "spectral gap of the graph: the larger, the faster averages spread; null if neighbours are drawn at random",
       std::optional<double>{}}},
     "with gossip"}};

}  // namespace

std::shared_ptr<const UpdatePolicy> gossip_updates(std::shared_ptr<const Gossip> gossip) {
  return std::make_shared<GossipPolicy>(std::move(gossip));
}

}  // namespace trainyard
