#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "models/fitted/measured_table.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "sim/error.hpp"
#include "sim/process/parallel.hpp"
#include "tools/verbs/validation/validation.hpp"

namespace trainyard {
namespace {

/// A published step, and the scenario that answers it.
struct PublishedStep {
  std::string model, chip, chips, precision, published, scenario, source;
  std::string refused = {};  ///< why no scenario can be laid out; "": the step is answered
};

std::vector<PublishedStep> published_steps() {
  MeasuredTable table(shipped_file("scenarios/measured/tables/published_2026.csv"),
                      {"model", "chip", "chips", "precision", "value", "unit", "scenario", "source"});
  std::vector<PublishedStep> steps;
  while (table.next())
    steps.push_back({table.text("model"), table.text("chip"), table.text("chips"), table.text("precision"),
                     table.text("value") + " " + table.text("unit"), table.text("scenario"), table.text("source")});
  return steps;
}

/// Lays the scenario out. A step without one has the reason in its place, after "refused: ".
std::string refusal_of(const PublishedStep& step) {
  if (constexpr std::string_view refused = "refused: "; step.scenario.starts_with(refused))
    return step.scenario.substr(refused.size());
  try {
    plan(read_scenario(shipped_file(step.scenario)));
    return "";
  } catch (const UserError& e) {
    return e.what();
  }
}

/// The file of a scenario, which is that of its family.
std::string file_of(const PublishedStep& step) { return step.scenario.substr(0, step.scenario.find('@')); }

}  // namespace

int validate_answered(const ValidationRequest& request) {
  std::vector<PublishedStep> steps = published_steps();
  const std::vector<std::string> refusals =
      all_in_parallel(steps.size(), processors(), [&](std::size_t i) { return refusal_of(steps[i]); });
  std::map<std::string, std::pair<int, int>> families;  // numbers of steps, and of those answered
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  TextTable points{"model", "chip", ">chips", "precision", ">published", "answered by, or refused because"};
  TextTable refused_steps{"model", "chip", ">chips", "precision", "refused because"};
  int answered = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    PublishedStep& step = steps[i];
    step.refused = refusals[i];
    const bool has_answer = step.refused.empty();
    answered += has_answer ? 1 : 0;
    auto& [all, with_answer] = families[file_of(step)];
    ++all;
    with_answer += has_answer ? 1 : 0;
    points.rows.push_back({step.model, step.chip, step.chips, step.precision, step.published,
                           has_answer ? step.scenario : "refused: " + step.refused});
    if (!has_answer) refused_steps.rows.push_back({step.model, step.chip, step.chips, step.precision, step.refused});
    rows.push_back({{"model", step.model},
                    {"chip", step.chip},
                    {"chips", step.chips},
                    {"precision", step.precision},
                    {"published", step.published},
                    {"scenario", step.scenario},
                    {"source", step.source},
                    {"refused", step.refused}});
  }
  TextTable by_family{"scenarios", ">published steps", ">answered"};
  for (const auto& [file, counts] : families)
    by_family.rows.push_back({file, fmt::format("{}", counts.first), fmt::format("{}", counts.second)});
  const int refused = static_cast<int>(steps.size()) - answered;
  std::string text = fmt::format(
      "{} published steps of 2022 to 2026: {} answered, {} refused (answered: the scenario of the step can be laid "
      "out; `run FILE@ROW` predicts one, and the sets that the files belong to compare all)\n{}",
      steps.size(), answered, refused, by_family.text());
  if (refused > 0) text += refused_steps.text();
  if (request.points) text += points.text();
  report(request, text,
         {{"published", steps.size()}, {"answered", answered}, {"refused", refused}, {"steps", std::move(rows)}});
  return kGood;
}

}  // namespace trainyard
