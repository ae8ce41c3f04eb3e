#include "scenarios/src/planning/size.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "models/hardware/adapter_rate.hpp"
#include "models/reading/nearest.hpp"
#include "models/software/training_memory.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "strategies/pipelines/pipeline_schedule.hpp"
#include "strategies/plan/training_plan.hpp"

namespace trainyard {
namespace {

// Default number of steps with an input pipeline: enough for its periods.
constexpr int kStepsWithInput = 8;
// Default number of steps of a pipeline without a flush: the last ones run empty.
constexpr int kStepsWithoutFlush = 16;
// Most steps that are averaged if steps differ from each other: beyond some thousand steps, the error of the model is
// larger than that of the mean. Steps of many operations are fewer, down to the limits below, which take less than a
// second to simulate, or one or two seconds if workers are not in step.
constexpr int kMostSteps = 2000;
constexpr double kMostDrawnOperations = 4e5, kMostOutOfStepOperations = 1e6;
// Fewest steps before a search decides anything, if steps differ from each other: the interval of fewer may be small by
// accident. If workers are not in step, a step has many observations, so fewer steps are enough.
constexpr int kFewestDrawn = 100, kFewestOutOfStep = 20;
// Most operations of warm-up steps, and of a period of stragglers: some ten seconds of steps that are alike.
constexpr double kMostWarmOperations = 4e6, kMostPeriodicOperations = 3e7;
// MSER-5 (White 1997) finds the end of the warm-up from batch means. A batch has kObservations observations, and it
// needs at least kFewestBatches batches.
constexpr int kObservations = 5, kFewestBatches = 10;

// Most steps if all are alike. The mean of more steps differs by less than a thousandth of a step: at most one step
// overlaps with the time before the first and after the last step.
constexpr int kMostAlike = 1000;

/// Returns the common period of all periodic stragglers, in steps.
std::int64_t common_period(const SlowParts& slow) {
  constexpr std::int64_t most = 1 << 20;
  std::int64_t period = 1;
  for (const Straggler& s : slow.stragglers)
    if (s.kind == StragglerKind::periodic) period = std::min(most, std::lcm(period, std::int64_t{s.period}));
  return period;
}

bool is_random(const Straggler& s) {
  return s.kind == StragglerKind::uniform || s.kind == StragglerKind::lognormal ||
         s.kind == StragglerKind::exponential_tail;
}

bool has_random_stragglers(const SlowParts& slow) { return std::ranges::any_of(slow.stragglers, is_random); }

std::int64_t affordable_steps(const Scenario& s, const TrainingPlan& plan, double operations) {
  const double most =
      std::min({operations / operations_of_step(s, plan).all, most_clock_steps(s, plan), 1.0 * kMostSteps});
  return static_cast<std::int64_t>(std::max(most, 1.0));
}

/// Returns the number of steps, or the most steps of a search.
int steps_by_default(const Scenario& s, const TrainingPlan& plan, bool differ) {
  const StepRhythm rhythm = s.plan.mechanism->rhythm();
  std::int64_t steps = rhythm.steps.value_or(s.input.is_used() ? kStepsWithInput
                                             : plan.flushes    ? 1
                                                               : kStepsWithoutFlush),
               unit = rhythm.turns;
  if (!s.prescribed_step.exists()) {
    unit = period_of_steps(s, plan);
    if (unit % common_period(s.slow) != 0)
      throw UserError(
          fmt::format("plan.steps: stragglers repeat every {} steps, which are too many to simulate unasked; state "
                      "plan.steps, a multiple of it if the mean is to be that of the period",
                      common_period(s.slow)));
    const double operations = s.plan.mechanism->is_synchronous() ? kMostDrawnOperations : kMostOutOfStepOperations;
    if (differ) steps = std::max(steps, affordable_steps(s, plan, operations));
  }
  return static_cast<int>((steps + unit - 1) / unit * unit);
}

/// Returns the search for the steps to average. If workers are not in step, one step of all has one end of a step for
/// each worker.
StepSearch search_of(const Scenario& s, const TrainingPlan& plan) {
  const Mechanism& mechanism = *s.plan.mechanism;
  const int ends = mechanism.is_synchronous() ? 1 : s.ranks();
  StepSearch search;
  search.is_given = s.plan.steps.has_value();
  search.unit = period_of_steps(s, plan);
  const auto in_units = [&search](int steps) { return (steps + search.unit - 1) / search.unit * search.unit; };
  search.batch = in_units((kObservations + ends - 1) / ends);
  const int fewest_for_warm_up = kFewestBatches * search.batch;
  search.fewest = search.is_given ? plan.steps : in_units(mechanism.is_synchronous() ? kFewestDrawn : kFewestOutOfStep);
  if (!search.is_given || mechanism.rhythm().varies) search.fewest = std::max(search.fewest, fewest_for_warm_up);
  return search;
}

/// Returns plan.steps, rounded up to whole periods of the stragglers if these can be simulated. Throws UserError if it is
/// not a whole number of the mechanism's turns, or too small.
int checked_steps(const Scenario& s, const TrainingPlan& plan) {
  const StepRhythm rhythm = s.plan.mechanism->rhythm();
  const int steps = s.plan.steps.value();
  if (steps % rhythm.turns != 0)
    fail(s.plan.steps_place, fmt::format("plan.steps: {} is not a multiple of {} ({}); nearest: {}", steps,
                                         rhythm.turns, rhythm.turns_reason, nearest_multiples(rhythm.turns, steps)));
  if (steps < rhythm.fewest)
    fail(s.plan.steps_place,
         fmt::format("plan.steps: {} steps of workers that are not in step say little about their rate; at least {}",
                     steps, rhythm.fewest));
  if (s.prescribed_step.exists()) return steps;
  const int unit = period_of_steps(s, plan);
  return (steps + unit - 1) / unit * unit;
}

/// Returns the most steps if all are alike. There is no limit if links, stragglers or samples make steps differ.
int most_alike(const Scenario& s) {
  const bool varies = std::ranges::any_of(s.cluster.background, &BackgroundTraffic::varies);
  if (varies || !s.slow.links.empty() || !s.slow.stragglers.empty() || s.input.is_used())
    return std::numeric_limits<int>::max();
  const int turns = s.plan.mechanism->rhythm().turns;
  return (kMostAlike + turns - 1) / turns * turns;
}

// Longest time that is simulated. At this time the clock (a double) resolves 2 ns.
constexpr Seconds kLongest{1e7};

std::string count_of_steps(int steps) { return steps == 1 ? "a step" : fmt::format("{} steps", steps); }

/// Counts the operations of one pass of a layer: its kernels, two for each exchange, and from the second micro-batch on
/// those that accumulate gradients.
double operations_of_pass(const Layer& layer, const PipelineTask& task, bool fused) {
  const bool forward = task.pass == PipelineTask::Pass::forward;
  const double exchanges =
      2 * static_cast<double>((forward ? layer.forward_exchanges : layer.backward_exchanges).size());
  if (fused) return 2 + exchanges;
  if (forward) return exchanges + static_cast<double>(layer.forward.size());
  double kernels = static_cast<double>(layer.backward.size());
  for (const BackwardKernel& kernel : layer.backward)
    kernels += task.micro_batch > 0 && !kernel.gradients_ready.empty() ? 1 : 0;
  return exchanges + kernels;
}

double operations_of_passes(const TrainingPlan& plan, bool fused) {
  double operations = 0;
  for (int number = 0; number < plan.mesh.pipeline; ++number) {
    const StagePlan& stage = plan.stages[number];
    const int ranks = plan.mesh.stage_ranks(number);
    // Forward or backward, first micro-batch or a later one: micro-batches do not differ otherwise. -1: not counted yet.
    std::vector<std::array<double, 4>> counts(stage.chunks.size(), std::array<double, 4>{-1, -1, -1, -1});
    for (const PipelineTask& task : stage.tasks) {
      double& count =
          counts[task.chunk][(task.pass == PipelineTask::Pass::forward ? 0U : 2U) + (task.micro_batch > 0 ? 1U : 0U)];
      if (count < 0) {
        count = 0;
        for (const int layer : stage.chunks[task.chunk])
          count += operations_of_pass(plan.network->layers[layer], task, fused && plan.fuses_kernels);
      }
      operations += count * ranks;
    }
  }
  return operations;
}

/// Returns an upper bound for the time of a step on slow hardware: all kernels, and all gradients over the slowest wire
/// to one master.
Seconds longest_step(const Scenario& s, const TrainingPlan& plan, const NodeType& node) {
  Seconds kernels;
  for (const Layer& layer : s.network.layers) {
    for (const KernelCall& call : layer.forward) kernels += kernel_time(node.gpu, call.work);
    for (const BackwardKernel& call : layer.backward) kernels += kernel_time(node.gpu, call.work);
  }
  Work optimizer = optimizer_work(s.network.parameters(), s.precision, s.optimizer, s.software);
  std::vector<const Layer*> layers;
  for (const Layer& layer : s.network.layers) layers.push_back(&layer);
  HeldElements all = held_elements(layers, {}, {});
  add_matrix_updates(optimizer, all, layers, {}, {}, s.optimizer, s.precision);
  Seconds time = (kernels * plan.micro_batches + kernel_time(node.gpu, optimizer)) / node.gpu_speed;
  if (s.measured.is_given()) time = s.measured.step_time(s.micro_batch_size) * plan.micro_batches;
  if (plan.ranks() == 1 && !plan.offload.copies()) return time;
  BytesPerSecond slowest{HUGE_VAL};
  const auto slower = [&slowest](BytesPerSecond rate) {
    if (rate.value > 0) slowest = std::min(slowest, rate);
  };
  slower(node.pcie_rate);
  slower(node.gpu.nvlink);
  slower(node.cpu.copy_rate / std::max(1, node.network.copies));
  slower(node.cpu.memory_bandwidth);
  for (const GraphWire& wire : node.wires) slower(wire.rate);
  const BytesPerSecond slowest_inside = slowest;
  if (s.cluster.nodes > 1) slower(delivered_rate(node, node.hca_rate));
  if (s.cluster.fabric) slower(s.cluster.fabric->slowest_stated_link());
  for (const NodeGroup& group : s.cluster.others) {
    if (!group.island) continue;
    slower(group.island->fabric->slowest_stated_link());
    slower(group.links.all());
  }
  if (plan.offload.drives()) {
    slower(node.nvme.read);
    slower(node.nvme.write);
  }
  // Offloaded states move to the drives and back; gradients and parameters move with each micro-batch.
  const OffloadPlan& offload = plan.offload;
  const Bytes moved = offload.is_used()
                          ? offload.update + offload.states * 2 +
                                (plan.gradient_element * 4 + plan.parameter_element * 2) * plan.micro_batches
                          : Bytes{};
  Bytes activations;
  for (std::size_t layer = 0; layer < s.network.layers.size() && offload.activations.is_used(); ++layer)
    activations += s.network.layers[layer].activations() * 2 * plan.micro_batches * plan.ranks();
  const Bytes exchanged =
      s.network.parameters() * (plan.gradient_element * 2 * s.plan.replicas() + moved * plan.ranks());
  time += activations / slowest;
  const int interval = s.plan.mechanism->rhythm().exchange_interval;
  return interval == 1 ? time + exchanged / slowest
                       : time + exchanged / slowest_inside + exchanged / slowest / interval;
}

}  // namespace

double steps_to_steady_state(const Scenario& s, const TrainingPlan& plan) {
  double warm = s.plan.mechanism->rhythm().warm;
  if (!plan.flushes) warm = std::max(warm, 1 + std::ceil(1.0 * plan.pipeline.stages / plan.micro_batches));
  return s.input.is_used() ? std::max(warm, 3.0 + (2 * s.input.prefetch + 1) / plan.micro_batches) : warm;
}

int period_of_steps(const Scenario& s, const TrainingPlan& plan) {
  const int turns = s.plan.mechanism->rhythm().turns;
  if (common_period(s.slow) == 1) return turns;
  const std::int64_t both = std::lcm(static_cast<std::int64_t>(turns), common_period(s.slow));
  return both <= affordable_steps(s, plan, kMostPeriodicOperations) ? static_cast<int>(both) : turns;
}

void choose_steps(Plan& plan, const Scenario& s) {
  TrainingPlan& training = plan.training;
  const bool differ =
      !s.prescribed_step.exists() && (s.plan.mechanism->rhythm().varies || has_random_stragglers(s.slow));
  training.steps = s.plan.steps ? checked_steps(s, training) : steps_by_default(s, training, differ);
  if (!differ && s.plan.steps) training.steps = std::min(training.steps, most_alike(s));
  plan.operations = operations_of_step(s, training);
  const double wanted = steps_to_steady_state(s, training);
  if (wanted > 0)
    plan.warm_steps = static_cast<int>(std::min(wanted, std::max(1.0, kMostWarmOperations / plan.operations.all)));
  if (!differ) return;
  plan.search = search_of(s, training);
  // A worker's first step gets its weights without a request, and waits for no answer to a previous step.
  if (!s.plan.mechanism->ranks_alike()) plan.warm_steps = std::max(plan.warm_steps, 1);
}

Plan on_steps(Plan plan, int warm_steps, int steps) {
  if (!plan.search) return plan;
  plan.training.steps = plan.search->fewest = steps;
  plan.warm_steps = warm_steps;
  plan.search->is_given = true;
  plan.search->finds_warm_up = false;
  return plan;
}

StepOperations operations_of_step(const Scenario& s, const TrainingPlan& plan) {
  const double mechanism = s.plan.mechanism->operations(plan);
  return {operations_of_passes(plan, false) + mechanism, operations_of_passes(plan, true) + mechanism};
}

double estimated_operations(const Plan& plan, bool fused) {
  return (plan.training.steps + plan.warm_steps) * (fused ? plan.operations.fused : plan.operations.all);
}

void require_size(const Scenario& s, const Plan& plan, double part, const std::string& why_unfolded) {
  const std::string because = why_unfolded.empty() ? "" : fmt::format("; ranks are not folded: {}", why_unfolded);
  const double operations = part * estimated_operations(plan, true);
  if (operations > kMostOperations)
    fail(s.cluster.place, fmt::format("{} of about {:.3g} operations; at most {:.3g} are simulated (fewer ranks, steps "
                                      "or micro-batches, or larger buckets){}",
                                      count_of_steps(plan.training.steps), operations, kMostOperations, because));
}

void refuse_classes(const Scenario& s, const Plan& plan, const std::string& why) {
  fail(s.cluster.place, fmt::format("{} of more than {:.3g} operations, which is the most that is simulated (fewer "
                                    "ranks, steps or micro-batches, or larger buckets); {}",
                                    count_of_steps(plan.training.steps), kMostOperations, why));
}

double most_clock_steps(const Scenario& s, const TrainingPlan& plan) {
  Seconds longest;
  for (const NodeType* type : s.cluster.types()) longest = std::max(longest, longest_step(s, plan, *type));
  return kLongest / longest;
}

void require_simulable(const Scenario& s, const Plan& plan) {
  if (s.prescribed_step.exists())
    throw UserError(
        "plan.step_time: the time of the step is given, and it is not simulated; leave the key out to simulate it");
  const int steps = plan.training.steps;
  if (const double most = most_clock_steps(s, plan.training); !(steps <= most))
    fail(s.cluster.place, fmt::format("{} of up to {:.3g} s; at most {:.3g} s are simulated", count_of_steps(steps),
                                      kLongest.value * steps / most, kLongest.value));
}

}  // namespace trainyard
