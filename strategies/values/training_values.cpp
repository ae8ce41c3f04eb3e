#include "strategies/values/training_values.hpp"

#include <algorithm>

#include "sim/error.hpp"
#include "strategies/plan/update_policy.hpp"

namespace trainyard {

namespace {
using Buffer = TrainingBuffer::Kind;
}

void RankSums::put(Actor rank, std::uint16_t buffer, const Eigen::VectorXd& values) {
  Turns& turns = buffers_[buffer];
  Sum& sum = turns.sums[turns.put[rank]++];
  if (sum.put++ == 0)
    sum.values = values;
  else
    sum.values += values;
}

const Eigen::VectorXd& RankSums::take(Actor rank, std::uint16_t buffer) {
  Turns& turns = buffers_[buffer];
  const auto found = turns.sums.find(turns.taken[rank]++);
  if (found == turns.sums.end() || found->second.put != ranks_)
    throw InternalError("a sum is taken before all ranks have given their part");
  if (++found->second.taken < ranks_) return found->second.values;
  last_ = std::move(found->second.values);
  turns.sums.erase(found);
  return last_;
}

TrainingValues::TrainingValues(const TrainingTask& task, const TrainingPlan& plan, Values& values)
    : rule_(task.rule), plan_(plan), values_(values), calls_(values), sums_(plan.ranks()) {
  if (plan.network->samples != task.micro_batch_size)
    throw InternalError("a micro-batch of the plan's network has other samples than one of the task");
  place_layers();
  for (int rank = 0; rank < plan.ranks(); ++rank)
    ranks_.push_back(std::make_unique<numeric::RankValues>(task, plan, positions_[plan.mesh.coordinates(rank).pipeline],
                                                           rank, values));
  if (plan.compression) compressed_ = std::make_unique<numeric::CompressedValues>(plan, task.seed, values);
  begin();
}

TrainingValues::TrainingValues(const LearningSetup& setup, const TrainingPlan& plan, Values& values)
    : rule_(setup.rule), plan_(plan), values_(values), calls_(values), rides_(true), sums_(plan.ranks()) {
  leaves_all_gather_ = setup.leaves_all_gather && plan.ranks() > 1;
  if (plan.compression) coding_ = std::make_unique<CompressedCoding>(plan, setup.seed);
  const UpdatePolicy& policy = update_policy_of(plan);
  bool shares = !plan.through_center;
  for (int step = 0; step < plan.steps && shares; ++step) shares = policy.sums_gradients(step);
  if (shares) shared_ = std::make_unique<SharedUpdates>(setup, plan, coding_.get());
  const std::vector<Eigen::Index> cuts = bucket_cuts(plan, setup.task->size());
  const auto initial = std::make_shared<Eigen::VectorXd>(setup.task->initial());
  for (Actor rank = 0; rank < plan.ranks(); ++rank) {
    std::shared_ptr<const Eigen::VectorXd> start = shared_ ? shared_->first() : initial;
    if (!shared_ && !setup.start.empty())
      start = std::make_shared<Eigen::VectorXd>(setup.start[rank % setup.start.size()]);
    ranks_.push_back(std::make_unique<LearnerRank>(setup, plan, LearnerReplica(setup, cuts, rank, start, shared_.get()),
                                                   rank, shared_.get(), values,
                                                   [this](const LearningEvent& e) { tell(e); }));
  }
  begin();
}

void TrainingValues::begin() {
  constexpr int kFirst = static_cast<int>(TrainingCall::forward), kLast = static_cast<int>(TrainingCall::decode);
  for (int number = kFirst; number <= kLast; ++number)
    register_call(static_cast<TrainingCall>(number), [this, number](Actor rank, const CallArguments& about) {
      call(static_cast<TrainingCall>(number), rank, about);
    });
  update_policy_of(plan_).add_values(*this);
}

void TrainingValues::place_layers() {
  const std::size_t layer_count = plan_.network->layers.size();
  positions_.assign(plan_.stages.size(), std::vector<numeric::LayerPosition>(layer_count));
  std::vector<int> seen(layer_count, 0);
  for (int v = 0; v < plan_.virtual_stages(); ++v) {
    const PipelinePlace place = plan_.place_of(v);
    const std::vector<int>& layers = plan_.stages[place.stage].chunks[place.chunk];
    for (const int layer : layers) {
      positions_[place.stage].at(layer) = {v, layer == layers.front(), layer == layers.back()};
      ++seen[layer];
    }
  }
  if (std::ranges::any_of(seen, [this](int times) { return times != plan_.mesh.copies; }))
    throw InternalError("the stages do not have each layer once for each copy of the network");
}

Replica& TrainingValues::replica(Actor actor) const {
  if (const auto found = extra_replicas_.find(actor); found != extra_replicas_.end()) return *found->second;
  return ranks_.at(actor)->replica();
}

Replica& TrainingValues::add_learner(Actor actor) {
  learner_ = actor;
  return *(extra_replicas_[actor] = replica(0).copy());
}

Eigen::VectorXd TrainingValues::learned_parameters() const {
  if (!replicas_differ()) return replica(learner_).all_parameters();
  Eigen::VectorXd sum = replica(0).all_parameters();
  for (Actor rank = 1; rank < plan_.ranks(); ++rank) sum += replica(rank).all_parameters();
  return sum / plan_.ranks();
}

double TrainingValues::replica_distance() const {
  if (!replicas_differ()) return 0;
  const Eigen::VectorXd mean = learned_parameters();
  double squares = 0;
  for (Actor rank = 0; rank < plan_.ranks(); ++rank) squares += (replica(rank).all_parameters() - mean).squaredNorm();
  return std::sqrt(squares / plan_.ranks());
}

void TrainingValues::put(Actor rank, TrainingBuffer place, Eigen::VectorXd values) {
  if (rides_)
    sums_.put(rank, number_of(place), values);
  else
    buffer(rank, place.kind, place.index) = std::move(values);
}

const Eigen::VectorXd& TrainingValues::sum(Actor rank, TrainingBuffer place) {
  return rides_ ? sums_.take(rank, number_of(place)) : buffer(rank, place.kind, place.index);
}

void TrainingValues::tell(const LearningEvent& event) {
  if (event.kind == LearningEvent::Kind::gradient) {
    last_loss_ = event.loss;
    loss_ += event.loss;
    ++losses_;
  }
  if (observer_) observer_(event);
}

void TrainingValues::note_update(double gradients, LearningEvent event) {
  applied_ += gradients;
  event.kind = LearningEvent::Kind::update;
  tell(event);
}

double TrainingValues::take_loss() {
  if (shared_ && !shared_->by_rank()) return shared_->take_loss();
  const double mean = loss_ / losses_;  // NaN if there were none
  loss_ = losses_ = 0;
  return mean;
}

double TrainingValues::loss(int step, int tensor) const {
  constexpr double kMissing = std::numeric_limits<double>::infinity();
  const int last = static_cast<int>(plan_.network->layers.size()) - 1;
  double sum = 0;
  bool any = false;
  for (const auto& rank : ranks_)
    if (rank->coordinates().tensor == tensor && parameters(plan_.mesh.rank(rank->coordinates())).has(last)) {
      if (static_cast<std::size_t>(step) >= rank->losses().size()) return kMissing;
      sum += rank->losses()[step].loss;
      any = true;
    }
  return any ? sum : kMissing;
}

void TrainingValues::call(TrainingCall what, Actor actor, const CallArguments& about) {
  Replica& model = replica(actor);
  const std::size_t bucket = about.bucket();
  const auto in = [&](Buffer kind) -> Eigen::VectorXd& { return buffer(actor, kind, bucket); };
  switch (what) {
    case TrainingCall::forward:
    case TrainingCall::backward:
    case TrainingCall::backward_input:
    case TrainingCall::backward_weights:
      return rank(actor).pass(what, about);
    case TrainingCall::activations_to_host:
    case TrainingCall::activations_to_gpu:
      return rank(actor).move_activations(what == TrainingCall::activations_to_host, about);
    case TrainingCall::fill_bucket:
      return model.fill_bucket(bucket, in(Buffer::gradients));
    case TrainingCall::keep_gradients:
      return model.keep_gradients(bucket, in(Buffer::gradients));
    case TrainingCall::update:
      model.update(bucket);
      return note_update(actor == learner_ && plan_.through_center ? plan_.ranks() : 1,
                         {.actor = actor, .version = static_cast<std::uint64_t>(model.updates())});
    case TrainingCall::give_replica:
    case TrainingCall::mix_replicas:
      throw InternalError("the plan's replicas mix their parameters, but its policy does not say how");
    case TrainingCall::fill_parameters:
      return model.fill_parameters(bucket, in(Buffer::parameters));
    case TrainingCall::take_parameters:
      return model.take_parameters(bucket, in(Buffer::parameters));
    case TrainingCall::drop_parameters:
      return parameters(actor).drop_parameters(bucket);
    case TrainingCall::fill_tied:
      return parameters(actor).fill_tied(in(Buffer::tied));
    case TrainingCall::take_tied:
      return parameters(actor).take_tied(in(Buffer::tied));
    case TrainingCall::fill_partial:
      return parameters(actor).fill_partial(in(Buffer::partial));
    case TrainingCall::take_partial:
      return parameters(actor).take_partial(in(Buffer::partial));
    case TrainingCall::fill_share:
      return parameters(actor).fill_share(bucket, in(Buffer::gradient_share));
    case TrainingCall::keep_on_host:
      return parameters(actor).keep_on_host(bucket, in(Buffer::host_gradients));
    case TrainingCall::read_states:
      return parameters(actor).read_states(bucket);
    case TrainingCall::update_on_host:
      return parameters(actor).update_on_host(bucket, in(Buffer::host_parameters));
    case TrainingCall::write_states:
      return parameters(actor).write_states(bucket, in(Buffer::host_parameters));
    case TrainingCall::fill_host_parameters:
      return parameters(actor).fill_host_parameters(bucket, in(Buffer::host_parameters));
    case TrainingCall::take_own:
      return parameters(actor).take_own(bucket, in(Buffer::own_parameters), in(Buffer::host_parameters));
    case TrainingCall::encode:  // a small training compresses its gradients when it sums them
      if (compressed_)
        compressed_->encode(actor, bucket, about.exchange, in(Buffer::gradients), in(Buffer::parameters));
      return;
    case TrainingCall::decode:
      if (compressed_) compressed_->decode(actor, bucket, in(Buffer::gradients));
      return;
  }
}

}  // namespace trainyard
