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
#include "tools/reports/assumptions.hpp"
#include "tools/reports/html_page.hpp"
#include "tools/serving/page_fields.hpp"
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

/// Writes the changed values as a scenario takes them (`typed_value`). Throws UserError for fields that are not offered,
/// and for values that may name a file.
void take_values(Overrides& set, const std::vector<ScenarioField>& fields) {
  std::vector<std::string> paths;
  for (const ScenarioField& field : fields) paths.push_back(field.path);
  for (auto& [path, value] : set) {
    const auto found = std::ranges::find(paths, path);
    if (found == paths.end())
      throw UserError(fmt::format("{}: not among the fields of this page{}", path, hint(path, paths)));
    const ScenarioField& field = fields[static_cast<std::size_t>(found - paths.begin())];
    const std::vector<std::string>& choices = field.choices;
    const bool named = std::ranges::any_of(choices, [&, &text = value](const auto& c) { return same_name(c, text); });
    if (!named && choices.empty()) value = typed_value(field, value);
    if (named || (choices.empty() && is_plain_value(value))) continue;
    throw UserError(choices.empty() ? fmt::format("{}: \"{}\": {} expected", path, value, field.type)
                                    : fmt::format("{}: unknown value \"{}\"{}", path, value, hint(value, choices)));
  }
}

/// Judges the task's start with the changes of the page. Throws UserError for changes that the task does not allow.
ordered_json answer_to_task(const PageRequest& request, const Task& task, const ServedTasks& tasks) {
  Node document = task.start;
  std::vector<ScenarioField> known_fields;
  if (!request.set.empty()) {
    const AskedFields task_fields;
    read_scenario(document, request.scenario);
    known_fields = offered_fields(task_fields);
  }
  for (const auto& [path, text] : request.set) {
    const auto field = std::ranges::find(known_fields, path, &ScenarioField::path);
    const std::string value = field == known_fields.end() ? text : typed_value(*field, text);
    require_change(task, path, value, is_plain_value);
    set_field(document, path, value);
  }
  const std::string text = yaml_text(document);
  if (request.want == "scenario") return {{"yaml", text}};
  if (request.want != "answer") throw UserError("want: answer or scenario expected of a task");
  ordered_json answer = tasks.judge(task, text);
  const AskedFields asked;
  read_scenario(document, request.scenario);
  answer["controls"] = controls_of(fields_of_task(task, document, offered_fields(asked)));
  return answer;
}

/// Removes the number of replicas from the document, since the changes of the page do not fit it, as `error` says: it then
/// follows from the devices and the other axes. Returns a sentence that says so, or "" if the document stays as it is.
std::string derive_replicas(Node& document, const PageRequest& request, std::string error) {
  Node* plan = document.find("plan");
  Node* data_parallel = plan ? plan->find("data_parallel") : nullptr;
  const bool is_size = data_parallel && data_parallel->kind == Node::Kind::scalar;
  const Node* size = !data_parallel || is_size ? data_parallel : data_parallel->find("size");
  const bool sets_size = std::ranges::any_of(request.set, [](const auto& change) {
    return change.first == "plan.data_parallel" || change.first == "plan.data_parallel.size";
  });
  if (!size || sets_size || request.set.empty()) return "";
  for (const char* prefix : {"--set ", "plan.data_parallel.size: "})
    if (error.starts_with(prefix)) error.erase(0, error.find(": ") + 2);
  std::string text = fmt::format("plan.data_parallel.size: {} does not fit these changes and is left out: {}.",
                                 size->scalar, error.substr(0, error.find(';')));
  if (is_size)
    *data_parallel = Node::empty_map(data_parallel->place);
  else
    std::erase_if(data_parallel->fields, [](const auto& field) { return field.first == "size"; });
  return text;
}

/// Returns the fields that the page offers of a scenario, with the prices of its machines.
std::vector<ScenarioField> fields_of_page(const AskedFields& asked, const Scenario& scenario) {
  std::vector<ScenarioField> fields = offered_fields(asked);
  const Node* prices = scenario.document.find("prices");
  if (!prices || prices->kind == Node::Kind::null) return fields;
  std::vector<std::string> machines = node_types(scenario);
  machines.push_back(scenario.cluster.node.gpu.name);
  for (const auto& other : scenario.cluster.others) machines.push_back(other.type.gpu.name);
  std::ranges::copy(price_fields(Catalog().resolve("price", *prices), machines), std::back_inserter(fields));
  return fields;
}

/// A scenario with the changes of the page, the fields that the page offers of it, and what the page says of its plan.
struct PageScenario {
  Scenario scenario;
  std::vector<ScenarioField> fields;
  std::string note;
};

/// Reads the scenario with the changes of the page; without the number of replicas if they do not fit it.
PageScenario read_page_scenario(Node document, const PageRequest& request) {
  const auto read_page = [&](const std::string& note) -> PageScenario {
    const AskedFields asked;
    Scenario scenario = read_scenario(document, request.scenario, request.set);
    std::vector<ScenarioField> fields = fields_of_page(asked, scenario);
    return {std::move(scenario), std::move(fields), note};
  };
  std::string note;
  try {
    return read_page(note);
  } catch (const UserError& error) {
    note = derive_replicas(document, request, error.what());
    if (note.empty()) throw;
  }
  return read_page(note);
}

ordered_json answer_to(PageRequest request, const ServedScenarios& scenarios, const ServedTasks& tasks,
                       const std::string& prices) {
  if (const Task* task = tasks.find(request.scenario)) return answer_to_task(request, *task, tasks);
  const auto found = scenarios.find(request.scenario);
  if (found == scenarios.end()) throw UserError("unknown scenario: choose one of the page's list");
  Node document = read_scenario_document(found->second);
  if (!prices.empty()) set_field(document, "prices", prices);
  if (!request.set.empty()) {
    const AskedFields asked;
    const Scenario unchanged = read_scenario(document, request.scenario);
    take_values(request.set, fields_of_page(asked, unchanged));
  }
  const auto [scenario, fields, note] = read_page_scenario(std::move(document), request);
  if (request.want == "scenario")
    return {{"yaml", fmt::format("# {}, changed on the page of `trainyard serve`.\n", request.scenario) +
                         yaml_text(scenario.document)}};
  if (request.want != "answer" && request.want != "report" && request.want != "what_if")
    throw UserError("want: answer, what_if, scenario or report expected");
  const bool report = request.want == "report";    // a report has pictures and what-ifs
  const bool what_if = request.want == "what_if";  // these come after the answer, since they take longer
  const Plan laid_out = plan(scenario);
  AnswerOptions options{.simulation = {}, .factor = report || what_if ? 2.0 : 0.0, .changes = !what_if};
  const auto pictures = std::make_shared<ordered_json>();
  if (report) draw_run(scenario, laid_out, options.simulation, pictures);
  const Answer all = answer(scenario, laid_out, options);
  const nlohmann::json written = answer_json(all, false);
  if (what_if) return {{"what_if", written.value("what_if", nlohmann::json::array())}};
  const std::string text = screen(scenario, laid_out, all.result, all.what_ifs), device = device_noun(scenario.cluster);
  if (report) return {{"html", run_page(written, text, *pictures, scenario)}};
  return {{"answer", written},
          {"screen", text},
          {"device", device},
          {"note", note},
          {"pending", true},
          {"assumptions", assumptions_json(scenario.document, node_types(scenario))},
          {"controls", controls_of(fields)}};
}

/// Answers with these prices. If they have none of the scenario's machines, answers without costs, and says so.
ordered_json answer_with_prices(const PageRequest& request, const ServedScenarios& scenarios, const ServedTasks& tasks,
                                const std::string& prices) {
  try {
    return answer_to(request, scenarios, tasks, prices);
  } catch (const UserError& e) {
    if (prices.empty()) throw;
    ordered_json answer;
    try {
      answer = answer_to(request, scenarios, tasks, "");
    } catch (const UserError&) {
    }
    if (answer.is_null()) throw;  // the error is not about prices
    const std::string note = answer.value("note", "");
    answer["note"] = fmt::format("{}{}No costs: {}.", note, note.empty() ? "" : " ", e.what());
    return answer;
  }
}

/// Writes an error without the name of its override, and with the path of the changed field that it is about.
ordered_json error_of(const Overrides& set, std::string text) {
  std::string of_path;
  for (const auto& [path, value] : set) {
    const std::string origin = "--set " + path + ": ";
    if (text.starts_with(origin)) text = text.substr(origin.size());
    const bool is_named = text.starts_with(path + ":") || text.starts_with(path + " ");
    if (is_named && path.size() > of_path.size()) of_path = path;
  }
  if (of_path.empty() && !set.empty()) of_path = set.back().first;
  ordered_json answer{{"error", text}};
  if (!of_path.empty()) answer["path"] = of_path;
  return answer;
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
  PageRequest question;
  try {
    question = request_in(request);
    answer = answer_with_prices(question, scenarios, tasks, prices);
  } catch (const std::exception& e) {
    answer = error_of(question.set, e.what());
  }
  return json_text(answer);
}

}  // namespace trainyard
