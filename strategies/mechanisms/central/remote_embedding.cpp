// The embedding is on a parameter server; the gradients of all other layers are all-reduced. Source: PyTorch's tutorial
// "Combining Distributed DataParallel with Distributed RPC Framework". A table that is too large for a GPU is in the
// memory of a CPU. Before a step each rank requests the rows of its tokens; after the backward pass it sends their
// gradients back. The server sums the gradients of all ranks and updates the rows.
#include <fmt/format.h>

#include <algorithm>

#include "strategies/mechanisms/central/central_mechanism.hpp"
#include "strategies/mechanisms/central/embedding_server.hpp"
#include "strategies/mechanisms/replicas/replicas.hpp"
#include "strategies/step/rank_updates.hpp"
#include "strategies/step/training_programs.hpp"
#include "strategies/values/training_values.hpp"

namespace trainyard {
namespace {

using Buffer = TrainingBuffer::Kind;
constexpr Bytes kRowIndex{8};  // PyTorch's are 64-bit integers

/// Splits each bucket with tensors of the first layer and of others in two. Each half is sent when it is full.
void split_off_embedding(TrainingPlan& plan) {
  std::vector<GradientBucket> buckets;
  for (const GradientBucket& bucket : plan.stages.front().buckets) {
    GradientBucket dense = bucket, remote = bucket;
    const auto keep = [](GradientBucket& half, bool first) {
      std::erase_if(half.parts, [first](const GradientBucket::Part& part) { return (part.layer == 0) != first; });
      half.elements = 0;
      for (const GradientBucket::Part& part : half.parts) half.elements += part.elements;
    };
    keep(dense, false);
    keep(remote, true);
    if (!dense.parts.empty() && !remote.parts.empty()) {
      dense.layer =
          std::ranges::min_element(dense.parts, [](const auto& a, const auto& b) { return a.layer < b.layer; })->layer;
      constexpr Bytes endless{1e18};
      dense.kernel =
          gradient_buckets(*plan.network, {dense.layer}, plan.gradient_element, endless, endless, true).back().kernel;
    }
    if (!dense.parts.empty()) buckets.push_back(dense);
    if (!remote.parts.empty()) buckets.push_back(remote);
  }
  plan.stages.front().buckets = std::move(buckets);
}

class RankLookups : public RankUpdates {
 public:
  RankLookups(const StepParts& parts, const RemoteNames& words) : RankUpdates(parts), words_(words) {}

  Ops before_step(int step) override { co_yield look_up(step); }
  Ops after_backward(int step) override {
    co_yield push(step);
    co_yield RankUpdates::after_backward(step);
  }
  /// Fetches the rows once more, because the final parameters are on the server.
  Ops after_training() override {
    if (parts_.step.plan.values_by_layer()) co_yield look_up(parts_.step.plan.steps);
  }

 private:
  const RemoteNames& words_;

  Stream sending() const { return static_cast<Stream>(parts_.step.streams.updates()); }
  Stream receiving() const { return static_cast<Stream>(sending() + 1); }

  Op& message(Kind kind, Stream stream, RemoteContent content, int step, std::size_t bucket, Bytes bytes, NameId name) {
    StepContext& context = parts_.step;
    Op& op = context.out.begin(kind, stream, name, words_.lookups);
    op.address(context.peers.first_of_updates, remote_tag(content, step, bucket), Mode::put);
    if (kind == Kind::send) op.message.bytes = bytes;
    return op;
  }

  Ops look_up(int number) {
    StepContext& step = parts_.step;
    while (step.waits.has_any()) co_yield step.take_waits();
    Op& request = message(Kind::send, sending(), RemoteContent::request, number, 0,
                          kRowIndex * tokens_of_step(step.plan), words_.request);
    request.deps[0] = step.out.last_operation(TrainingStreams::compute);
    co_yield step.out.emit();
    for (std::size_t b = 0; b < step.buckets(); ++b) {
      if (!is_remote(step.stage.buckets[b])) continue;
      Op& rows = message(Kind::recv, receiving(), RemoteContent::rows, number, b, {}, words_.rows);
      rows.deps[0] = step.out.last_operation(sending());
      rows.book_memory(looked_up_elements(step.plan, step.stage.buckets[b]) * step.plan.parameter_element.value,
                       MemoryClass::buffers);
      if (step.plan.values_by_layer()) rows.write_to({number_of({Buffer::parameters, b}), 0, 1});
      co_yield step.out.emit();
      if (step.plan.values_by_layer())
        co_yield step.call_on(receiving(), TrainingCall::take_parameters, CallArguments::of_bucket(b));
    }
    step.waits.add(step.out.last_operation(receiving()));
  }

  Ops push(int number) {
    StepContext& step = parts_.step;
    while (step.waits.has_any()) co_yield step.take_waits();
    for (std::size_t b = 0; b < step.buckets(); ++b) {
      if (!is_remote(step.stage.buckets[b])) continue;
      if (step.plan.values_by_layer()) co_yield step.call(TrainingCall::fill_bucket, CallArguments::of_bucket(b));
      const double elements = looked_up_elements(step.plan, step.stage.buckets[b]);
      Op& gradients = message(Kind::send, sending(), RemoteContent::gradients, number, b,
                              step.plan.gradient_element * elements, words_.push);
      gradients.deps[0] = step.out.last_operation(TrainingStreams::compute);
      gradients.book_memory(-elements * step.plan.parameter_element.value, MemoryClass::buffers);
      if (step.plan.values_by_layer()) gradients.effect.read = {number_of({Buffer::gradients, b}), 0, 1};
      co_yield step.out.emit();
      // The optimizer may change the rank's own copy of these parameters: the next rows overwrite it.
      if (step.plan.values_by_layer()) co_yield step.call(TrainingCall::keep_gradients, CallArguments::of_bucket(b));
    }
  }
};

class RemoteEmbeddingPolicy : public UpdatePolicy {
 public:
  RemoteEmbeddingPolicy(int server, const RemoteNames& words) : server_(server), words_(words) {}

  bool sums(const GradientBucket& bucket) const override { return !is_remote(bucket); }
  std::vector<int> peers(int) const override { return {server_}; }
  std::uint64_t text(int) const override { return 1; }
  std::vector<std::string> streams(int, int) const override { return {"send to embedding", "receive rows"}; }
  std::unique_ptr<RankUpdates> of_rank(const StepParts& parts) const override {
    return std::make_unique<RankLookups>(parts, words_);
  }

 private:
  int server_;
  RemoteNames words_;
};

class RemoteEmbeddingRun : public MechanismRun {
 public:
  explicit RemoteEmbeddingRun(const MechanismSite& site)
      : words_(site.names), plan_(with_words(site.plan, words_)), states_(site.states), programs_(plan_, site.names) {}

  Programs programs() override {
    Programs all = programs_.programs();
    all.push_back(embedding_server(plan_, states_, words_));
    return all;
  }
  std::vector<std::string> streams() const override { return programs_.streams().names(); }
  const PassTables& tables() const override { return programs_.tables(); }
  const TrainingPlan& plan() const override { return plan_; }
  void add_values(TrainingValues& values) override {
    if (!plan_.values_by_layer()) return;  // a small training sums gradients of all parameters at once
    const Actor server = plan_.ranks();
    values.add_learner(server);
    values.set_learner(0);
    values.register_call(TrainingCall::update, [&values, this](Actor actor, const CallArguments& about) {
      if (actor != plan_.ranks()) return values.call(TrainingCall::update, actor, about);
      Replica& model = values.replica(actor);
      for (std::size_t b = 0; b < model.buckets(); ++b)
        model.set_gradients(b, is_remote(plan_.stages.front().buckets[b]) ? values.buffer(actor, Buffer::gradients, b)
                                                                          : (0 * model.gradients(b)).eval());
      model.apply_gradients();
    });
  }

 private:
  RemoteNames words_;
  TrainingPlan plan_;
  const TrainingStates& states_;
  TrainingPrograms programs_;

  static TrainingPlan with_words(TrainingPlan plan, const RemoteNames& words) {
    plan.updates = std::make_shared<RemoteEmbeddingPolicy>(plan.ranks(), words);
    return plan;
  }
};

class RemoteEmbedding : public WholeReplicas {
 public:
  RemoteEmbedding(int node, Place place) : WholeReplicas("mechanism"), node_(node), place_(std::move(place)) {}

  void read_setting(Fields& fields, const MechanismSetting& setting) override {
    WholeReplicas::read_setting(fields, setting);
    if (node_ >= setting.cluster.nodes)
      fields.refuse("embedding_node", fmt::format("{}, but nodes are 0 to {}", node_, setting.cluster.nodes - 1));
  }
  bool ranks_alike() const override { return false; }
  int servers() const override { return 1; }
  std::vector<int> server_nodes() const override { return {node_}; }
  std::string refuses_compression() const override { return "rows of a remote embedding are sent uncompressed"; }

  void lay_out(TrainingPlan& plan, const TrainingStates& states) const override {
    if (plan.network->layers.back().tied_elements > 0)
      fail(place_, fmt::format("plan.data_parallel.mechanism: remote-embedding, but {} also uses the embedding's "
                               "weight in its last layer",
                               plan.network->name));
    split_off_embedding(plan);
    StagePlan& stage = plan.stages.front();
    double remote = 0;
    for (const GradientBucket& bucket : stage.buckets)
      if (is_remote(bucket)) remote += bucket.elements;
    const double all = plan.network->parameters(), dense = all - remote;
    stage.memory = static_memory(dense, states.precision, states.optimizer, states.software);
    stage.optimizer = optimizer_work(dense, states.precision, states.optimizer, states.software);
    plan.updates = std::make_shared<RemoteEmbeddingPolicy>(plan.ranks(), RemoteNames());
  }
  /// Adds the operations of the messages between each rank and the server, and of the server's work.
  double operations(const TrainingPlan& plan) const override {
    return Mechanism::operations(plan) + 12.0 * plan.ranks();
  }

  std::vector<PlacedMachine::PlacedActor> actors(const TrainingPlan& plan,
                                                 const ClusterMachine& machine) const override {
    std::vector<PlacedMachine::PlacedActor> actors;
    for (Actor rank = 0; rank < plan.ranks(); ++rank) actors.push_back({rank, ""});
    actors.push_back({cpu_of_node(machine, node_), "embedding server"});
    return actors;
  }
  std::unique_ptr<MechanismRun> run(const MechanismSite& site) const override {
    return std::make_unique<RemoteEmbeddingRun>(site);
  }
  std::string summary(const std::string& all_reduce) const override {
    return all_reduce + ", with the embedding on a server";
  }
  Report report(const MechanismFigures&, const std::function<std::string(double)>&, const std::string&) const override {
    return {"embedding",
            {fmt::format("on a parameter server in the memory of node {}: ranks look rows up and send their gradients",
                         node_)}};
  }

 private:
  int node_;
  Place place_;
};

const RegisterMechanism register_remote_embedding{
    {"remote-embedding",
     "a parameter server holds the first layer and ranks look up its rows; all other layers are all-reduced (DDP with "
     "RPC)",
     {{"embedding_node", "Number of the node whose CPU memory holds the remote embedding, for example 0. Default: 0."}},
     nullptr,
     [](Fields& fields, const ClusterSpec&) -> std::unique_ptr<Mechanism> {
       return std::make_unique<RemoteEmbedding>(fields.integer_within<int>("embedding_node", 0, 1 << 20, 0),
                                                fields.place_of("mechanism"));
     }}};

}  // namespace
}  // namespace trainyard
