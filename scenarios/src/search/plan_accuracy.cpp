#include "scenarios/src/search/plan_accuracy.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "models/reading/document_text.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/search/plan_question.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

/// A run and the keys by which it is compared.
struct ComparedRun {
  std::string plan;  ///< its scenario as text
  std::string line;  ///< the scenario as text without its micro-batch size
  std::int64_t micro_batch = 1;
  MeasuredPlan run;
};

void erase_key(Node& map, std::string_view key) {
  std::erase_if(map.fields, [key](const auto& field) { return field.first == key; });
}

/// Returns the part of a scenario that all plans of a group share, as text.
std::string group_key(Node document, PlanScope scope) {
  Node& plan = *document.find("plan");
  plan = without_choices(plan);
  if (scope == PlanScope::any_batch) erase_key(plan, "global_batch_size");
  return yaml_text(document);
}

ComparedRun compared_run(const Node& document, const RunPrediction& run) {
  ComparedRun result;
  result.plan = yaml_text(document);
  Node line = document;
  Node& plan = *line.find("plan");
  if (const Node* size = plan.find("micro_batch_size")) result.micro_batch = parse_integer(size->scalar);
  erase_key(plan, "micro_batch_size");
  result.line = yaml_text(line);
  result.run = {run.id, "", 1, run.step_time / run.tokens, run.measured.step_time.value / run.tokens, run.fits};
  return result;
}

/// Returns the largest spread of the repetitions of a plan: slowest / fastest − 1.
double spread_of_repetitions(const std::vector<ComparedRun>& runs) {
  std::map<std::string, std::pair<double, double>> extremes;
  for (const ComparedRun& run : runs) {
    const auto [entry, is_new] = extremes.try_emplace(run.plan, run.run.measured, run.run.measured);
    entry->second.first = std::min(entry->second.first, run.run.measured);
    entry->second.second = std::max(entry->second.second, run.run.measured);
  }
  double spread = 0;
  for (const auto& [plan, times] : extremes) spread = std::max(spread, times.second / times.first - 1);
  return spread;
}

/// Returns the largest share by which a micro-batch size is slower than both the fastest smaller and the fastest larger
/// size of the same plan.
double peak_between_sizes(const std::vector<ComparedRun>& runs) {
  std::map<std::string, std::map<std::int64_t, double>> lines;
  for (const ComparedRun& run : runs) lines[run.line][run.micro_batch] = run.run.measured;
  double peak = 0;
  for (const auto& [line, times] : lines) {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    std::vector<double> fastest_after(times.size() + 1, kNone);
    std::size_t i = times.size();
    for (auto position = times.rbegin(); position != times.rend(); ++position, --i)
      fastest_after[i - 1] = std::min(fastest_after[i], position->second);
    double fastest_before = kNone;
    i = 0;
    for (const auto& [size, time] : times) {
      peak = std::max(peak, time / std::max(fastest_before, fastest_after[++i]) - 1);
      fastest_before = std::min(fastest_before, time);
    }
  }
  return peak;
}

/// Merges runs of the same plan.
std::vector<MeasuredPlan> plans_of(const std::vector<ComparedRun>& runs) {
  std::vector<MeasuredPlan> plans;
  std::map<std::string, std::size_t> number_of_plan;
  for (const ComparedRun& run : runs) {
    const auto [entry, is_new] = number_of_plan.try_emplace(run.plan, plans.size());
    if (is_new) {
      plans.push_back(run.run);
      continue;
    }
    MeasuredPlan& plan = plans[entry->second];
    const auto run_count = static_cast<double>(++plan.runs);
    plan.predicted += (run.run.predicted - plan.predicted) / run_count;
    plan.measured += (run.run.measured - plan.measured) / run_count;
  }
  sort_stably(plans, [](const auto& a, const auto& b) { return a.measured < b.measured; });
  return plans;
}

PlanChoiceGroup group_of(std::vector<MeasuredPlan> plans) {
  PlanChoiceGroup group;
  group.plans = std::move(plans);
  std::vector<MeasuredPoint> points;
  for (const MeasuredPlan& plan : group.plans) points.push_back({plan.id, plan.predicted, plan.measured});
  group.rank = error_set("", std::move(points)).rank_correlation;
  const auto is_better = [](const MeasuredPlan& a, const MeasuredPlan& b) {
    return std::tuple(!a.fits, a.predicted) < std::tuple(!b.fits, b.predicted);
  };
  group.chosen = static_cast<std::size_t>(std::ranges::min_element(group.plans, is_better) - group.plans.begin());
  return group;
}

PlanAccuracy accuracy_of(const MeasuredFamily& family, const FamilyPrediction& prediction, PlanScope scope) {
  PlanAccuracy accuracy;
  accuracy.family = family.name;
  accuracy.scope = scope;
  accuracy.limits = family.limits;
  std::vector<std::vector<ComparedRun>> groups;
  std::map<std::string, std::size_t> number_of_group;
  for (std::size_t row = 0; row < prediction.runs.size(); ++row) {
    if (!prediction.runs[row].refused.empty()) continue;
    Node document = family.scenario(row);
    erase_key(document, "measured");
    const auto [entry, is_new] = number_of_group.try_emplace(group_key(document, scope), groups.size());
    if (is_new) groups.emplace_back();
    groups[entry->second].push_back(compared_run(document, prediction.runs[row]));
  }
  double weights = 0, ranks = 0;
  for (const std::vector<ComparedRun>& runs : groups) {
    accuracy.scatter = std::max({accuracy.scatter, spread_of_repetitions(runs), peak_between_sizes(runs)});
    std::vector<MeasuredPlan> plans = plans_of(runs);
    if (plans.size() < 2) continue;
    const PlanChoiceGroup& group = accuracy.groups.emplace_back(group_of(std::move(plans)));
    const auto weight = static_cast<double>(group.plans.size() - 1);
    weights += weight;
    ranks += group.rank * weight;
    accuracy.plans += group.plans.size();
    accuracy.mean_regret += group.regret();
    accuracy.worst_regret = std::max(accuracy.worst_regret, group.regret());
    accuracy.near_best += group.regret() <= kPlanRegretGoal ? 1 : 0;
  }
  if (accuracy.groups.empty()) return accuracy;
  accuracy.rank = ranks / weights;
  accuracy.mean_regret /= static_cast<double>(accuracy.groups.size());
  return accuracy;
}

void describe_plans(const MeasuredFamily& family, PlanAccuracy& accuracy) {
  for (PlanChoiceGroup& group : accuracy.groups)
    for (MeasuredPlan& plan : group.plans) {
      const Scenario s = read_scenario(family.scenario(family.row(plan.id)), plan.id);
      plan.plan = words_of(point_of(s), s.plan.mesh.data, s.plan.context_exchange_in_words());
      if (accuracy.scope == PlanScope::any_batch) plan.plan += ", batch " + std::to_string(s.global_batch_size);
    }
}

JsonFields<MeasuredPlan> measured_plan_fields() {
  using P = MeasuredPlan;
  return JsonFields<P>()
      .value("id", "", &P::id, "id of the first of its measured runs")
      .value("plan", "", &P::plan, "the plan in words")
      .value("runs", "", &P::runs, "number of measured runs of the plan")
      .value("predicted_s_per_token", "s", &P::predicted, "predicted time per token")
      .value("measured_s_per_token", "s", &P::measured, "measured time per token, mean of its runs")
      .value("fits", "", &P::fits, "whether the step fits into memory by the prediction");
}

JsonFields<PlanChoiceGroup> choice_group_fields() {
  using G = PlanChoiceGroup;
  return JsonFields<G>()
      .value("rank_correlation", "", &G::rank, "Spearman's correlation of predicted and measured time per token")
      .value("regret", "share", &G::regret,
             "measured time of the plan with the fastest prediction over that of the best plan, minus 1")
      .value(
          "best", "", [](const G& g) { return g.plans.front().id; }, "id of the fastest measured plan")
      .value(
          "chosen", "", [](const G& g) { return g.plans[g.chosen].id; },
          "id of the plan with the fastest prediction that fits")
      .list("plans", &G::plans, measured_plan_fields(), "measured plans, the fastest first");
}

JsonFields<PlanAccuracy> family_fields() {
  using A = PlanAccuracy;
  return JsonFields<A>()
      .value("family", "", &A::family, "measured runs of one source")
      .value(
          "scope", "", [](const A& a) { return std::string(name_of(a.scope)); },
          "one batch: plans of equal batch are compared; any batch: plans of all batches, by their time per token")
      .value(
          "groups", "", [](const A& a) { return std::uint64_t{a.groups.size()}; },
          "number of groups of plans to choose from, each of one model and machine (and batch)")
      .value("plans", "", &A::plans, "number of plans in the groups")
      .value("rank_correlation", "", &A::rank,
             "mean of the groups' Spearman correlations, weighted by their number of plans minus one")
      .value("mean_regret", "share", &A::mean_regret, "mean regret of the groups")
      .value("worst_regret", "share", &A::worst_regret, "largest regret of the groups")
      .value("near_best", "", &A::near_best, "number of groups with a regret of at most 3 %")
      .value("scatter", "share", &A::scatter,
             "disagreement of the measurements themselves: between repetitions, and at micro-batch sizes slower "
             "than both a smaller and a larger one")
      .value("reaches_goals", "", &A::reaches_goals,
             "the rank correlation is at least 0.9, and every regret at most 3 %")
      .value("pass", "", &A::within_limits, "the errors are within the limits of the family's file")
      .list("by_group", &A::groups, choice_group_fields(), "every group")
      .when([](const A& a) { return !a.groups.empty() && !a.groups.front().plans.front().plan.empty(); },
            "with --points");
}

const RegisterJsonReference plan_accuracy_json{"validate plans", "quality of the choice of plans, by family",
                                               plan_accuracy_fields};

}  // namespace

const char* name_of(PlanScope scope) { return scope == PlanScope::one_batch ? "one batch" : "any batch"; }

bool PlanAccuracy::agrees() const { return scatter <= kPlanRegretGoal; }
bool PlanAccuracy::reaches_goals() const { return rank >= kPlanRankGoal && near_best == groups.size(); }
bool PlanAccuracy::within_limits() const {
  return scope == PlanScope::any_batch || ((limits.plan_rank == 0 || rank >= limits.plan_rank) &&
                                           (limits.plan_regret == 0 || mean_regret <= limits.plan_regret));
}

std::vector<PlanAccuracy> plan_accuracy(const std::vector<MeasuredFamily>& families,
                                        const std::vector<FamilyPrediction>& predictions, bool words) {
  std::vector<PlanAccuracy> all;
  for (std::size_t f = 0; f < families.size(); ++f) {
    std::size_t compared = 0;
    for (const PlanScope scope : {PlanScope::one_batch, PlanScope::any_batch}) {
      PlanAccuracy accuracy = accuracy_of(families[f], predictions[f], scope);
      std::size_t pairs = 0;
      for (const PlanChoiceGroup& group : accuracy.groups) pairs += group.plans.size() * (group.plans.size() - 1) / 2;
      if (pairs <= compared) continue;
      compared = pairs;
      if (words) describe_plans(families[f], accuracy);
      all.push_back(std::move(accuracy));
    }
  }
  return all;
}

const JsonFields<std::vector<PlanAccuracy>>& plan_accuracy_fields() {
  static const auto fields = JsonFields<std::vector<PlanAccuracy>>().list(
      "families", std::identity{}, family_fields(), "families of measured runs that have plans to choose from");
  return fields;
}

}  // namespace trainyard
