#include "scenarios/src/search/training_halves.hpp"

#include <algorithm>
#include <limits>

#include "models/reading/document_text.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/post_training_run.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "scenarios/src/search/plan_memory.hpp"
#include "scenarios/src/search/plan_search.hpp"
#include "sim/process/parallel.hpp"
#include "strategies/failures/checkpoint_transfer.hpp"

namespace trainyard {
namespace {

/// Number of candidates that are refined together. It is constant, so that the order of the search does not depend on the
/// number of processors.
constexpr std::size_t kCandidatesAtOnce = 4;
constexpr double kNoHalf = std::numeric_limits<double>::infinity();

/// Returns the document of the loop without sections that do not change a step.
Node step_document(Node document) {
  std::erase_if(document.fields, [](const auto& field) { return field.first == "learn" || field.first == "faults"; });
  return document;
}

/// Adds the scenario's ZeRO stage and schedule, and tensor ranks within a node, unless the options vary them.
PlanSpaceOptions likely_space(const PlanQuestion& question, const PlanChoice& plan, PlanSpaceOptions options) {
  const auto pin = [&](const char* path, std::vector<std::string> values) {
    if (std::ranges::none_of(options.vary, [&](const auto& axis) { return axis.path == path; }))
      options.vary.push_back({path, std::move(values)});
  };
  pin("plan.data_parallel.zero_stage", {std::to_string(static_cast<int>(plan.zero))});
  pin("plan.pipeline.schedule", {plan.mesh.pipeline > 1 ? plan.schedule : std::string("1f1b")});
  if (plan.mesh.tensor > 1) pin("plan.sequence_parallel", {plan.sharding.sequence ? "true" : "false"});
  if (question.base.model.entry.transformer()) {
    std::vector<std::string> kinds{"none", "full"};
    if (const std::string kind = name_of(plan.sharding.recompute); std::ranges::find(kinds, kind) == kinds.end())
      kinds.push_back(kind);
    pin("plan.recompute", std::move(kinds));
  }
  // Tensor ranks of several nodes would exchange every layer over the network.
  std::vector<std::string> degrees;
  for (const std::int64_t degree : divisors(question.base.cluster.gpus()))
    if (degree <= std::max(question.base.cluster.node.gpus, plan.mesh.tensor))
      degrees.push_back(std::to_string(degree));
  pin("plan.tensor_parallel", std::move(degrees));
  return options;
}

}  // namespace

TrainingHalves::TrainingHalves(const Node& document, const Scenario& scenario, const PlanSpaceOptions& options,
                               const TrainingHalves* sibling, std::optional<double> headroom)
    : question_(read_plan_question(step_document(document), scenario.name)),
      space_(question_, likely_space(question_, scenario.plan, options)),
      journal_(""),
      runner_(question_.base, space_, journal_),
      judges_(question_.base, space_),
      sharing_(scenario.plan),
      headroom_(headroom.value_or(default_headroom(question_.base))) {
  const PostTrainingChoice& choice = *question_.base.post_training;
  steps_ = static_cast<double>(choice.samples() / choice.training_samples);
  passes_ = choice.log_probability_passes;
  loop_ = static_cast<double>(choice.samples()) * choice.stack.loop_sample.value;
  const std::vector<PlanPoint> groups = space_.groups();
  floors_ = sibling ? sibling->floors_ : runner_.group_floors(groups);
  work_ += kOperationsOfGroup * static_cast<double>(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (floors_[i] < kNoHalf) push({steps_ * floors_[i] + loop_, 0, Level::group, groups[i]});
}

void TrainingHalves::push(Candidate candidate) {
  candidate.order = order_++;
  open_.push_back(std::move(candidate));
  std::push_heap(open_.begin(), open_.end());
}

/// Returns the candidates with the lowest bounds, as long as they are of the level of the first.
std::vector<TrainingHalves::Candidate> TrainingHalves::pop_alike() {
  std::vector<Candidate> taken;
  while (!open_.empty() && taken.size() < kCandidatesAtOnce &&
         (taken.empty() || open_.front().level == taken.front().level)) {
    std::pop_heap(open_.begin(), open_.end());
    taken.push_back(std::move(open_.back()));
    open_.pop_back();
  }
  return taken;
}

/// Simulates a step of a model of the loop. Layouts that differ in the training alone share their forward passes.
Result TrainingHalves::simulated_step(const Scenario& s) {
  const std::string key = yaml_text(s.document);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = forward_.find(key); found != forward_.end()) return *found->second;
  }
  double operations = 0;
  SimulateOptions options{.critical_path = false};
  options.after = [&operations](const StepRun& run) { operations = static_cast<double>(run.end.operations); };
  const auto result = std::make_shared<const Result>(simulate_here(s, options));
  const std::lock_guard lock(mutex_);
  if (forward_.emplace(key, result).second) forward_work_ += operations;
  return *result;
}

double TrainingHalves::passes_time(const PlanPoint& point) {
  const Scenario s = read_with_plan(question_.base, space_.section(point));
  return passes_ * simulated_step(log_probability_scenario(s)).step_time.value;
}

TrainingHalves::SimulatedHalf TrainingHalves::simulated_half(const PlanPoint& point) {
  SimulatedHalf simulated;
  const PlanJudges::Loan judge = judges_.lend();
  const Scenario s = judge->scenario(point);
  Scenario alone = s;
  alone.post_training = nullptr;
  SimulateOptions options{.critical_path = false};
  options.after = [&](const StepRun& run) { simulated.operations = static_cast<double>(run.end.operations); };
  const Result training = simulate_here(alone, plan(alone, judge->share(alone)), options);
  PostTrainingResult r;
  add_training_half(s, training, r, [this](const Scenario& other) { return simulated_step(other); });
  if (!training.fits || !r.phases_fit()) return simulated;
  if (!leaves_headroom(training.memory.peak, training.memory.capacity, headroom_)) return simulated;
  TrainingHalf& half = simulated.half.emplace();
  half.section = space_.section(point);
  half.seconds = r.training.value + r.log_probabilities.value + loop_;
  if (s.post_training->shares_gpus())
    half.copies = simulate_host_copies(s.post_training->generators, r.moved_states).value;
  return simulated;
}

bool TrainingHalves::refine() {
  if (open_.empty() || open_.front().level == Level::half) return false;
  std::vector<Candidate> taken = pop_alike();
  const double forward_work = forward_work_;
  switch (taken.front().level) {
    case Level::group: {
      std::vector<PlanPoint> groups;
      for (const Candidate& c : taken) groups.push_back(c.point);
      const std::vector<std::vector<JudgedPlan>> judged = runner_.judge(groups);
      for (std::size_t g = 0; g < groups.size(); ++g) {
        const std::vector<PlanPoint> points = space_.points(groups[g]);
        for (std::size_t i = 0; i < judged[g].size(); ++i) {
          work_ += kOperationsOfJudged + judged[g][i].tasks;
          if (!judged[g][i].fits(runner_.capacity() * (1 - headroom_))) continue;
          if (static_cast<const StateSharing&>(points[i]) != sharing_ && points[i].zero == sharing_.zero &&
              sharing_.zero != ZeroStage::none)
            continue;
          ++plans_;
          push({std::max(taken[g].bound, steps_ * judged[g][i].floor + loop_), 0, Level::plan, points[i],
                judged[g][i].floor});
        }
      }
      break;
    }
    case Level::plan: {
      const std::vector<double> passes = all_in_parallel(taken.size(), processors(), [&](std::size_t i) {
        try {
          return passes_time(taken[i].point);
        } catch (const UserError&) {
          return kNoHalf;
        }
      });
      for (std::size_t i = 0; i < taken.size(); ++i) {
        if (passes[i] == kNoHalf) continue;
        taken[i].level = Level::passes;
        taken[i].bound = steps_ * taken[i].floor + passes[i] + loop_;
        push(std::move(taken[i]));
      }
      break;
    }
    case Level::passes: {
      const std::vector<SimulatedHalf> halves = all_in_parallel(taken.size(), processors(), [&](std::size_t i) {
        try {
          return simulated_half(taken[i].point);
        } catch (const UserError&) {  // a plan that only a simulation refuses
          return SimulatedHalf{};
        }
      });
      for (std::size_t i = 0; i < taken.size(); ++i) {
        ++simulated_;
        work_ += halves[i].operations;
        if (!halves[i].half) continue;
        taken[i].level = Level::half;
        taken[i].half = halves[i].half;
        taken[i].bound = halves[i].half->seconds;
        push(std::move(taken[i]));
      }
      break;
    }
    case Level::half:  // nothing is left to refine
      break;
  }
  work_ += forward_work_ - forward_work;
  return true;
}

const TrainingHalf* TrainingHalves::find(std::size_t k) {
  while (fastest_.size() <= k && !open_.empty() && open_.front().level == Level::half) {
    fastest_.push_back(*open_.front().half);
    std::pop_heap(open_.begin(), open_.end());
    open_.pop_back();
  }
  return k < fastest_.size() ? &fastest_[k] : nullptr;
}

double TrainingHalves::bound(std::size_t k) const {
  if (k < fastest_.size()) return fastest_[k].seconds;
  if (open_.empty()) return kNoHalf;
  return open_.front().bound;
}

}  // namespace trainyard
