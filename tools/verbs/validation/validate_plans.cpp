#include "tools/verbs/validation/validate_plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/search/plan_accuracy.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

std::string goal_text(const PlanAccuracy& a) {
  std::string missed;
  if (a.rank < kPlanRankGoal) missed = "rank";
  if (a.near_best < a.groups.size()) missed += missed.empty() ? "regret" : ", regret";
  std::string text = missed.empty() ? "reached" : "missed: " + missed;
  if (!missed.empty() && !a.agrees()) text += " (measurements disagree)";
  return a.within_limits() ? text : text + "; FAILS its limit";
}

std::string accuracy_table(const std::vector<PlanAccuracy>& all) {
  TextTable table{{"family", "plans of", "groups", "plans", "rank", "regret", "worst", "within 3 %", "scatter", "goal"},
                  {false, false, true, true, true, true, true, true, true},
                  {}};
  for (const PlanAccuracy& a : all)
    table.rows.push_back({a.family, name_of(a.scope), fmt::format("{}", a.groups.size()), fmt::format("{}", a.plans),
                          fmt::format("{:.3f}", a.rank), percent(a.mean_regret), percent(a.worst_regret),
                          fmt::format("{} of {}", a.near_best, a.groups.size()), percent(a.scatter), goal_text(a)});
  return table.text();
}

/// Every plan of every group, the fastest measured one first.
std::string groups_text(const PlanAccuracy& a) {
  std::string text;
  for (const PlanChoiceGroup& group : a.groups) {
    text += fmt::format("{}, {}: rank {:.3f}, regret {}\n", a.family, name_of(a.scope), group.rank,
                        percent(group.regret()));
    TextTable table{{"", "us/token", "predicted", "run", "plan"}, {false, true, true}, {}};
    for (std::size_t i = 0; i < group.plans.size(); ++i) {
      const MeasuredPlan& plan = group.plans[i];
      table.rows.push_back({i == group.chosen ? "chosen" : "", fmt::format("{:.4g}", plan.measured * 1e6),
                            fmt::format("{:.4g}", plan.predicted * 1e6),
                            plan.runs > 1 ? fmt::format("{} ({} runs)", plan.id, plan.runs) : plan.id,
                            plan.plan + (plan.fits ? "" : "; does not fit as predicted")});
    }
    text += table.text("  ");
  }
  return text;
}

}  // namespace

int validate_plans(const std::string& json_file, bool points, const std::vector<std::string>& families) {
  const std::vector<MeasuredFamily> measured = measured_families("training", families);
  const std::vector<PlanAccuracy> all = plan_accuracy(measured, predict_training(measured), points);
  if (all.empty()) throw UserError("validate plans: these families have no two plans of one model and machine");
  if (json_file != "-") {
    fmt::print("plans of measured training runs (scenarios/measured/training): their order, and which one is chosen\n");
    for (const PlanAccuracy& a : all)
      if (points) fmt::print("{}\n", groups_text(a));
    fmt::print(
        "{}rank: Spearman's, of predicted and measured time a token; regret: how much longer than the best measured "
        "plan the "
        "plan takes that is predicted to be the fastest; scatter: how far the measurements disagree with each other\n"
        "goal: rank {}, and each regret within {}\n",
        accuracy_table(all), kPlanRankGoal, percent(kPlanRegretGoal));
  }
  if (!json_file.empty()) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const PlanAccuracy& a : all) {
      nlohmann::ordered_json object = nlohmann::ordered_json::object();
      plan_accuracy_fields().write(a, object);
      list.push_back(std::move(object));
    }
    write_atomically(json_file, json_text(nlohmann::ordered_json{{"families", std::move(list)}}, 2) + "\n");
  }
  const auto passes = [](const PlanAccuracy& a) { return a.within_limits(); };
  return std::all_of(all.begin(), all.end(), passes) ? kGood : kFailsLimit;
}

}  // namespace trainyard
