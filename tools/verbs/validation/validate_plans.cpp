#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/search/plan_accuracy.hpp"
#include "sim/error.hpp"
#include "tools/verbs/validation/validation.hpp"

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
  TextTable table{"family",  "plans of", ">groups",     ">plans",   ">rank",
                  ">regret", ">worst",   ">within 3 %", ">scatter", "goal"};
  for (const PlanAccuracy& a : all)
    table.rows.push_back({a.family, name_of(a.scope), fmt::format("{}", a.groups.size()), fmt::format("{}", a.plans),
                          fmt::format("{:.3f}", a.rank), percent(a.mean_regret), percent(a.worst_regret),
                          fmt::format("{} of {}", a.near_best, a.groups.size()), percent(a.scatter), goal_text(a)});
  return table.text();
}

/// A table of every plan of every group. The plan with the fastest measured step is first.
std::string groups_text(const PlanAccuracy& a) {
  std::string text;
  for (const PlanChoiceGroup& group : a.groups) {
    text += fmt::format("{}, {}: rank {:.3f}, regret {}\n", a.family, name_of(a.scope), group.rank,
                        percent(group.regret()));
    TextTable table{"", ">us/token", ">predicted", "run", "plan"};
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

int validate_plans(const ValidationRequest& request) {
  const std::vector<MeasuredFamily> measured = measured_families({"training"}, request.families);
  const std::vector<PlanAccuracy> all = plan_accuracy(measured, predict_families(measured), request.points);
  if (all.empty()) throw UserError("validate plans: these families have no two plans of one model and machine");
  std::string text =
      "plans of measured training runs (scenarios/measured/training): their order, and which one is chosen\n";
  if (request.points)
    for (const PlanAccuracy& a : all) text += groups_text(a) + "\n";
  text += accuracy_table(all) +
          fmt::format(
              "rank: Spearman's correlation of predicted and measured time a token; regret: how much longer the plan "
              "with the shortest predicted step takes than the fastest measured plan; scatter: how far the "
              "measurements disagree with each other\ngoal: rank {}, and each regret within {}\n",
              kPlanRankGoal, percent(kPlanRegretGoal));
  report(request, text, plan_accuracy_fields().json(all));
  return std::ranges::all_of(all, &PlanAccuracy::within_limits) ? kGood : kFailsLimit;
}

}  // namespace trainyard
