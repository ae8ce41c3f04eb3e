#include "scenarios/src/running/learn_run.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/step_machine.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/hashing.hpp"
#include "sim/observers/progress.hpp"
#include "sim/observers/traffic.hpp"
#include "sim/process/job.hpp"
#include "sim/process/output.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/step/pass_table.hpp"
#include "strategies/values/compressed_values.hpp"
#include "strategies/values/learning/bandit.hpp"
#include "strategies/values/learning/noise_scale.hpp"
#include "strategies/values/training_values.hpp"

namespace trainyard {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kWeights = "trainyard weights\n";
constexpr int kNoiseGroups = 8;       // groups of samples in one measurement of the noise
constexpr double kNoiseMemory = 0.8;  // weight of earlier measurements (McCandlish et al. 2018, A.1: a running mean)
constexpr double kDiverged = 100;     // a training has diverged when its loss is this many times the initial loss
constexpr double kAlmost = 1e-9;      // added to a number of steps that is rounded down: it sums parts of gradients

Eigen::VectorXd read_weights(const std::string& file, Eigen::Index size, const Place& place) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  const std::string all = text.str();
  const std::size_t head = std::strlen(kWeights), bytes = static_cast<std::size_t>(size) * sizeof(double);
  if (!in) fail(place, fmt::format("learn.from: {} cannot be read", file));
  if (all.compare(0, head, kWeights) != 0) fail(place, fmt::format("learn.from: {} holds no weights", file));
  if (all.size() != head + bytes)
    fail(place, fmt::format("learn.from: {} holds {} weights, but the task has {}", file,
                            (all.size() - head) / sizeof(double), size));
  Eigen::VectorXd weights(size);
  std::memcpy(weights.data(), all.data() + head, bytes);
  return weights;
}

void write_weights(const std::string& file, const Eigen::VectorXd& weights) {
  std::string text(kWeights);
  text.append(reinterpret_cast<const char*>(weights.data()), static_cast<std::size_t>(weights.size()) * sizeof(double));
  write_atomically(file, text);
}

/// Keeps freed memory in the process. Gradients are allocated thousands of times; returning their memory to the system
/// each time would take a quarter of the run.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_MMAP_THRESHOLD, 1 << 25);
#endif
}

LearningSetup setup_of(const LearnChoice& learn) {
  LearningSetup setup;
  setup.task = learning_tasks().find(learn.task.name, learn.place).make(learn.task);
  setup.rule = learn.rule;
  setup.seed = learn.seed;
  setup.leaves_all_gather = learn.leaves_all_gather;
  const Eigen::Index size = setup.task->size();
  for (const double value : learn.task.start) setup.start.push_back(Eigen::VectorXd::Constant(size, value));
  if (!learn.from.empty()) setup.start = {read_weights(learn.from, size, learn.place)};
  return setup;
}

/// Evaluates the learned weights every few steps, and decides when the training ends.
class Learning {
 public:
  Learning(const Scenario& s, const LearningSetup& setup, TrainingValues& training, const Traffic& traffic,
           const LearnOptions& options)
      : s_(s),
        learn_(s.learn),
        setup_(setup),
        training_(training),
        traffic_(traffic),
        options_(options),
        order_(setup.seed + 1, setup.task->samples()) {
    result_.task = setup.task->in_words();
    result_.ranks = s.ranks();
    result_.parameters = static_cast<double>(setup.task->size());
    evaluate();
    if (!result_.points.empty()) start_loss_ = std::abs(result_.points.front().loss);
    training.watch([this](const LearningEvent& event) { handle(event); });
  }

  const bool& enough() const { return enough_; }
  /// The weights to save: those of the lowest loss with early stopping (as with Keras' restore_best_weights), else the
  /// last ones.
  Eigen::VectorXd weights() const { return learn_.patience > 0 ? best_weights_ : training_.learned_parameters(); }

  LearnResult end() {
    if (!enough_ && (waits_for_end_ || result_.points.back().steps < steps())) evaluate();
    if (result_.ended.empty()) result_.ended = "steps";
    take_means(result_);
    return std::move(result_);
  }
  void name_actors(const Machine& machine) {
    for (LearnedUpdate& u : result_.first) u.actor_name = machine.actor_name(u.actor);
  }

 private:
  const Scenario& s_;
  const LearnChoice& learn_;
  const LearningSetup& setup_;
  TrainingValues& training_;
  const Traffic& traffic_;
  const LearnOptions& options_;
  SampleOrder order_;
  LearnResult result_;
  Eigen::VectorXd best_weights_;
  GradientNoise noise_;
  double noise_weight_ = 0, computed_ = 0, pushes_ = 0, lambdas_ = 0, start_loss_ = 0;
  int evaluations_without_gain_ = 0;
  bool enough_ = false;
  bool waits_for_end_ = false;  // the last update is done, and replicas may still average
  ProgressLine line_;

  double steps() const { return training_.applied_gradients() / s_.ranks() + kAlmost; }

  void handle(const LearningEvent& event) {
    if (enough_) return;
    record(event);
    if (event.kind == LearningEvent::Kind::gradient) {
      computed_ += static_cast<double>(s_.micro_batch_size);
      return;
    }
    if (event.kind == LearningEvent::Kind::merge) {
      ++result_.merges;
      return;
    }
    ++result_.updates;
    if (event.staleness > 0)
      result_.worst_staleness = std::max(result_.worst_staleness, static_cast<int>(event.staleness));
    result_.mean_staleness += event.staleness;
    lambdas_ += event.lambda;
    ++pushes_;
    if (is_diverging()) return stop_as_diverged(training_.last_loss());
    const double next = (std::floor(result_.points.back().steps / learn_.interval_steps) + 1) * learn_.interval_steps;
    if (steps() < std::min<double>(next, learn_.steps)) return;
    waits_for_end_ = training_.replicas_differ() && s_.plan.mechanism->is_synchronous() && steps() >= learn_.steps;
    if (!waits_for_end_) evaluate();
  }

  /// Compares the loss with the largest loss of the initial weights, on the validation samples and in the first step.
  bool is_diverging() {
    const double loss = training_.last_loss();
    if (std::isinf(loss) || training_.has_diverged()) return true;
    if (result_.updates <= s_.ranks() && std::isfinite(loss)) start_loss_ = std::max(start_loss_, std::abs(loss));
    return start_loss_ > 0 && loss > kDiverged * start_loss_;
  }
  void take_means(LearnResult& result) const {
    if (pushes_ == 0) return;
    result.mean_staleness /= pushes_;
    result.mean_lambda = lambdas_ / pushes_;
  }

  void record(const LearningEvent& event) {
    if (event.kind == LearningEvent::Kind::merge) return;
    if (std::ssize(result_.first) >= options_.first_events || same_as_before(event)) return;
    result_.first.push_back({training_.values().now().value, event.kind == LearningEvent::Kind::gradient, event.actor,
                             event.worker, "", static_cast<double>(event.version), static_cast<int>(event.staleness),
                             event.loss, event.lambda});
  }

  /// Returns true if an event belongs to another key of an update that is kept already.
  bool same_as_before(const LearningEvent& event) const {
    const auto same = [&event](const LearnedUpdate& u) {
      return !u.gradient && u.actor == event.actor && u.worker == event.worker &&
             u.version == static_cast<double>(event.version) && u.staleness == static_cast<int>(event.staleness);
    };
    return event.kind == LearningEvent::Kind::update && event.worker >= 0 && std::ranges::any_of(result_.first, same);
  }

  void stop_as_diverged(double loss) {
    result_.diverged_at = std::floor(steps());
    result_.diverged_loss = std::isfinite(loss) ? loss : HUGE_VAL;
    result_.ended = "diverged";
    enough_ = true;
  }

  void evaluate() {
    const Eigen::VectorXd weights = training_.learned_parameters();
    const TaskScore score = setup_.task->score(weights);
    if (!std::isfinite(score.loss) || (start_loss_ > 0 && score.loss > kDiverged * start_loss_))
      return stop_as_diverged(score.loss);
    LearnPoint p;
    p.time = training_.values().now().value;
    p.steps = std::floor(steps());
    p.samples = computed_;
    p.bytes = traffic_.total().value;
    p.training_loss = training_.take_loss();
    p.loss = score.loss;
    p.accuracy = score.accuracy;
    p.replica_distance = training_.replica_distance();
    if (setup_.task->shows_position()) place_replicas(p, weights);
    p.noise_scale = options_.noise ? noise(weights) : kNaN;
    const bool is_best = result_.points.empty() || p.loss < result_.best().loss;
    evaluations_without_gain_ = is_best ? 0 : evaluations_without_gain_ + 1;
    if (is_best && learn_.patience > 0) best_weights_ = weights;
    result_.points.push_back(p);
    if (options_.progress)
      line_.show(
          fmt::format("step {:.0f} of {}, loss {:.4g}, {:.4g} s simulated", p.steps, learn_.steps, p.loss, p.time));
    const bool is_reached = (!learn_.target_loss || p.loss <= *learn_.target_loss) &&
                            (!learn_.target_accuracy || p.accuracy >= *learn_.target_accuracy);
    if (learn_.has_target() && is_reached) {
      result_.reached = p;
      finish("target");
    } else if (p.steps >= learn_.steps) {
      finish("steps");
    } else if (learn_.patience > 0 && evaluations_without_gain_ >= learn_.patience) {
      finish("early stopping");
    }
    if (!options_.look) return;
    LearnResult now = result_;
    take_means(now);
    options_.look(now);
  }
  void place_replicas(LearnPoint& p, const Eigen::VectorXd& weights) const {
    p.positions = {weights[0]};
    p.replicas_loss = p.loss;
    if (!training_.replicas_differ()) return;
    p.positions.clear();
    p.replicas_loss = 0;
    for (Actor rank = 0; rank < s_.ranks(); ++rank) {
      const Eigen::VectorXd replica = training_.replica(rank).all_parameters();
      p.positions.push_back(replica[0]);
      p.replicas_loss += setup_.task->score(replica).loss / s_.ranks();
    }
  }
  void finish(const char* why) {
    result_.ended = why;
    enough_ = true;
  }

  /// Returns a running estimate of the noise scale. It averages both parts over the evaluations, because the mean of
  /// their ratio is biased.
  double noise(const Eigen::VectorXd& weights) {
    const int batch = static_cast<int>(std::clamp<std::int64_t>(s_.global_batch_size / kNoiseGroups, 1, 1 << 10));
    const auto evaluations = static_cast<std::int64_t>(result_.points.size());
    const GradientNoise now =
        measure_noise(*setup_.task, weights, order_, evaluations * kNoiseGroups * batch, batch, kNoiseGroups);
    noise_weight_ = 1 + kNoiseMemory * noise_weight_;
    noise_.gradient += (now.gradient - noise_.gradient) / noise_weight_;
    noise_.trace += (now.trace - noise_.trace) / noise_weight_;
    return noise_.scale();
  }
};

/// Describes the mechanism: "NCCL", "gossip (ring)", or a name with its summary: "local-sgd by parameters averaged
/// every 4 steps".
std::string mechanism_words(const Scenario& s, const Plan& planned) {
  const std::string summary = s.plan.mechanism->summary(all_reduce_name(planned.all_reduce));
  const std::string words = s.plan.mechanism_name == kAllReduce || summary == s.plan.mechanism_name ||
                                    summary.starts_with(s.plan.mechanism_name)
                                ? summary
                                : fmt::format("{} by {}", s.plan.mechanism_name, summary);
  return s.learn.leaves_all_gather ? words + " without its all-gather" : words;
}

/// Returns the most steps that a worker may do: if workers are not in step, one may do the steps of all.
int steps_of(const Scenario& s) {
  if (s.plan.mechanism->is_synchronous()) return s.learn.steps;
  constexpr std::int64_t countable = 1 << 30;
  return static_cast<int>(
      std::min(std::int64_t{s.learn.steps} * s.ranks() + s.ranks(), countable / std::max(1, s.micro_batches())));
}

/// Computes the steps by a formula instead of learning, with the time of a simulated step.
LearnResult learn_by_formula(const Scenario& s) {
  const TaskChoice& task = s.learn.task;
  const Result step = simulate(s);
  const double batch = static_cast<double>(s.global_batch_size);
  LearnResult r;
  r.task = fmt::format("steps to the target by a formula, {} (1 + {} / B)", task.formula.least, task.formula.noise);
  r.mechanism = s.plan.mechanism->summary("all-reduce");
  r.ranks = s.ranks();
  LearnPoint p;
  p.steps = task.formula.steps(batch);
  p.time = p.steps * step.step_time.value;
  p.samples = p.steps * batch;
  p.bytes = kNaN;
  p.training_loss = p.loss = p.accuracy = kNaN;
  p.noise_scale = task.formula.noise;
  r.points = {p};
  r.reached = p;
  r.ended = "target";
  return r;
}

/// Trains a small policy with the staleness of the scenario's post-training loop, in the time of its steps. The groups
/// of a step are as stale as the answers of the simulated steps.
LearnResult learn_in_loop(const Scenario& s) {
  const LearnChoice& learn = s.learn;
  const PostTrainingChoice& choice = *s.post_training;
  const PostTrainingResult loop = *simulate(s).post_training;
  std::vector<int> stale;  // steps that each simulated answer misses
  for (const auto& [steps, answers] : loop.staleness) stale.insert(stale.end(), answers, static_cast<int>(steps));
  BanditPolicy policy(learn.task.bandit, learn.seed);
  LearnResult r;
  r.task = fmt::format("a bandit of {} contexts and {} actions, answered by a softmax policy",
                       learn.task.bandit.contexts, learn.task.bandit.actions);
  r.mechanism = choice.asynchrony ? fmt::format("asynchronous with a staleness of {:g}", choice.asynchrony->staleness)
                : choice.one_step_off ? "one step off"
                                      : "synchronous";
  r.ranks = loop.gpus;
  r.parameters = static_cast<double>(policy.size());
  r.mean_staleness = loop.mean_staleness;
  r.worst_staleness = static_cast<int>(loop.most_staleness);
  r.ended = "steps";
  std::vector<int> missed(static_cast<std::size_t>(choice.prompts));
  for (int step = 0; step <= learn.steps; ++step) {
    if (step > 0) {
      // Each group is as stale as a simulated answer that the seed draws.
      for (std::size_t g = 0; g < missed.size(); ++g)
        missed[g] = stale[hash_numbers({learn.seed, static_cast<std::uint64_t>(step), g}) % stale.size()];
      policy.train(missed, static_cast<int>(choice.samples_per_prompt), loop.optimizer_steps);
      r.updates += loop.optimizer_steps;
    }
    if (step % learn.interval_steps != 0 && step != learn.steps) continue;
    LearnPoint& p = r.points.emplace_back();
    p.time = step * loop.step_time.value;
    p.steps = step;
    p.samples = p.steps * static_cast<double>(choice.samples());
    p.bytes = p.noise_scale = p.training_loss = kNaN;
    p.loss = policy.regret();
    p.accuracy = policy.accuracy();
    if ((learn.target_loss && p.loss > *learn.target_loss) ||
        (learn.target_accuracy && p.accuracy < *learn.target_accuracy) || !learn.has_target())
      continue;
    r.reached = p;
    r.ended = "target";
    break;
  }
  return r;
}

/// Fills the shares of the gradients that compression leaves. `parameters`: number of those of the small network.
void add_sent_shares(const Plan& planned, Eigen::Index parameters, LearnResult& r) {
  const TrainingPlan& training = planned.training;
  if (!training.compression) return;
  const std::vector<Eigen::Index> cuts = bucket_cuts(training, parameters);
  CompressedBytes small;
  for (std::size_t b = 0; b + 1 < cuts.size(); ++b) {
    if (cuts[b] == cuts[b + 1]) continue;
    const CompressedBytes bytes = compressed_bytes(
        *training.compression, coded_shape(training, cuts[b] - cuts[b + 1], static_cast<int>(training.ranks())));
    small.dense += bytes.dense;
    small.sent += bytes.sent;
  }
  const CompressedBytes timed = compressed_bytes(training, 0);
  if (small.dense.value > 0) r.sent_share = small.sent / small.dense;
  if (timed.dense.value > 0) r.timed_sent_share = timed.sent / timed.dense;
}

/// Runs the training of the section `learn` on the programs of the scenario's plan. Throws UserError for a wrong file
/// of weights or of samples.
LearnResult learn_here(const Scenario& s, const Plan& laid_out, const LearnOptions& options) {
  keep_freed_memory();
  Plan planned = laid_out;
  planned.training.steps = s.learn.steps;
  require_size(s, planned, 1, "every rank has numbers of its own");
  planned.training.steps = steps_of(s);
  planned.training.values = planned.training.rides = true;
  planned.training.first_step = 0;  // the warm-up of a compressor is part of the training
  if (planned.training.fuses_kernels) planned.training.first_fused = kFirstFused;
  StepMachine machine(s, planned);
  const TrainingStates states{s.precision, s.optimizer, s.software};
  Names names;
  const auto mechanism = s.plan.mechanism->run({planned.training, machine.cluster, states, names});
  const LearningSetup setup = setup_of(s.learn);
  Values values;
  TrainingValues training(setup, mechanism->plan(), values);
  mechanism->add_values(training);
  Traffic traffic(machine.top().links());
  Learning learning(s, setup, training, traffic, options);
  machine.cluster.fuse(mechanism->tables().fused().runs());
  run_programs(machine.top(), mechanism->programs(),
               {.observers = {&traffic, &values, mechanism->observer()},
                .link_changes = machine.link_changes(s),
                .enough = &learning.enough()});
  learning.name_actors(machine.top());
  LearnResult result = learning.end();
  result.mechanism = mechanism_words(s, planned);
  add_sent_shares(planned, setup.task->size(), result);
  if (options.saves && !s.learn.save.empty()) {
    write_weights(s.learn.save, learning.weights());
    result.saved_step = s.learn.patience > 0 ? result.best().steps : result.last().steps;
  }
  return result;
}

}  // namespace

LearnResult learn(const Scenario& s, const LearnOptions& options) {
  if (!s.learn.is_used()) throw UserError(fmt::format("{}: no section `learn`", s.name));
  if (s.learn.task.bandit.is_given()) return learn_in_loop(s);
  if (!learning_tasks().find(s.learn.task.name, s.learn.place).make) return learn_by_formula(s);
  const Plan laid_out = plan(s);
  if (!options.partial) return learn_here(s, laid_out, options);
  std::optional<LearnResult> last;
  LearnOptions watched = options;
  watched.look = [&last](const LearnResult& now) { last = now; };
  try {
    return learn_here(s, laid_out, watched);
  } catch (const Interruption&) {
    if (!last) throw;
    last->mechanism = mechanism_words(s, laid_out);
    last->ended = "interrupted";
    return *last;
  }
}

}  // namespace trainyard
