#include <fmt/format.h>

#include <algorithm>

#include "models/reading/not_modelled.hpp"
#include "scenarios/src/answer/json_reference.hpp"
#include "scenarios/src/reading/scenario_fields.hpp"
#include "sim/process/output.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

/// When the key is there, beyond what its object or list says already.
std::string condition(const FieldRow& row, const std::vector<FieldRow>& rows) {
  std::string parent = row.path.substr(0, std::min(row.path.rfind('.'), row.path.size()));
  if (parent.ends_with("[]")) parent.resize(parent.size() - 2);
  const auto above = std::find_if(rows.begin(), rows.end(), [&](const FieldRow& r) { return r.path == parent; });
  if (row.when.empty() || parent == row.path || above == rows.end()) return row.when;
  if (row.when == above->when) return "";
  return row.when.starts_with(above->when + "; ") ? row.when.substr(above->when.size() + 2) : row.when;
}

/// Keys below their objects and lists, a line each.
std::string reference_text(const JsonReference& reference) {
  TextTable table;
  const std::vector<FieldRow> rows = reference.rows();
  for (const FieldRow& row : rows) {
    const auto depth = static_cast<std::size_t>(std::count(row.path.begin(), row.path.end(), '.'));
    const std::string key = depth == 0 ? row.path : row.path.substr(row.path.rfind('.') + 1);
    const std::string when = condition(row, rows);
    table.rows.push_back({std::string(2 * depth, ' ') + key, row.type,
                          when.empty() ? row.words : fmt::format("{} ({})", row.words, when)});
  }
  return fmt::format("trainyard {} --json: {}\n", reference.command, reference.words) + table.text("  ");
}

std::string commands_as_json(const std::vector<std::string>& commands) {
  std::string text =
      "Keys of the JSON, their types and meaning. A type such as s or bytes is a number in that unit, share a number "
      "of "
      "which 1 is the whole,\n{key: s} an object of numbers whose keys are names. In parentheses: when the key is "
      "there, "
      "if not always.\n";
  for (const std::string& command : commands.empty() ? json_references().names() : commands) {
    Place place;
    place.file = std::make_shared<const std::string>("trainyard help json");
    text += "\n" + reference_text(json_references().find(command, place));
  }
  return text;
}

/// The keys of a scenario: what its readers ask for, so that none is missing and none too many; and the kinds of names.
std::string scenario_reference() {
  TextTable table{{"key", "type", "default", "words"}, {}, {}}, kinds{{"kind", "where; figures"}, {}, {}};
  for (const auto& [name, what] : listed_kinds()) kinds.rows.push_back({name, what});
  constexpr std::size_t most_choices = 60;  // characters
  for (const ScenarioField& field : known_scenario_fields()) {
    if (field.words.empty()) continue;  // figures of the hardware
    std::string type = fmt::format("{}", fmt::join(field.choices, " | "));
    if (type.empty() || type.size() > most_choices) type = field.type;
    std::string fallback = field.required ? "required" : field.fallback;
    if (!field.condition.empty()) fallback += (fallback.empty() ? "required " : "; required ") + field.condition;
    table.rows.push_back({field.path, std::move(type), std::move(fallback), field.words});
  }
  return "Keys of a scenario, as `--set PATH=VALUE` names them. Figures of the hardware may be changed too: "
         "cluster.gpu, "
         "cluster.hca, cluster.nvlink, cluster.pcie, … take those that `trainyard show node NAME` lists.\n"
         "Default: what a key is where it is left out; \"required\": it is needed wherever the map that holds it is "
         "given; nothing: what stands in its\nplace depends on other keys, the software or the node; an "
         "error asks for it where nothing can.\n\n" +
         table.text() + "\nNames, by kind: `trainyard list KIND` has those of a kind, with their figures.\n\n" +
         kinds.text();
}

std::string limits_text() {
  TextTable table{{"not modelled", "said as", "nearest"}, {}, {}};
  for (const NotModelled& row : not_modelled())
    table.rows.push_back({row.what, fmt::format("{}: {}", row.path, fmt::join(row.words, ", ")),
                          fmt::format("{}", fmt::join(row.nearest, ", "))});
  return "What is not modelled, with the nearest that is: a scenario that says one of these words is refused with that "
         "name. Of models the names are those of model_type\nin a config.json and of the catalog.\n\n" +
         table.text();
}

int help(const std::vector<std::string>& asked) {
  std::vector<std::string> words = asked;
  if (std::erase(words, "--markdown") > 0) write_tables_as_markdown();
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    write_atomically("-", usage());
    return kGood;
  }
  if (words[0] == "json") {
    std::string command;  // of one word or two, such as topo check
    for (std::size_t i = 1; i < words.size(); ++i) command += (i > 1 ? " " : "") + words[i];
    write_atomically(
        "-", commands_as_json(command.empty() ? std::vector<std::string>{} : std::vector<std::string>{command}));
    return kGood;
  }
  if (words[0] == "scenario") {
    write_atomically("-", scenario_reference());
    return kGood;
  }
  if (words[0] == "limits") {
    write_atomically("-", limits_text());
    return kGood;
  }
  std::vector<std::string> topics = verbs().names();
  if (std::find(topics.begin(), topics.end(), words[0]) != topics.end())
    return verbs().find(words[0], {}).run({"--help"});
  topics.insert(topics.end(), {"json", "limits", "scenario"});
  throw UserError(fmt::format("trainyard help: unknown topic \"{}\"{}", words[0], hint(words[0], topics)));
}

const RegisterVerb registered_help{
    "help",
    "this text, a verb's, the keys of a scenario (help scenario) or of the JSON (help json), what is not modelled "
    "(help limits)",
    help};

}  // namespace
}  // namespace trainyard
