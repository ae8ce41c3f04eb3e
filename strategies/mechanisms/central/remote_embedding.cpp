// The embedding on a parameter server, everything else all-reduced: PyTorch's tutorial "Combining Distributed
// DataParallel with Distributed RPC Framework". A table that is too large for a GPU lies in the memory of a CPU; before a
// step each rank asks for the rows of its tokens, and after the backward pass it sends their gradients back. The server
// adds up what all ranks have sent and updates the rows.
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

/// Cuts the buckets that have tensors of the first layer and of others in two, which leave when each is full.
void part_embedding(TrainingPlan& plan) {
  std::vector<GradientBucket> parted;
  for (const GradientBucket& bucket : plan.stages.front().buckets) {
    GradientBucket dense = bucket, remote = bucket;
    const auto split = [](GradientBucket& of, bool first) {
      std::erase_if(of.parts, [first](const GradientBucket::Part& part) { return (part.layer == 0) != first; });
      of.elements = 0;
      for (const GradientBucket::Part& part : of.parts) of.elements += part.elements;
    };
    split(dense, false);
    split(remote, true);
    if (!dense.parts.empty() && !remote.parts.empty()) {
      dense.layer = std::min_element(dense.parts.begin(), dense.parts.end(), [](const auto& a, const auto& b) {
                      return a.layer < b.layer;
                    })->layer;
      constexpr Bytes endless{1e18};
      dense.kernel =
          gradient_buckets(*plan.network, {dense.layer}, plan.gradient_element, endless, endless, true).back().kernel;
    }
    if (!dense.parts.empty()) parted.push_back(dense);
    if (!remote.parts.empty()) parted.push_back(remote);
  }
  plan.stages.front().buckets = std::move(parted);
}

class RankLookups : public RankUpdates {
 public:
  RankLookups(const StepParts& parts, const RemoteWords& words) : RankUpdates(parts), words_(words) {}

  Ops before_step(int step) override { co_yield look_up(step); }
  Ops after_backward(int step) override {
    co_yield push(step);
    co_yield RankUpdates::after_backward(step);
  }
  /// What was learned is what the server has.
  Ops after_training() override {
    if (parts_.step.plan.values_by_layer()) co_yield look_up(parts_.step.plan.steps);
  }

 private:
  const RemoteWords& words_;

  Stream out() const { return static_cast<Stream>(parts_.step.streams.updates()); }
  Stream in() const { return static_cast<Stream>(out() + 1); }

  Op& message(Kind kind, Stream stream, RemoteContent content, int step, std::size_t bucket, Bytes bytes, NameId name) {
    StepContext& of = parts_.step;
    Op& op = of.out.begin(kind, stream, name, words_.lookups);
    op.address(of.peers.first_of_updates, remote_tag(content, step, bucket), Mode::put);
    if (kind == Kind::send) op.message.bytes = bytes;
    return op;
  }

  Ops look_up(int number) {
    StepContext& step = parts_.step;
    while (step.waits.any()) co_yield step.take_waits();
    Op& ask = message(Kind::send, out(), RemoteContent::request, number, 0, kRowIndex * tokens_of_step(step.plan),
                      words_.request);
    ask.deps[0] = step.out.after(TrainingStreams::compute);
    co_yield step.out.emit();
    for (std::size_t b = 0; b < step.buckets(); ++b) {
      if (!is_remote(step.stage.buckets[b])) continue;
      Op& rows = message(Kind::recv, in(), RemoteContent::rows, number, b, {}, words_.rows);
      rows.deps[0] = step.out.after(out());
      rows.book_memory(looked_up(step.plan, step.stage.buckets[b]) * step.plan.parameter_element.value,
                       MemoryClass::buffers);
      if (step.plan.values_by_layer()) rows.write_to({number_of({Buffer::parameters, b}), 0, 1});
      co_yield step.out.emit();
      if (step.plan.values_by_layer())
        co_yield step.call_on(in(), TrainingCall::take_parameters, CallArguments::of_bucket(b));
    }
    step.waits.add(step.out.after(in()));
  }

  Ops push(int number) {
    StepContext& step = parts_.step;
    while (step.waits.any()) co_yield step.take_waits();
    for (std::size_t b = 0; b < step.buckets(); ++b) {
      if (!is_remote(step.stage.buckets[b])) continue;
      if (step.plan.values_by_layer()) co_yield step.call(TrainingCall::fill_bucket, CallArguments::of_bucket(b));
      const double elements = looked_up(step.plan, step.stage.buckets[b]);
      Op& gradients = message(Kind::send, out(), RemoteContent::gradients, number, b,
                              step.plan.gradient_element * elements, words_.push);
      gradients.deps[0] = step.out.after(TrainingStreams::compute);
      gradients.book_memory(-elements * step.plan.parameter_element.value, MemoryClass::buffers);
      if (step.plan.values_by_layer()) gradients.effect.read = {number_of({Buffer::gradients, b}), 0, 1};
      co_yield step.out.emit();
      // The rank's own copy of these parameters is overwritten by the next rows, whatever the optimizer makes of it.
      if (step.plan.values_by_layer()) co_yield step.call(TrainingCall::keep_gradients, CallArguments::of_bucket(b));
    }
  }
};

class RemoteEmbeddingPolicy : public UpdatePolicy {
 public:
  RemoteEmbeddingPolicy(int server, const RemoteWords& words) : server_(server), words_(words) {}

  bool sums(const GradientBucket& bucket) const override { return !is_remote(bucket); }
  std::vector<int> peers(int) const override { return {server_}; }
  std::uint64_t text(int) const override { return 1; }
  std::vector<std::string> streams(int, int) const override { return {"send to embedding", "receive rows"}; }
  std::unique_ptr<RankUpdates> of_rank(const StepParts& parts) const override {
    return std::make_unique<RankLookups>(parts, words_);
  }

 private:
  int server_;
  RemoteWords words_;
};

class RemoteEmbeddingRun : public MechanismRun {
 public:
  explicit RemoteEmbeddingRun(const MechanismSite& site)
      : words_(site.names), plan_(with_words(site.plan, words_)), states_(site.states), programs_(plan_, site.names) {}

  Programs programs() override {
    Programs all = programs_.all();
    all.push_back(embedding_server(plan_, states_, words_));
    return all;
  }
  std::vector<std::string> streams() const override { return programs_.streams().names(); }
  const PassTables& tables() const override { return programs_.tables(); }
  const TrainingPlan& plan() const override { return plan_; }
  void add_values(TrainingValues& values) override {
    if (!plan_.values_by_layer()) return;  // a learner's gradients are summed for all at once
    const Actor server = plan_.ranks();
    values.add_learner(server);
    values.set_learner(0);
    values.on(TrainingCall::update, [&values, this](Actor actor, const CallArguments& about) {
      if (actor != plan_.ranks()) return values.call(TrainingCall::update, actor, about);
      Replica& held = values.replica(actor);
      for (std::size_t b = 0; b < held.buckets(); ++b)
        held.set_gradients(b, is_remote(plan_.stages.front().buckets[b]) ? values.buffer(actor, Buffer::gradients, b)
                                                                         : (0 * held.gradients(b)).eval());
      held.apply_gradients();
    });
  }

 private:
  RemoteWords words_;
  TrainingPlan plan_;
  const TrainingStates& states_;
  TrainingPrograms programs_;

  static TrainingPlan with_words(TrainingPlan plan, const RemoteWords& words) {
    plan.updates = std::make_shared<RemoteEmbeddingPolicy>(plan.ranks(), words);
    return plan;
  }
};

class RemoteEmbedding : public WholeReplicas {
 public:
  RemoteEmbedding(int node, Place place) : WholeReplicas("mechanism"), node_(node), place_(std::move(place)) {}

  void settle(Fields& fields, const MechanismSetting& setting) override {
    WholeReplicas::settle(fields, setting);
    if (node_ >= setting.cluster.nodes)
      fields.refuse("embedding_node", fmt::format("{}, but nodes are 0 to {}", node_, setting.cluster.nodes - 1));
  }
  bool ranks_alike() const override { return false; }
  int servers() const override { return 1; }
  std::vector<int> server_nodes() const override { return {node_}; }
  std::string refuses_compression() const override { return "rows of a remote embedding are sent as they are"; }

  void lay_out(TrainingPlan& plan, const TrainingStates& states) const override {
    if (plan.network->layers.back().tied_elements > 0)
      fail(place_,
           fmt::format("plan.data_parallel.mechanism: remote-embedding, but {} uses the embedding's weight at its "
                       "end, too",
                       plan.network->name));
    part_embedding(plan);
    StagePlan& stage = plan.stages.front();
    double remote = 0;
    for (const GradientBucket& bucket : stage.buckets)
      if (is_remote(bucket)) remote += bucket.elements;
    const double all = parameters_of(plan), dense = all - remote;
    stage.memory = static_memory(dense, states.precision, states.optimizer, states.software);
    stage.optimizer = optimizer_work(dense, states.precision, states.optimizer, states.software);
    plan.updates = std::make_shared<RemoteEmbeddingPolicy>(plan.ranks(), RemoteWords());
  }
  /// Two messages each way for each rank, and the server's work.
  double operations(const TrainingPlan& plan) const override {
    return Mechanism::operations(plan) + 12.0 * plan.ranks();
  }

  std::vector<PlacedMachine::Placed> actors(const TrainingPlan& plan, const ClusterMachine& machine) const override {
    std::vector<PlacedMachine::Placed> actors;
    for (Actor rank = 0; rank < plan.ranks(); ++rank) actors.push_back({rank, ""});
    actors.push_back({cpu_of_node(machine, node_), "embedding server"});
    return actors;
  }
  std::unique_ptr<MechanismRun> run(const MechanismSite& site) const override {
    return std::make_unique<RemoteEmbeddingRun>(site);
  }
  std::string summary(const std::string& all_reduce) const override {
    return all_reduce + " but for the embedding, which a server has";
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
     "a parameter server has the first layer, of which ranks look rows up; all else is all-reduced (DDP with RPC)",
     {{"embedding_node", "the node whose memory has a remote embedding"}},
     nullptr,
     [](Fields& fields, const ClusterSpec&) -> std::unique_ptr<Mechanism> {
       return std::make_unique<RemoteEmbedding>(fields.integer_within<int>("embedding_node", 0, 1 << 20, 0),
                                                fields.place_of("mechanism"));
     }}};

}  // namespace
}  // namespace trainyard
