#include "scenarios/src/studies/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "models/reading/document_text.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "sim/process/parallel.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

std::map<std::string, double> parts_of_step(const Result& r) {
  if (r.post_training) {
    const std::vector<std::pair<std::string, double>> parts = parts_of_loop(*r.post_training);
    return {parts.begin(), parts.end()};
  }
  const Result::Breakdown& b = r.breakdown;
  std::map<std::string, double> parts{{"compute", b.compute.value}, {"compression", b.compression.value},
                                      {"bubble", b.bubble.value},   {"optimizer", b.optimizer.value},
                                      {"input", b.input.value},     {"framework", b.framework.value},
                                      {"other", b.other.value}};
  for (const auto& [group, seconds] : b.exposed_communication) parts["exposed " + group] = seconds;
  return parts;
}

std::vector<FieldRow> comparison_rows() {
  std::vector<FieldRow> rows{{"scenarios", "list", "the answer to each scenario, as run gives it", ""}};
  for (FieldRow row : result_fields().rows()) {
    row.path = "scenarios[]." + row.path;
    rows.push_back(row);
  }
  rows.push_back({"differences", "list", "fields whose values differ between the scenarios", ""});
  rows.push_back({"differences[].path", "text", "path of the field", ""});
  rows.push_back(
      {"differences[].values", "list", "value in each scenario, as YAML; null: the scenario does not set it", ""});
  rows.push_back({"changes", "list", "changes of each scenario but the first, relative to the first", ""});
  rows.push_back(
      {"changes[].step_time_share", "share",
       "increase of the step time, as a share of the first scenario's step time; of loops: of the loop's step",
       "unless only one of the two has post_training"});
  rows.push_back({"changes[].slower_probability", "share",
                  "probability that it is in truth slower than the first; errors that both share cancel",
                  "if both have an interval, and no post_training"});
  rows.push_back({"changes[].breakdown_s", "{part: s}",
                  "parts of the step that differ, as differences from the first scenario; of loops: of the loop's step",
                  ""});
  return rows;
}

const RegisterJsonReference comparison_reference{"compare", "scenarios side by side", comparison_rows};

}  // namespace

Comparison compare_scenarios(const std::vector<Scenario>& scenarios) {
  Comparison comparison;
  std::map<std::string, Comparison::Difference> fields;
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    for (const auto& [path, value] : flat_fields(scenarios[i].document)) {
      Comparison::Difference& field = fields[path];
      field.path = path;
      field.values.resize(scenarios.size());
      field.values[i] = value;
    }
  }
  for (const auto& [path, field] : fields)
    if (std::any_of(field.values.begin(), field.values.end(), [&](const auto& v) { return v != field.values.front(); }))
      comparison.differences.push_back(field);
  comparison.results = all_in_parallel(scenarios.size(), processors(),
                                       [&scenarios](std::size_t i) { return answer(scenarios[i]).result; });
  for (Result& result : comparison.results) result.wall_s = {};  // equal input has equal answers
  for (std::size_t i = 0; i < scenarios.size(); ++i)
    comparison.doubts.push_back(step_doubt(scenarios[i], comparison.results[i]));
  return comparison;
}

std::optional<double> Comparison::slower(std::size_t scenario) const {
  const StepDoubt &first = doubts.front(), &other = doubts[scenario];
  if (scenario == 0 || !first.exists() || !other.exists()) return std::nullopt;
  if (results.front().post_training || results[scenario].post_training) return std::nullopt;
  return probability_of_longer(results.front().step_time.value, first, results[scenario].step_time.value, other);
}

std::optional<double> Comparison::change_of_step(std::size_t scenario) const {
  const Result &first = results.front(), &other = results[scenario];
  if (scenario == 0 || first.post_training.has_value() != other.post_training.has_value()) return std::nullopt;
  return relative_change(first.whole_step().value, other.whole_step().value);
}

std::vector<std::pair<std::string, double>> parts_of_loop(const PostTrainingResult& r) {
  std::vector<std::pair<std::string, double>> parts{
      {"generation", r.generation.value}, {"log-probabilities", r.log_probabilities.value},
      {"training", r.training.value},     {"weights to engines", r.weights.value},
      {"reload", r.reload.value},         {"loop", r.loop.value}};
  parts.emplace_back("hidden", 0 - r.hidden.value);
  return parts;
}

std::vector<std::pair<std::string, double>> changed_parts(const Result& first, const Result& second) {
  if (first.post_training.has_value() != second.post_training.has_value()) return {};
  std::map<std::string, double> parts = parts_of_step(second);
  for (const auto& [name, seconds] : parts_of_step(first)) parts[name] -= seconds;
  std::vector<std::pair<std::string, double>> changed(parts.begin(), parts.end());
  std::erase_if(changed,
                [&first](const auto& part) { return std::abs(part.second) < 5e-4 * first.whole_step().value; });
  sort_stably(changed, [](const auto& a, const auto& b) { return std::abs(a.second) > std::abs(b.second); });
  return changed;
}

nlohmann::ordered_json comparison_json(const Comparison& comparison) {
  using nlohmann::ordered_json;
  ordered_json scenarios = ordered_json::array(), differences = ordered_json::array(), changes = ordered_json::array();
  for (std::size_t i = 0; i < comparison.results.size(); ++i) {
    const Result& r = comparison.results[i];
    result_fields().write(r, scenarios.emplace_back(ordered_json::object()));
    if (i == 0) continue;
    const Result& first = comparison.results.front();
    ordered_json parts = ordered_json::object();
    for (const auto& [name, seconds] : changed_parts(first, r)) parts[name] = seconds;
    changes.push_back({{"breakdown_s", parts}});
    if (const std::optional<double> change = comparison.change_of_step(i)) changes.back()["step_time_share"] = *change;
    if (const std::optional<double> slower = comparison.slower(i)) changes.back()["slower_probability"] = *slower;
  }
  for (const Comparison::Difference& difference : comparison.differences) {
    ordered_json values = ordered_json::array();
    for (const std::string& value : difference.values)
      values.push_back(value.empty() ? ordered_json() : ordered_json(value));
    differences.push_back({{"path", difference.path}, {"values", values}});
  }
  return {{"scenarios", scenarios}, {"differences", differences}, {"changes", changes}};
}

}  // namespace trainyard
