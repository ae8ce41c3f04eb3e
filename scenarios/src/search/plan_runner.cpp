#include "scenarios/src/search/plan_runner.hpp"

#include <nlohmann/json.hpp>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "sim/json_text.hpp"
#include "sim/process/parallel.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

constexpr std::pair<const char*, double PlanOutcome::*> kFigures[] = {
    {"step_time", &PlanOutcome::step_time},
    {"peak", &PlanOutcome::peak},
    {"mfu", &PlanOutcome::mfu},
    {"samples_per_s", &PlanOutcome::samples_per_s},
    {"tokens_per_s", &PlanOutcome::tokens_per_s},
    {"compute", &PlanOutcome::compute},
    {"bubble", &PlanOutcome::bubble},
    {"exposed", &PlanOutcome::exposed},
    {"optimizer", &PlanOutcome::optimizer},
    {"filled", &PlanOutcome::filled},
    {"risk", &PlanOutcome::risk},
    {"operations", &PlanOutcome::operations},
    {"per_joule", &PlanOutcome::per_joule},
    {"per_million", &PlanOutcome::per_million},
    {"owned_per_million", &PlanOutcome::owned_per_million},
    {"total", &PlanOutcome::total}};

json json_of(const PlanOutcome& outcome) {
  if (!outcome.error.empty()) return {{"error", outcome.error}};
  json j{{"fits", outcome.fits}};
  for (const auto& [name, figure] : kFigures) j[name] = outcome.*figure;
  if (!outcome.memory_interval.empty()) j["memory_interval"] = outcome.memory_interval;
  j["doubt"] = outcome.doubt.figures();
  return j;
}

PlanOutcome outcome_of(const std::string& text) {
  PlanOutcome outcome;
  const json j = parse_json(text);
  if (j.contains("error")) {
    outcome.error = j.at("error");
    return outcome;
  }
  for (const auto& [name, figure] : kFigures) outcome.*figure = j.value(name, 0.0);
  outcome.fits = j.at("fits");
  if (j.contains("memory_interval")) outcome.memory_interval = j.at("memory_interval").get<std::vector<double>>();
  outcome.doubt = StepDoubt::from_figures(j.at("doubt"));
  return outcome;
}

}  // namespace

PlanOutcome outcome_of(const Scenario& s, const Result& r) {
  double exposed = 0;
  for (const auto& [group, seconds] : r.breakdown.exposed_communication) exposed += seconds;
  PlanOutcome outcome{r.step_time.value,
                      r.memory.peak.value,
                      r.mfu,
                      r.samples_per_s,
                      r.tokens_per_s,
                      r.breakdown.compute.value,
                      r.breakdown.bubble.value,
                      exposed,
                      r.breakdown.optimizer.value,
                      r.memory.capacity.value > 0 ? r.memory.peak.value / r.memory.capacity.value : 0,
                      step_doubt(s, r),
                      r.risk,
                      r.fits,
                      "",
                      0};
  const double units = r.tokens_per_s > 0 ? r.tokens_of_step() : r.samples_of_step();
  if (r.energy && r.energy->step() > 0) outcome.per_joule = units / r.energy->step();
  outcome.memory_interval = r.memory_interval;
  if (!r.money) return outcome;
  outcome.per_million = r.money->per_million;
  if (r.money->ownership) outcome.owned_per_million = r.money->ownership->per_million;
  if (r.money->ownership) outcome.total = r.money->ownership->total();
  return outcome;
}

PlanRunner::PlanRunner(const Scenario& scenario, const PlanSpace& space, Journal& journal, const std::string& changed)
    : space_(space), judges_(scenario, space), journal_(journal), key_(answer_key(scenario) + changed) {}

std::string PlanRunner::key_of(const PlanPoint& point) const { return answer_key(key_, space_.section(point)); }

PlanOutcome PlanRunner::simulate_plan(const PlanPoint& point) {
  try {
    const PlanJudges::Loan judge = judges_.lend();
    const Scenario s = judge->scenario(point);
    const Plan laid_out = plan(s, judge->share(s));
    double operations = 0;
    SimulateOptions options;
    options.after = [&operations](const StepRun& run) { operations = static_cast<double>(run.end.operations); };
    Result result = simulate_here(s, laid_out, options);
    if (result.fits) book_money(s, result);
    PlanOutcome outcome = outcome_of(s, result);
    outcome.operations = operations;
    return outcome;
  } catch (const UserError& e) {
    PlanOutcome failure;
    failure.error = e.what();
    return failure;
  }
}

std::vector<PlanOutcome> PlanRunner::outcomes(const std::vector<PlanPoint>& points,
                                              const std::function<void(const PlanOutcome&)>& done) {
  std::vector<std::string> keys;
  std::vector<std::size_t> open_points;
  for (const PlanPoint& point : points) {
    keys.push_back(key_of(point));
    if (outcome_of_key_.contains(keys.back())) continue;
    if (const std::optional<std::string> line = journal_.find(keys.back())) {
      outcome_of_key_[keys.back()] = outcome_of(*line);
      ++simulated_;
      continue;
    }
    outcome_of_key_[keys.back()].error = "interrupted";  // until its outcome is known
    open_points.push_back(keys.size() - 1);
  }
  in_parallel(
      open_points.size(), processors(), [&](std::size_t k) { return simulate_plan(points[open_points[k]]); },
      [&](std::size_t k, const PlanOutcome& outcome) {
        const std::string& key = keys[open_points[k]];
        outcome_of_key_[key] = outcome;
        journal_.add(key, json_text(json_of(outcome)));
        ++simulated_;
        if (done) done(outcome_of_key_[key]);
      });
  std::vector<PlanOutcome> all;
  for (const std::string& key : keys) {
    all.push_back(outcome_of_key_.at(key));
    if (all.back().error == "interrupted") outcome_of_key_.erase(key);
  }
  return all;
}

std::vector<double> PlanRunner::group_floors(const std::vector<PlanPoint>& groups,
                                             const std::function<void(std::size_t)>& done) {
  // One worker bounds all groups that differ only in micro-batch and stages. Those of equal micro-batch share a
  // network, and if a micro-batch does not fit, larger ones are left out.
  std::map<PlanGroup, std::vector<std::size_t>> families;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    PlanGroup family = groups[i];
    family.micro_batch = family.pipeline = 1;
    families[family].push_back(i);
  }
  std::vector<std::vector<std::size_t>> members;
  for (auto& [family, indices] : families) {
    sort_stably(indices, [&groups](auto a, auto b) { return groups[a].micro_batch < groups[b].micro_batch; });
    members.push_back(indices);
  }
  std::vector<double> floors(groups.size(), 0);  // 0: an interrupt left the group out
  in_parallel(
      members.size(), processors(),
      [&](std::size_t family) {
        std::vector<PlanPoint> points;
        for (const std::size_t i : members[family]) points.push_back(groups[i]);
        return judges_.lend()->group_floors(points);
      },
      [&](std::size_t family, const std::vector<double>& floors_of_family) {
        for (std::size_t k = 0; k < floors_of_family.size(); ++k) floors[members[family][k]] = floors_of_family[k];
        if (done) done(members[family].size());
      });
  return floors;
}

std::vector<std::vector<JudgedPlan>> PlanRunner::judge(const std::vector<PlanPoint>& groups) {
  std::vector<std::vector<JudgedPlan>> judged;
  for (auto& plans_of_group : in_parallel(groups.size(), processors(), [&](std::size_t i) {
         std::vector<JudgedPlan> all;
         const PlanJudges::Loan judge = judges_.lend();
         for (const PlanPoint& point : space_.points(groups[i])) all.push_back(judge->judge(point));
         return all;
       }))
    judged.push_back(plans_of_group ? std::move(*plans_of_group) : std::vector<JudgedPlan>());
  return judged;
}

std::vector<JudgedPlan> PlanRunner::judged_points(const std::vector<PlanPoint>& points) {
  std::vector<JudgedPlan> all;
  for (auto& plan :
       in_parallel(points.size(), processors(), [&](std::size_t i) { return judges_.lend()->judge(points[i]); }))
    all.push_back(plan ? std::move(*plan) : JudgedPlan{{}, 0, 0, "interrupted"});
  return all;
}

}  // namespace trainyard
