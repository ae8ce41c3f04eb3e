#include "scenarios/src/search/plan_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <tuple>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "scenarios/src/studies/sweeps/answer_key.hpp"
#include "sim/json_text.hpp"
#include "sim/process/child.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

constexpr std::pair<const char*, double PlanOutcome::*> kFigures[] = {{"step_time", &PlanOutcome::step_time},
                                                                      {"peak", &PlanOutcome::peak},
                                                                      {"mfu", &PlanOutcome::mfu},
                                                                      {"samples_per_s", &PlanOutcome::samples_per_s},
                                                                      {"tokens_per_s", &PlanOutcome::tokens_per_s},
                                                                      {"compute", &PlanOutcome::compute},
                                                                      {"bubble", &PlanOutcome::bubble},
                                                                      {"exposed", &PlanOutcome::exposed},
                                                                      {"optimizer", &PlanOutcome::optimizer},
                                                                      {"filled", &PlanOutcome::filled},
                                                                      {"operations", &PlanOutcome::operations}};

json json_of(const PlanOutcome& outcome) {
  if (!outcome.error.empty()) return {{"error", outcome.error}};
  json j{{"fits", outcome.fits}};
  for (const auto& [name, figure] : kFigures) j[name] = outcome.*figure;
  return j;
}

PlanOutcome outcome_of(const std::string& text) {
  PlanOutcome outcome;
  const json j = parse_json(text);
  if (j.contains("error")) {
    outcome.error = j.at("error");
    return outcome;
  }
  for (const auto& [name, figure] : kFigures) outcome.*figure = j.at(name);
  outcome.fits = j.at("fits");
  return outcome;
}

json json_of(const JudgedPlan& plan) {
  if (!plan.error.empty()) return plan.error;
  return json::array({plan.memory.peak.value, plan.memory.exact, plan.floor, plan.tasks});
}

JudgedPlan judged_of(const json& j) {
  JudgedPlan plan;
  if (j.is_string()) {
    plan.error = j;
    return plan;
  }
  plan.memory = {Bytes{j.at(0)}, j.at(1)};
  plan.floor = j.at(2);
  plan.tasks = j.at(3);
  return plan;
}

}  // namespace

PlanOutcome outcome_of(const Result& r) {
  double exposed = 0;
  for (const auto& [group, seconds] : r.breakdown.exposed_communication) exposed += seconds;
  return {r.step_time,
          r.memory.peak,
          r.mfu,
          r.samples_per_s,
          r.tokens_per_s,
          r.breakdown.compute,
          r.breakdown.bubble,
          exposed,
          r.breakdown.optimizer,
          r.memory.capacity > 0 ? r.memory.peak / r.memory.capacity : 0,
          r.fits,
          "",
          0};
}

PlanRunner::PlanRunner(const Scenario& scenario, const PlanSpace& space, Journal& journal, const std::string& changed)
    : space_(space), judge_(scenario, space), journal_(journal), key_(answer_key(scenario) + changed) {}

std::string PlanRunner::key_of(const PlanPoint& point) const { return answer_key(key_, space_.section(point)); }

std::string PlanRunner::simulated_text(const PlanPoint& point) {
  try {
    const Scenario s = judge_.scenario(point);
    const Plan laid_out = plan(s, judge_.share(s));
    return in_child([&] {
      double operations = 0;
      SimulateOptions options;
      options.critical_path = false;
      options.after = [&operations](const StepRun& run) { operations = static_cast<double>(run.end.operations); };
      PlanOutcome outcome = outcome_of(simulate_here(s, laid_out, options));
      outcome.operations = operations;
      return json_text(json_of(outcome));
    });
  } catch (const UserError& e) {
    PlanOutcome none;
    none.error = e.what();
    return json_text(json_of(none));
  }
}

std::vector<PlanOutcome> PlanRunner::outcomes(const std::vector<PlanPoint>& points,
                                              const std::function<void(const PlanOutcome&)>& done) {
  std::vector<std::string> keys;
  std::vector<std::size_t> open;
  for (const PlanPoint& point : points) {
    keys.push_back(key_of(point));
    if (known_.contains(keys.back())) continue;
    if (const std::optional<std::string> line = journal_.find(keys.back())) {
      known_[keys.back()] = outcome_of(*line);
      ++simulated_;
      continue;
    }
    known_[keys.back()].error = "interrupted";  // until it is known
    open.push_back(keys.size() - 1);
  }
  in_workers(
      open.size(), processors(), [&](std::size_t k) { return simulated_text(points[open[k]]); },
      [&](std::size_t k, const std::string& text) {
        const std::string& key = keys[open[k]];
        known_[key] = outcome_of(text);
        journal_.add(key, text);
        ++simulated_;
        if (done) done(known_[key]);
      });
  std::vector<PlanOutcome> all;
  for (const std::string& key : keys) {
    all.push_back(known_.at(key));
    if (all.back().error == "interrupted") known_.erase(key);
  }
  return all;
}

std::vector<double> PlanRunner::group_floors(const std::vector<PlanPoint>& groups,
                                             const std::function<void(std::size_t)>& done) {
  // Of one network but for the micro-batch: worker by worker.
  std::map<std::tuple<int, int, int, int, bool, std::string>, std::vector<std::size_t>> families;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const PlanPoint& g = groups[i];
    families[{g.tensor, g.context, g.expert, g.expert_tensor, g.sequence, g.recompute}].push_back(i);
  }
  std::vector<std::vector<std::size_t>> members;
  for (auto& [family, of] : families) {
    std::stable_sort(of.begin(), of.end(),
                     [&groups](auto a, auto b) { return groups[a].micro_batch < groups[b].micro_batch; });
    members.push_back(of);
  }
  std::vector<double> floors(groups.size(), 0);  // of those that an interrupt leaves out
  in_workers(
      members.size(), processors(),
      [&](std::size_t family) {
        std::vector<PlanPoint> points;
        for (const std::size_t i : members[family]) points.push_back(groups[i]);
        return fmt::format("{}", fmt::join(judge_.group_floors(points), " "));
      },
      [&](std::size_t family, const std::string& text) {
        std::istringstream words(text);
        std::string word;
        for (const std::size_t i : members[family])
          if (words >> word) floors[i] = std::stod(word);
        if (done) done(members[family].size());
      });
  return floors;
}

std::vector<std::vector<JudgedPlan>> PlanRunner::judged(const std::vector<PlanPoint>& groups) {
  const std::vector<std::string> texts = in_workers(groups.size(), processors(), [&](std::size_t i) {
    json all = json::array();
    for (const PlanPoint& point : space_.points(groups[i])) all.push_back(json_of(judge_.judge(point)));
    return json_text(all);
  });
  std::vector<std::vector<JudgedPlan>> judged;
  for (const std::string& text : texts) {
    std::vector<JudgedPlan>& of_group = judged.emplace_back();
    if (text.empty()) continue;
    for (const json& plan : parse_json(text)) of_group.push_back(judged_of(plan));
  }
  return judged;
}

std::vector<JudgedPlan> PlanRunner::judged_points(const std::vector<PlanPoint>& points) {
  std::vector<JudgedPlan> all;
  for (const std::string& text : in_workers(points.size(), processors(),
                                            [&](std::size_t i) { return json_text(json_of(judge_.judge(points[i]))); }))
    all.push_back(text.empty() ? JudgedPlan{{}, 0, 0, "interrupted"} : judged_of(parse_json(text)));
  return all;
}

}  // namespace trainyard
