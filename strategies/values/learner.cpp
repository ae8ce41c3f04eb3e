#include "strategies/values/learner.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/error.hpp"
#include "sim/observers/values.hpp"
#include "strategies/plan/update_policy.hpp"

namespace trainyard {
namespace {

using Index = Eigen::Index;

double global_batch(const TrainingPlan& plan) {
  return static_cast<double>(plan.network->samples) * plan.micro_batches * plan.mesh.data;
}

void clip(Eigen::VectorXd& gradient, double most) {
  if (most <= 0) return;
  if (const double norm = gradient.norm(); norm > most) gradient *= most / norm;
}

/// Updates the parameters tensor by tensor if the rule needs whole tensors.
void apply(const LearningSetup& setup, Eigen::VectorXd& parameters, const Eigen::VectorXd& gradient,
           OptimizerState& state) {
  state.begin(gradient.size());
  ++state.updates;
  const auto part = [&](Index first, Index count, const MatrixForm& form) {
    apply_update(setup.rule, parameters.segment(first, count), gradient.segment(first, count),
                 state.first.segment(first, count), state.second.segment(first, count), state.updates, form);
  };
  if (setup.rule.part() == UpdateRule::Part::element) return part(0, gradient.size(), {});
  const std::vector<LearningTask::Tensor> tensors = setup.task->tensors();
  const auto factors = [&](const LearningTask::Tensor& t) {
    return factor_count(setup.rule, t.count, {.rows = t.rows, .inner = t.inner});
  };
  Index all = 0, used = 0;
  for (const LearningTask::Tensor& t : tensors) all += factors(t);
  if (state.factors.size() != all) state.factors.setZero(all);
  for (const LearningTask::Tensor& t : tensors) {
    part(t.first, t.count, {t.rows, t.inner, {state.factors.data() + used, factors(t)}});
    used += factors(t);
  }
}

}  // namespace

std::vector<Index> bucket_cuts(const TrainingPlan& plan, Index parameters) {
  const std::vector<GradientBucket>& buckets = plan.stages.front().buckets;
  double all = 0;
  for (const GradientBucket& bucket : buckets) all += bucket.elements;
  std::vector<Index> cuts{parameters};
  double before = 0;
  for (const GradientBucket& bucket : buckets) {
    before += bucket.elements;
    cuts.push_back(static_cast<Index>(std::llround(static_cast<double>(parameters) * (1 - before / all))));
  }
  if (cuts.size() > 1) cuts.back() = 0;
  return cuts;
}

SharedUpdates::SharedUpdates(const LearningSetup& setup, const TrainingPlan& plan, CompressedCoding* coding)
    : setup_(setup),
      plan_(plan),
      coding_(plan.ranks() > 1 ? coding : nullptr),
      batch_(global_batch(plan)),
      first_(
          std::make_shared<const Eigen::VectorXd>(setup.start.empty() ? setup.task->initial() : setup.start.front())),
      versions_{{first_, plan.ranks()}} {}

SharedUpdates::Step& SharedUpdates::step(int number) {
  if (number < oldest_) throw InternalError("a gradient of a step whose update was made");
  while (oldest_ + std::ssize(steps_) <= number) steps_.emplace_back();
  return steps_[number - oldest_];
}

void SharedUpdates::compute(int number, const Weights& weights, const std::vector<Index>& samples) {
  Step& s = step(number);
  if (s.weights && s.weights != weights && !setup_.leaves_all_gather)
    throw InternalError("the gradients of a step were computed with different weights");
  s.weights = weights;
  s.samples.insert(s.samples.end(), samples.begin(), samples.end());
}

void SharedUpdates::give(int number, Actor rank, Index first, const Eigen::VectorXd& values) {
  Step& s = step(number);
  if (s.rank_gradients.empty())
    s.rank_gradients.assign(static_cast<std::size_t>(plan_.ranks()), Eigen::VectorXd::Zero(first_->size()));
  s.rank_gradients[rank].segment(first, values.size()) = values;
}

/// The gradient of the step, summed over all ranks.
Eigen::VectorXd SharedUpdates::sum_gradients(Step& s) {
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(first_->size());
  if (!by_rank()) {
    std::ranges::sort(s.samples);  // the sum does not depend on the order of the ranks
    last_loss_ = setup_.task->add_gradient(*s.weights, s.samples, 1 / batch_, sum) / batch_;
    loss_ += last_loss_;
    ++losses_;
    return sum;
  }
  if (!coding_) {
    for (const Eigen::VectorXd& gradient : s.rank_gradients) sum += gradient;
    return sum;
  }
  const std::vector<Index> cuts = bucket_cuts(plan_, first_->size());
  for (std::size_t b = 0; b + 1 < cuts.size(); ++b) {
    const Index first = cuts[b + 1], count = cuts[b] - first;
    std::vector<Eigen::VectorXd> parts;
    for (const Eigen::VectorXd& gradient : s.rank_gradients) parts.push_back(gradient.segment(first, count));
    sum.segment(first, count) = coding_->sum(b, parts);
  }
  return sum;
}

/// Makes the next version of the weights with the gradients of the oldest step.
void SharedUpdates::advance() {
  if (steps_.empty() || static_cast<double>(steps_.front().samples.size()) != batch_)
    throw InternalError("an update before all gradients are there");
  Step s = std::move(steps_.front());
  steps_.pop_front();
  ++oldest_;
  Eigen::VectorXd gradient = sum_gradients(s);
  clip(gradient, setup_.rule.clip);
  auto next = std::make_shared<Eigen::VectorXd>(*versions_.back().weights);
  apply(setup_, *next, gradient, optimizer_);
  versions_.push_back({std::move(next), 0});
}

std::pair<Index, Index> SharedUpdates::slice_of(Actor rank) const {
  const Index size = first_->size(), first = size * rank / plan_.ranks();
  return {first, size * (rank + 1) / plan_.ranks() - first};
}

SharedUpdates::Weights SharedUpdates::weights_after(int updates) {
  if (updates == oldest_version_ + std::ssize(versions_)) advance();
  Version& version = versions_.at(updates - oldest_version_);
  Weights weights = version.weights;
  ++version.taken;
  while (versions_.size() > 1 && versions_[1].taken == plan_.ranks()) {
    versions_.pop_front();
    ++oldest_version_;
  }
  return weights;
}

double SharedUpdates::take_loss() {
  const double mean = losses_ > 0 ? loss_ / losses_ : std::numeric_limits<double>::quiet_NaN();
  loss_ = losses_ = 0;
  return mean;
}

LearnerReplica::LearnerReplica(const LearningSetup& setup, std::vector<Index> cuts, Actor rank,
                               std::shared_ptr<const Eigen::VectorXd> start, SharedUpdates* shared)
    : setup_(setup),
      cuts_(std::move(cuts)),
      rank_(rank),
      shared_(shared),
      parameters_(std::move(start)),
      filled_(cuts_.size()) {
  if (keeps_gradients()) gradient_ = Eigen::VectorXd::Zero(parameters_->size());
}

/// Returns the replica's own copy of the parameters. Copies shared parameters first.
Eigen::VectorXd& LearnerReplica::own_parameters() {
  if (parameters_.use_count() > 1) parameters_ = std::make_shared<Eigen::VectorXd>(*parameters_);
  return const_cast<Eigen::VectorXd&>(*parameters_);  // created as non-const, and no longer shared
}

void LearnerReplica::fill_bucket(std::size_t place, Eigen::VectorXd& buffer) {
  const std::size_t bucket = place % buckets();
  if (!shared_) {
    buffer = gradients(bucket);
    return;
  }
  buffer.resize(0);  // messages carry no values: the sum is made here
  if (!shared_->by_rank()) return;
  shared_->give(filled_[bucket]++, rank_, cuts_[bucket + 1], gradients(bucket));
  clear_gradients(bucket);
}

void LearnerReplica::keep_gradients(std::size_t place, const Eigen::VectorXd& buffer) {
  if (!shared_) set_gradients(place % buckets(), buffer);
}

void LearnerReplica::update(std::size_t set) {
  if (!shared_) return apply_gradients(set);
  const SharedUpdates::Weights weights = shared_->weights_after(++updates_);
  if (!setup_.leaves_all_gather) {
    parameters_ = weights;
    return;
  }
  const auto [first, count] = shared_->slice_of(rank_);
  own_parameters().segment(first, count) = weights->segment(first, count);
}

void LearnerReplica::take_parameters(std::size_t bucket, const Eigen::VectorXd& values) {
  if (values.size() != count(bucket)) throw InternalError("parameters were never filled in");
  own_parameters().segment(cuts_[bucket + 1], values.size()) = values;
}

void LearnerReplica::fill_parameters(std::size_t bucket, Eigen::VectorXd& buffer) const {
  buffer = parameters_->segment(cuts_[bucket + 1], count(bucket));
}

Eigen::VectorXd LearnerReplica::gradients(std::size_t bucket) const {
  return gradient_.segment(cuts_[bucket + 1], count(bucket));
}

void LearnerReplica::set_gradients(std::size_t bucket, const Eigen::VectorXd& values) {
  gradient_.segment(cuts_[bucket + 1], count(bucket)) = values;
}

void LearnerReplica::clear_gradients(std::size_t bucket) {
  gradient_.segment(cuts_[bucket + 1], count(bucket)).setZero();
}

Eigen::VectorXd LearnerReplica::state() const {
  OptimizerState moments = shared_ ? shared_->optimizer() : optimizer_;
  moments.begin(parameters_->size());
  Eigen::VectorXd values(3 * parameters_->size() + 1 + moments.factors.size());
  values << *parameters_, moments.first, moments.second, static_cast<double>(moments.updates), moments.factors;
  return values;
}

void LearnerReplica::set_state(const Eigen::VectorXd& values) {
  const Index size = parameters_->size();
  own_parameters() = values.head(size);
  optimizer_ = {values.segment(size, size), values.segment(2 * size, size), values.tail(values.size() - 3 * size - 1),
                static_cast<std::int64_t>(values[3 * size])};
  updates_ = static_cast<int>(values[3 * size]);
}

void LearnerReplica::apply_gradients(std::size_t) {
  clip(gradient_, setup_.rule.clip);
  apply(setup_, own_parameters(), gradient_, optimizer_);
  gradient_.setZero();
  ++updates_;
}

void LearnerReplica::forget_parameters() { own_parameters().setConstant(std::numeric_limits<double>::quiet_NaN()); }

LearnerRank::LearnerRank(const LearningSetup& setup, const TrainingPlan& plan, LearnerReplica replica, int rank,
                         SharedUpdates* shared, Values& values, LearningObserver observer)
    : setup_(setup),
      plan_(plan),
      rank_(rank),
      coordinates_(plan.mesh.coordinates(rank)),
      replica_(std::move(replica)),
      shared_(shared),
      values_(values),
      observer_(std::move(observer)),
      order_(setup.seed, setup.task->samples()) {}

void LearnerRank::pass(TrainingCall what, const CallArguments& about) {
  const bool last = about.index + 1 == static_cast<int>(plan_.network->layers.size());
  if (what == TrainingCall::forward && last && about.exchange == kEndOfPass) compute(about.micro_batch);
}

void LearnerRank::compute(int micro_batch) {
  const int step = micro_batches_++ / plan_.micro_batches;
  steps_ = std::max(steps_, step + 1);
  const std::int64_t mine = plan_.network->samples,  // samples of the micro-batch
      rank_batch = mine * plan_.micro_batches, global = rank_batch * plan_.mesh.data;
  const bool summed = update_policy_of(plan_).sums_gradients(step);
  const std::int64_t first = step * global + coordinates_.data * rank_batch + micro_batch * mine;
  std::vector<Index> samples;
  for (std::int64_t i = first; i < first + mine; ++i) samples.push_back(order_.sample(i));
  double loss = std::numeric_limits<double>::quiet_NaN();
  if (shared_) shared_->compute(step, replica_.parameters_, samples);
  if (replica_.keeps_gradients()) {
    const double part = static_cast<double>(summed ? global : rank_batch);
    loss = setup_.task->add_gradient(*replica_.parameters_, samples, 1 / part, replica_.gradient_);
    losses_.resize(std::max(losses_.size(), static_cast<std::size_t>(steps_)));
    StepLoss& step_loss = losses_[step];
    step_loss = {step_loss.loss + loss / part, values_.now()};
    loss /= static_cast<double>(mine);
    // A center that sums gradients key by key cannot clip their norm. Each worker clips its own gradient instead.
    const bool is_complete = micro_batches_ % plan_.micro_batches == 0;
    if (is_complete && plan_.through_center)
      clip(replica_.gradient_, setup_.rule.clip / (summed ? plan_.mesh.data : 1));
  }
  observer_({.kind = LearningEvent::Kind::gradient,
             .actor = rank_,
             .version = plan_.through_center ? version : static_cast<std::uint64_t>(replica_.updates()),
             .loss = loss});
}

void LearnerRank::begin_at(int step) {
  micro_batches_ = step * plan_.micro_batches;
  steps_ = step;
  losses_.resize(std::min(losses_.size(), static_cast<std::size_t>(step)));
}

Eigen::VectorXd LearnerRank::whole_step(int step) {
  begin_at(step);
  replica_.gradient_.setZero();
  for (int m = 0; m < plan_.micro_batches; ++m) compute(m);
  return replica_.gradient_;
}

}  // namespace trainyard
