#include "scenarios/src/studies/failures/failure_study.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>

#include "models/energy/energy.hpp"
#include "models/software/training_memory.hpp"
#include "scenarios/src/post_training/loop.hpp"
#include "scenarios/src/studies/failures/fewer_replicas.hpp"
#include "scenarios/src/studies/failures/training_phases.hpp"
#include "sim/observers/progress.hpp"
#include "strategies/failures/checkpoint_interval.hpp"
#include "strategies/failures/checkpoint_transfer.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {
namespace {

/// Lists the ranks of the first replica, which store the model once.
std::vector<Actor> holders(const Mesh& mesh) {
  std::vector<Actor> ranks;
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    if (mesh.coordinates(rank).data == 0 && mesh.coordinates(rank).context == 0) ranks.push_back(rank);
  return ranks;
}

struct CheckpointCost {
  Bytes bytes;
  CheckpointTimes times;
  Seconds snapshot;  ///< time until all shares are in host memory
  std::string storage;
};

CheckpointPlan transfer_plan(const Scenario& s, Bytes bytes) {
  const FailureChoice& choice = s.failures;
  if (!choice.sharded && s.plan.zero != ZeroStage::none)
    fail(choice.checkpoint_place,
         "faults.checkpoint.sharded: false, but under ZeRO no rank holds the whole optimizer state");
  return {checkpoint_shares(bytes, s.ranks(), choice.sharded, holders(s.plan.mesh)), choice.store};
}

CheckpointCost checkpoint_cost(const Scenario& s) {
  const FailureChoice& choice = s.failures;
  CheckpointCost cost;
  cost.bytes = checkpoint_state(s.network.parameters(), s.precision, s.optimizer, s.software).total();
  cost.storage = choice.store ? choice.store->name : choice.local ? "local drives" : "";
  Seconds snapshot, write, load;
  if (choice.store || choice.local) {
    ClusterSpec cluster = s.cluster;
    if (choice.drive) {
      cluster.node.nvme = *choice.drive;
      for (NodeGroup& group : cluster.others) group.type.nvme = *choice.drive;
    }
    const CheckpointPlan plan = transfer_plan(s, cost.bytes);
    try {
      const CheckpointWrite result = simulate_checkpoint_write(cluster, s.software, plan);
      snapshot = result.snapshot;
      write = result.write;
      load = simulate_checkpoint_load(cluster, s.software, plan);
    } catch (const UserError& e) {
      fail(choice.checkpoint_place, fmt::format("faults.checkpoint: {}", e.what()));
    }
  }
  cost.times.write = choice.write.value_or(write);
  cost.times.load = choice.load.value_or(load);
  cost.snapshot = choice.snapshot.value_or(snapshot);
  cost.times.stall = choice.asynchronous ? std::min(cost.snapshot, cost.times.write) : cost.times.write;
  return cost;
}

/// Returns the number of asynchronous workers that fail with each node. 0: the node has servers too, whose failure
/// stops all workers.
std::vector<int> workers_of_nodes(const Scenario& s) {
  std::vector<int> workers(static_cast<std::size_t>(s.cluster.nodes));
  for (int rank = 0; rank < s.ranks(); ++rank) ++workers[static_cast<std::size_t>(s.cluster.node_of_gpu(rank))];
  for (const int node : s.plan.mechanism->server_nodes()) workers[static_cast<std::size_t>(node)] = 0;
  return workers;
}

/// Sets the number of asynchronous workers that each failure stops. Parts that take their node are split: nodes with
/// equally many workers become one part.
void set_failing_workers(LongRunPlan& plan, const Scenario& s) {
  const std::vector<int> workers = workers_of_nodes(s);
  std::map<int, double> shares;
  for (const int node_workers : workers) shares[node_workers] += 1.0 / static_cast<double>(workers.size());
  std::vector<FailingParts> parts;
  for (FailingParts part : plan.parts) {
    part.workers = part.name == "worker" ? 1 : 0;
    if (!part.takes_node) {
      parts.push_back(part);
      continue;
    }
    for (const auto& [node_workers, share] : shares) {
      FailingParts& split_part = parts.emplace_back(part);
      split_part.workers = node_workers;
      split_part.count *= share;
    }
  }
  plan.parts = std::move(parts);
  for (SetFailure& failure : plan.failures)
    failure.workers = failure.part == "worker"             ? 1
                      : failure.takes_node && failure.node ? workers[static_cast<std::size_t>(*failure.node)]
                                                           : 0;
}

LongRunPlan plan_of(const Scenario& s, Seconds step) {
  const FailureChoice& choice = s.failures;
  LongRunPlan plan;
  plan.step = step;
  plan.steps = s.training.steps;
  plan.end_limit = s.training.time;
  plan.replicas = s.plan.mesh.data;
  plan.nodes = s.cluster.nodes;
  plan.recovery = choice.recovery;
  plan.recovery.state_survives = s.plan.zero == ZeroStage::none && plan.replicas > 1;
  plan.parts = choice.parts;
  plan.failures = choice.failures;
  if (s.plan.mechanism->goes_on_without_some()) set_failing_workers(plan, s);
  return plan;
}

/// Adds the result of one run to the sums.
void add(FailureResult& study, const LongRunResult& run) {
  study.end.value += run.end.value;
  study.steps += run.steps;
  study.useful.value += run.useful.value;
  study.goodput += run.goodput();
  study.goodput_deviation += run.goodput() * run.goodput();
  study.lost_work.value += run.lost_work.value;
  study.lost_work_deviation.value += run.lost_work.value * run.lost_work.value;
  study.stalled.value += run.stalled.value;
  study.down.value += run.down.value;
  study.without_node.value += run.without_node.value;
  study.without_engines.value += run.without_workers.value;
  study.unfinished.value += run.unfinished.value;
  constexpr double kRounding = 1e-9;  // share of the run
  if (const Seconds slower = run.slower - run.unfinished; slower > kRounding * run.end) study.slower += slower;
  study.failures += run.failures;
  study.lost_minibatches += run.lost_minibatches;
  study.checkpoints += run.checkpoints;
  for (const auto& [what, count] : run.failures_of) study.failures_of[what] += count;
}

/// Turns sums into means, and sums of squares into standard deviations.
void divide(FailureResult& study) {
  const double n = study.runs;
  for (double* sum : {&study.end.value, &study.useful.value, &study.steps, &study.goodput, &study.goodput_deviation,
                      &study.lost_work.value, &study.lost_work_deviation.value, &study.stalled.value, &study.down.value,
                      &study.without_node.value, &study.slower.value, &study.failures, &study.checkpoints,
                      &study.lost_minibatches, &study.without_engines.value, &study.unfinished.value})
    *sum /= n;
  for (auto& [what, count] : study.failures_of) count /= n;
  const double bessel = n > 1 ? n / (n - 1) : 0;
  const auto deviation = [bessel](double mean, double mean_square) {
    return std::sqrt(std::max(0.0, mean_square - mean * mean) * bessel);
  };
  study.goodput_deviation = deviation(study.goodput, study.goodput_deviation);
  if (study.end.value > 0)
    study.goodput = study.useful.value / study.end.value;  // so that useful and lost times sum to the whole time
  study.lost_work_deviation.value = deviation(study.lost_work.value, study.lost_work_deviation.value);
}

/// Returns the steps between checkpoints: the scenario's number, or the best one of simulated runs.
double interval(const Scenario& s, const LongRunPlan& plan, FailureResult& study) {
  const FailureChoice& choice = s.failures;
  const bool loses_work = time_between_losses(plan.parts, plan.recovery).value > 0;
  if (choice.optimal && !loses_work)
    fail(choice.every_place,
         "faults.checkpoint.every: optimal needs failures that lose work, but the remaining replicas hold the whole "
         "state");
  double best = 1;
  if (loses_work && plan.checkpoint.stall.value > 0 && (choice.optimal || choice.find_best)) {
    study.checkpoint.best = best_interval(plan);
    best = study.checkpoint.best.steps;
  }
  if (choice.optimal) return best;
  const Seconds length = plan.end_limit.value > 0 ? plan.end_limit : plan.steps * plan.step;
  if (choice.every_time > length)
    fail(choice.every_place, fmt::format("faults.checkpoint.every: {}, but the training takes {}: none is written",
                                         long_time(choice.every_time), long_time(length)));
  if (choice.virtual_epochs > 0) return virtual_epoch_steps(s.training, choice.virtual_epochs);
  return choice.interval_steps > 0 ? choice.interval_steps : std::max(1.0, std::round(choice.every_time / plan.step));
}

/// Returns the outcomes of the failures that the scenario sets. Throws UserError at the place of a failure that is too
/// late.
std::vector<FailureResult::SetFailure> set_failures(const FailureChoice& choice, const LongRunResult& run) {
  std::vector<FailureResult::SetFailure> outcomes;
  for (std::size_t i = 0; i < choice.failures.size(); ++i) {
    const SetFailure& failure = choice.failures[i];
    const SetFailureOutcome& outcome = run.prescribed[i];
    if (!outcome.happened && !failure.after_step)
      fail(choice.failure_places[i], fmt::format("faults.failures.{}.at: {}, but the training ends after {}", i,
                                                 show(failure.time), long_time(run.end)));
    if (!outcome.happened)
      fail(choice.failure_places[i], fmt::format("faults.failures.{}.at: {} steps, but the training ends with {}", i,
                                                 *failure.after_step, run.steps));
    outcomes.push_back(
        {choice.failure_names[i], outcome.time, outcome.lost_work, outcome.steps, outcome.lost_steps, outcome.idle});
  }
  return outcomes;
}

/// Simulates the checkpoints, and the runs of the plan with their failures.
FailureResult study_of(const Scenario& s, LongRunPlan& plan) {
  const FailureChoice& choice = s.failures;
  FailureResult study;
  study.time_between_failures = time_between_failures(plan.parts);
  constexpr double kMostFailures = 1e6;  // in all runs; they take seconds to simulate
  const Seconds length = plan.end_limit.value > 0 ? plan.end_limit : plan.step * plan.steps;
  if (length.value * choice.runs > kMostFailures * study.time_between_failures.value && !plan.parts.empty())
    fail(choice.place, fmt::format("faults.failures: one failure in {} on average, and {} runs of {}; at most {:.0f} "
                                   "failures in all are simulated",
                                   show(study.time_between_failures), choice.runs, long_time(length), kMostFailures));
  if (choice.checkpoints) {
    const CheckpointCost cost = checkpoint_cost(s);
    plan.checkpoint = cost.times;
    study.checkpoint.bytes = cost.bytes;
    study.checkpoint.snapshot = cost.snapshot;
    study.checkpoint.stall = cost.times.stall;
    study.checkpoint.write = cost.times.write;
    study.checkpoint.load = cost.times.load;
    study.checkpoint.storage = cost.storage;
    plan.checkpoint.interval_steps = interval(s, plan, study);
    study.checkpoint.interval = plan.step * plan.checkpoint.interval_steps;
  }
  study.runs = plan.parts.empty() ? 1 : choice.runs;
  study.goodput = 0;
  try {
    ProgressLine progress;
    for (int run = 0; run < study.runs; ++run) {
      progress.show(fmt::format("failures: run {} of {}", run + 1, study.runs));
      plan.draws = seeded_draws(choice.seed + static_cast<std::uint64_t>(run));
      const LongRunResult result = run_long(plan);
      // Reports show these of a single run: a scenario lists its failures or draws them. Runs on spot nodes, which draw
      // interruptions, keep only the costs.
      study.set_failures = set_failures(choice, result);
      add(study, result);
    }
  } catch (const UserError& e) {
    if (std::string_view(e.what()).starts_with("the training")) fail(choice.place, fmt::format("faults: {}", e.what()));
    throw;
  }
  divide(study);
  return study;
}

constexpr const char* kGenerating = "generating ";  // before the names of parts of the nodes that generate

/// Divides the parts of the machine between the nodes that train and those that generate. The loss of a node that
/// generates loses its engines, while the others go on. Nodes that generate have the last numbers.
void split_pools(LongRunPlan& plan, const PostTrainingChoice& loop, const PostTrainingResult& r) {
  const int engines = loop.engines(), of_node = std::max(1, loop.generators.node.gpus / loop.layout.gpus());
  const double share = static_cast<double>(loop.nodes) / loop.machine_nodes;
  plan.replicas = engines;
  plan.nodes = 0;
  plan.workers_hold_state = false;
  std::vector<FailingParts> parts;
  for (FailingParts part : plan.parts) {
    const bool in_nodes = part.takes_node || part.name == "link";
    parts.push_back(part);
    if (!in_nodes) continue;
    parts.back().count = part.count * (1 - share);
    part.count *= share;
    part.name = kGenerating + part.name;
    part.workers = of_node;
    part.redo = r.in_flight;
    parts.push_back(part);
  }
  plan.parts = std::move(parts);
  for (SetFailure& failure : plan.failures) {
    if (!failure.node || *failure.node < loop.machine_nodes - loop.nodes) continue;
    failure.part = kGenerating + failure.part;
    failure.workers = of_node;
    failure.redo = r.in_flight;
  }
}

/// Returns the lost times of the pools of a loop. With the useful time and the unfinished step they sum to the whole.
std::vector<FailureResult::Pool> pools_of(const FailureResult& study, const PostTrainingChoice& loop,
                                          const PostTrainingResult& r) {
  FailureResult::Pool generation{"generation", loop.own_gpus()}, training;
  training.name = !loop.has_own_nodes() ? "all" : loop.shares_gpus() ? "both" : "training";
  training.gpus = r.gpus - generation.gpus;
  for (const auto& [part, count] : study.failures_of)
    (part.starts_with(kGenerating) ? generation : training).failures += count;
  training.lost = study.lost_work + study.stalled + study.down + study.without_node;
  generation.lost = study.slower + study.without_engines;
  if (!loop.has_own_nodes()) {
    training.lost += generation.lost;
    return {training};
  }
  return {training, generation};
}

constexpr double kSecondsOfHour = 3600;

/// Returns the rent of all nodes for an hour. No value: a type of node has no such rent.
std::optional<double> rent_hour(const Scenario& s, const std::vector<Prices::Rent>& rents) {
  return cluster_hour(s.post_training ? loop_machine(s) : s.cluster, [&rents](const NodeType& type) {
    return Prices::gpu_hour_among(rents, type.name, type.gpu.name, type.gpus);
  });
}

/// Simulates the training `r` on nodes that are interrupted. Throws UserError if it never ends.
FailureResult study_interruptions(const Scenario& s, const Prices::Offer& offer, const Result& r) {
  Scenario interrupted = s;
  FailureChoice& choice = interrupted.failures;
  if (!choice.checkpoints)
    throw UserError(
        "interruptions would lose all work: expected faults.checkpoint, such as {every: 30 min, write: 20 s, load: 20 "
        "s}");
  if (s.post_training && s.post_training->length.steps <= 0)
    throw UserError("interruptions need the work of the loop: expected post_training.length: {steps}");
  if (!s.post_training && s.training.steps <= 0)
    throw UserError("interruptions need the work of the training: expected plan.training: {tokens} or {steps}");
  FailingParts nodes;
  nodes.name = "spot node";
  nodes.count = s.post_training ? loop_machine(s).nodes : s.cluster.nodes;
  nodes.mtbf = offer.interruption;
  nodes.takes_node = true;
  choice.parts.push_back(nodes);
  choice.find_best = false;
  choice.recovery.spares.reset();  // another spot node takes over
  if ((choice.recovery.detect + choice.recovery.restart).value <= 0) choice.recovery.restart = offer.restart;
  return r.post_training ? study_loop_failures(interrupted, *r.post_training)
                         : study_failures(interrupted, r.step_time);
}

/// Returns the cost of the training `r`. `rent`: rent of the cluster for an hour.
RentCost rent_cost(const Scenario& s, const Result& r, const Prices::Offer& offer, double rent) {
  RentCost cost;
  cost.time = r.whole_time().value;
  cost.goodput = r.failures ? r.failures->goodput : 1;
  const ReservedHours hours = reserved_hours(offer, cost.time / kSecondsOfHour);
  cost.paid_hours = hours.paid;
  cost.energy = r.training_energy();
  cost.training = hours.cost * rent + s.prices.kwh / kJoulesOfKwh * cost.energy;
  return cost;
}

/// Adds the cost of the whole training by each kind of rent that the prices have: on demand, by each reserved term, and
/// on spot nodes. An interruption of a spot node is a failure of the node, in addition to the scenario's failures, and
/// costs the work since the last checkpoint. Adds nothing if the training has no length or the prices have no such
/// rents.
void book_rents(const Scenario& s, Result& r) {
  if (!r.money || s.prices.offers.empty() || r.whole_time().value <= 0) return;
  const auto add = [&r](const std::string& terms, RentCost cost) {
    cost.terms = terms;
    r.money->rents.push_back(std::move(cost));
  };
  if (const auto hour = rent_hour(s, s.prices.rents)) add("on demand", rent_cost(s, r, {}, *hour));
  for (const Prices::Offer& offer : s.prices.offers) {
    const std::optional<double> hour = rent_hour(s, offer.rents);
    if (!hour) continue;
    if (offer.interruption.value <= 0) {
      add(offer.name(), rent_cost(s, r, offer, *hour));
      continue;
    }
    try {
      Result interrupted = r;
      interrupted.failures = study_interruptions(s, offer, r);
      add(offer.name(), rent_cost(s, interrupted, offer, *hour));
    } catch (const UserError& e) {
      RentCost unknown_cost;
      unknown_cost.error = e.what();
      add(offer.name(), unknown_cost);
    }
  }
}

/// Adds the steps and the time of a loop's length, if nothing fails.
void take_loop_length(const TrainingLength& length, Result& r) {
  if (!length.is_given()) return;
  const Seconds step = r.post_training->step_time;
  r.training_steps = length.steps > 0 ? length.steps : std::floor(length.time / step);
  r.training_time = length.steps > 0 ? length.steps * step : length.time;
}

Result whole_training(Result r, const Scenario& s) {
  if (r.post_training) {
    take_loop_length(s.post_training->length, r);
    book_loop_energy(s, r);
  }
  const bool configures = s.cluster.node.gpu.reconfigure.value > 0 && r.training_steps > 0;
  if (s.training.ends.is_given() || configures) book_phases(s, r);
  if (s.failures.is_given())
    r.failures = r.post_training ? study_loop_failures(s, *r.post_training) : study_failures(s, r.step_time);
  book_money(s, r);
  book_rents(s, r);
  return r;
}

}  // namespace

FailureResult study_failures(const Scenario& s, Seconds step) {
  LongRunPlan plan = plan_of(s, step);
  FewerReplicas step_times(s, step);
  plan.step_with = [&step_times](int replicas) { return step_times(replicas); };
  FailureResult study = study_of(s, plan);
  study.minibatches = study.steps * plan.replicas;
  if (s.training.steps_per_epoch > 0) {
    study.effective_epochs = study.steps / s.training.steps_per_epoch;
    study.planned_epochs = study.end / step / s.training.steps_per_epoch;
  }
  for (const auto& [replicas, reduced_step] : step_times.results())
    study.reduced_replicas.push_back({replicas, reduced_step.time, reduced_step.simulated});
  return study;
}

FailureResult study_loop_failures(const Scenario& s, const PostTrainingResult& r) {
  const PostTrainingChoice& loop = *s.post_training;
  LongRunPlan plan = plan_of(s, r.step_time);
  plan.steps = loop.length.steps;
  plan.end_limit = loop.length.time;
  plan.nodes = loop_machine(s).nodes;
  if (loop.has_own_nodes()) split_pools(plan, loop, r);
  std::map<int, Seconds> steps;  // indexed by the number of engines
  plan.step_with = [&](int engines) {
    if (!loop.has_own_nodes()) return r.step_time;
    const auto [found, is_new] = steps.try_emplace(engines);
    if (is_new) found->second = std::max(r.step_time, step_with_engines(loop, s.model.entry, r, engines));
    return found->second;
  };
  FailureResult study = study_of(s, plan);
  const double minibatches = static_cast<double>(s.plan.mesh.data) * r.optimizer_steps;
  study.minibatches = study.steps * minibatches;
  study.lost_minibatches = study.lost_work / r.step_time * minibatches;
  study.pools = pools_of(study, loop, r);
  return study;
}

Result simulate_training(const Scenario& s, const Plan& plan, const SimulateOptions& options) {
  return whole_training(simulate(s, plan, options), s);
}

Result simulate_training(const Scenario& s, const SimulateOptions& options) {
  return whole_training(simulate(s, options), s);
}

}  // namespace trainyard
