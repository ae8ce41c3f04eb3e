#include "tools/serving/what_if_page.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "tools/reports/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/fitted/measured_family.hpp"
#include "models/reading/document_text.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/pictures/run_pictures.hpp"
#include "scenarios/src/reading/scenario_fields.hpp"
#include "scenarios/src/studies/answer.hpp"
#include "sim/json_text.hpp"
#include "tools/reports/html_page.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

struct PageRequest {
  std::string scenario, want;
  Overrides set;
};

PageRequest request_in(const std::string& text) {
  constexpr std::size_t most_changes = 100;
  try {
    const nlohmann::json j = parse_json(text);
    PageRequest request{j.at("scenario"), j.at("want"), {}};
    for (const nlohmann::json& change : j.at("set")) request.set.emplace_back(change.at(0), change.at(1));
    if (request.set.size() <= most_changes) return request;
  } catch (const nlohmann::json::exception&) {
  }
  throw UserError("a request with scenario, set and want expected");
}

/// Returns true if the value is a number, a quantity or a switch. Such a value names no file.
bool is_plain_value(const std::string& value) {
  constexpr std::size_t most = 64;
  if (value.empty() || value.size() > most) return false;
  if (value == "true" || value == "false") return true;
  const std::string_view begin = "0123456789+-.";
  if (begin.find(value.front()) == std::string_view::npos || value.find("..") != std::string::npos) return false;
  for (const char* extension : {".yaml", ".yml", ".json"})
    if (value.ends_with(extension)) return false;
  return std::ranges::all_of(value, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ' ' || c == '.' ||
           c == '+' || c == '-' || c == '/' || c == '%';
  });
}

/// Returns true if the page offers the field: it has a single value, which names no file. Of the hardware, the page
/// offers only rates of links and of memory.
bool is_offered(const ScenarioField& field) {
  if (!field.choices.empty()) return true;
  if (field.type.empty() || field.type == "text" || field.type == "a name") return false;
  const bool of_hardware = field.path.starts_with("cluster.") && field.path != "cluster.nodes";
  return !of_hardware || field.type.starts_with("a rate such as 400");
}

std::vector<ScenarioField> offered_fields(const AskedFields& asked) {
  std::vector<ScenarioField> fields = scenario_fields(asked);
  std::erase_if(fields, [](const ScenarioField& field) { return !is_offered(field); });
  return fields;
}

void require_offered(const Overrides& set, const std::vector<ScenarioField>& fields) {
  std::vector<std::string> paths;
  for (const ScenarioField& field : fields) paths.push_back(field.path);
  for (const auto& [path, value] : set) {
    const auto found = std::ranges::find(paths, path);
    if (found == paths.end())
      throw UserError(fmt::format("{}: not among the fields of this page{}", path, hint(path, paths)));
    const std::vector<std::string>& choices = fields[static_cast<std::size_t>(found - paths.begin())].choices;
    const bool named = std::ranges::any_of(choices, [&](const auto& c) { return same_name(c, value); });
    if (named || (choices.empty() && is_plain_value(value))) continue;
    throw UserError(choices.empty() ? fmt::format("{}: \"{}\": a number with its unit expected", path, value)
                                    : fmt::format("{}: unknown value \"{}\"{}", path, value, hint(value, choices)));
  }
}

ordered_json controls_of(const std::vector<ScenarioField>& fields) {
  ordered_json controls = ordered_json::array();
  for (const ScenarioField& f : fields)
    controls.push_back(
        {{"path", f.path}, {"type", f.type}, {"value", f.value}, {"fallback", f.fallback}, {"choices", f.choices}});
  return controls;
}

/// Judges the task's start with the changes of the page. Throws UserError for changes that the task does not allow.
ordered_json answer_to_task(const PageRequest& request, const Task& task, const ServedTasks& tasks) {
  for (const auto& [path, value] : request.set) require_change(task, path, value, is_plain_value);
  Node document = task.start;
  for (const auto& [path, value] : request.set) set_field(document, path, value);
  const std::string text = yaml_text(document);
  if (request.want == "scenario") return {{"yaml", text}};
  if (request.want != "answer") throw UserError("want: answer or scenario expected of a task");
  ordered_json answer = tasks.judge(task, text);
  const AskedFields asked;
  read_scenario(document, request.scenario);
  answer["controls"] = controls_of(fields_of_task(task, document, offered_fields(asked)));
  return answer;
}

/// Removes the number of replicas from the document if the page changes the number of devices or another parallel axis.
/// Then the number of replicas follows from these.
Node with_derived_replicas(Node document, const Overrides& set) {
  const auto changes = [&set](std::string_view path) {
    return std::ranges::any_of(set, [path](const auto& change) { return change.first.starts_with(path); });
  };
  Node* plan = document.find("plan");
  Node* data_parallel = plan ? plan->find("data_parallel") : nullptr;
  const bool sized = changes("cluster.node") || changes("plan.tensor_parallel") || changes("plan.pipeline_parallel") ||
                     changes("plan.context_parallel");
  if (!data_parallel || !sized || changes("plan.data_parallel.size")) return document;
  if (data_parallel->kind == Node::Kind::scalar)
    *data_parallel = Node::empty_map(data_parallel->place);
  else
    std::erase_if(data_parallel->fields, [](const auto& field) { return field.first == "size"; });
  return document;
}

ordered_json answer_to(const PageRequest& request, const ServedScenarios& scenarios, const ServedTasks& tasks,
                       const std::string& prices) {
  if (const Task* task = tasks.find(request.scenario)) return answer_to_task(request, *task, tasks);
  const auto found = scenarios.find(request.scenario);
  if (found == scenarios.end()) throw UserError("unknown scenario: choose one of the page's list");
  Node document = read_scenario_document(found->second);
  if (!prices.empty()) set_field(document, "prices", prices);
  if (!request.set.empty()) {
    const AskedFields asked;
    read_scenario(document, request.scenario);
    require_offered(request.set, offered_fields(asked));
  }
  const AskedFields asked;
  const Scenario scenario = read_scenario(with_derived_replicas(document, request.set), request.scenario, request.set);
  const std::vector<ScenarioField> fields = offered_fields(asked);
  if (request.want == "scenario")
    return {{"yaml", fmt::format("# {}, changed on the page of `trainyard serve`.\n", request.scenario) +
                         yaml_text(scenario.document)}};
  if (request.want != "answer" && request.want != "report")
    throw UserError("want: answer, scenario or report expected");
  const bool report = request.want == "report";  // a report has pictures and what-ifs
  const Plan laid_out = plan(scenario);
  AnswerOptions options{.simulation = {}, .factor = report ? 2.0 : 0.0, .changes = true};
  const auto pictures = std::make_shared<ordered_json>();
  if (report) draw_run(scenario, laid_out, options.simulation, pictures);
  const Answer all = answer(scenario, laid_out, options);
  const nlohmann::json written = answer_json(all, false);
  const std::string text = screen(scenario, laid_out, all.result, all.what_ifs), device = device_noun(scenario.cluster);
  if (report) return {{"html", run_page(written, text, *pictures, device)}};
  return {{"answer", written}, {"screen", text}, {"device", device}, {"controls", controls_of(fields)}};
}

}  // namespace

ServedScenarios served_scenarios(const std::filesystem::path& own) {
  ServedScenarios scenarios;
  for (const std::filesystem::path& file : shipped_yaml_files("scenarios"))
    scenarios.emplace(file.stem().string(), file);
  if (own.empty()) return scenarios;
  read_scenario(own);
  scenarios[own.stem().string()] = std::filesystem::absolute(own);
  return scenarios;
}

std::string what_if_page(const ServedScenarios& scenarios, const ServedTasks& tasks, const std::string& scenario,
                         const std::string& token) {
  std::vector<std::string> names;
  for (const auto& [name, path] : scenarios) names.push_back(name);
  return chart_page("What if",
                    {{"scenarios", names}, {"tasks", tasks_json(tasks)}, {"scenario", scenario}, {"token", token}},
                    {page_script::timeline(), page_script::run(), page_script::serve()});
}

std::string answer_request(const ServedScenarios& scenarios, const ServedTasks& tasks, const std::string& request,
                           const std::string& prices) {
  ordered_json answer;
  try {
    answer = answer_to(request_in(request), scenarios, tasks, prices);
  } catch (const std::exception& e) {
    answer = {{"error", e.what()}};
  }
  return json_text(answer);
}

}  // namespace trainyard
