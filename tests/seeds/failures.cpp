// CKPT-01, FAIL-01, MTBF-01, VEPOCH-01: failures and checkpoints of long trainings.
#include <fmt/format.h>

#include <cmath>

#include "models/software/training_memory.hpp"
#include "scenarios/src/reading/training_length.hpp"
#include "strategies/failures/checkpoint_interval.hpp"
#include "tests/seeds/seed_case.hpp"

namespace trainyard {
namespace {

constexpr double kMinute = 60, kHour = 3600, kDay = 24 * kHour;

SeedFigures ckpt_01(const Node& inputs) {
  LongRunPlan plan;
  plan.step = Seconds{1};
  plan.parts.push_back({"node", 1, Seconds{number_of(inputs, "mtbf_h") * kHour}, false});
  plan.checkpoint.stall = plan.checkpoint.write = Seconds{number_of(inputs, "ckpt_write_min") * kMinute};
  plan.recovery.restart = Seconds{number_of(inputs, "restart_min") * kMinute};
  const BestInterval best = best_interval(plan);
  const CheckpointState state = checkpoint_state(1, Precision::fp32, optimizers().front(), SoftwareStack{});
  std::string names;
  for (const CheckpointState::Part& part : state.parts) names += (names.empty() ? "" : ", ") + part.name;
  constexpr double kAgrees = 0.05;
  return {{"young_interval_min", best.young.value / kMinute},
          {"daly_interval_min", best.daly.value / kMinute},
          {"simulated_as_daly", std::abs(best.simulated / best.daly - 1) <= kAgrees},
          {"simulated_as_young", std::abs(best.simulated / best.young - 1) <= kAgrees},
          {"state", names}};
}

SeedFigures fail_01(const Node& inputs) {
  LongRunPlan plan;
  plan.steps = number_of(inputs, "steps");
  plan.step = Seconds{number_of(inputs, "step_s")};
  plan.recovery.restart = Seconds{number_of(inputs, "restart_s")};
  plan.failures.push_back({Seconds{0}, number_of(inputs, "fail_at_step_completed"), "server", false});
  const LongRunResult without_checkpoints = run_long(plan);
  const Seconds cost{number_of(inputs, "ckpt_s")};
  plan.checkpoint = {number_of(inputs, "ckpt_every"), cost, cost, Seconds{0}};
  const LongRunResult with_checkpoints = run_long(plan);
  return {{"lost_steps", with_checkpoints.lost_steps},
          {"total_s_no_ckpt", without_checkpoints.end.value},
          {"total_s_ckpt", with_checkpoints.end.value}};
}

/// A run fails if the first draw is small enough. The largest such draw is the probability of a failure.
double probability_of_failure(LongRunPlan plan) {
  double failing_draw = 0, surviving_draw = 1;
  constexpr int kHalvings = 52;
  for (int i = 0; i < kHalvings; ++i) {
    const double draw = (failing_draw + surviving_draw) / 2;
    plan.draws = [draw](std::uint64_t) { return draw; };
    (run_long(plan).failures > 0 ? failing_draw : surviving_draw) = draw;
  }
  return failing_draw;
}

SeedFigures mtbf_01(const Node& inputs) {
  SeedFigures got;
  bool sampled_agrees = true;
  for (const double nodes : numbers_of(inputs, "nodes")) {
    LongRunPlan plan;
    plan.step = plan.recovery.restart = Seconds{kHour};
    plan.end_limit = Seconds{number_of(inputs, "days") * kDay};
    plan.parts.push_back({"node", nodes, Seconds{number_of(inputs, "node_mtbf_h") * kHour}, false});
    const double p = probability_of_failure(plan);
    got[fmt::format("p_any_failure {:.0f}", nodes)] = p;
    constexpr int kRuns = 20000;
    int failed = 0;
    for (int run = 0; run < kRuns; ++run) {
      plan.draws = seeded_draws(static_cast<std::uint64_t>(run));
      failed += run_long(plan).failures > 0 ? 1 : 0;
    }
    sampled_agrees &= std::abs(failed - p * kRuns) <= 4 * std::sqrt(p * (1 - p) * kRuns);
  }
  got["sampled_within_4_sigma"] = sampled_agrees;
  return got;
}

SeedFigures vepoch_01(const Node& inputs) {
  const double epochs = number_of(inputs, "virtual_epochs_per_dataset");
  const TrainingLength length = read_training_length(
      parse_document(fmt::format("{{epochs: 1, samples: {}}}", number_of(inputs, "samples")), "seed case"),
      number_of(inputs, "batch"), 1);
  LongRunPlan plan;
  plan.steps = length.steps;
  plan.step = Seconds{1};
  plan.checkpoint.interval_steps = virtual_epoch_steps(length, epochs);
  const LongRunResult run = run_long(plan);
  return {{"steps_per_virtual_epoch", run.steps / run.checkpoints}, {"checkpoints_per_dataset", run.checkpoints}};
}

const RegisterSeed failure_seeds[] = {
    {"CKPT-01", ckpt_01}, {"FAIL-01", fail_01}, {"MTBF-01", mtbf_01}, {"VEPOCH-01", vepoch_01}};

}  // namespace
}  // namespace trainyard
