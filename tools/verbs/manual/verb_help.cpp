#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "models/reading/not_modelled.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/reading/scenario_fields.hpp"
#include "sim/process/job.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/lessons/course_pages.hpp"
#include "tools/verbs/lessons/course_text.hpp"
#include "tools/verbs/manual/manual_pages.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

/// The condition for a key to be present, without the condition that its object or list states already.
std::string condition(const FieldRow& row, const std::vector<FieldRow>& rows) {
  std::string parent = row.path.substr(0, std::min(row.path.rfind('.'), row.path.size()));
  if (parent.ends_with("[]")) parent.resize(parent.size() - 2);
  const auto above = std::ranges::find_if(rows, [&](const FieldRow& r) { return r.path == parent; });
  if (row.when.empty() || parent == row.path || above == rows.end()) return row.when;
  if (row.when == above->when) return "";
  return row.when.starts_with(above->when + "; ") ? row.when.substr(above->when.size() + 2) : row.when;
}

/// A line for each key; keys are indented below their object or list.
std::string reference_text(const JsonReference& reference) {
  TextTable table;
  const std::vector<FieldRow> rows = reference.rows();
  for (const FieldRow& row : rows) {
    const auto depth = static_cast<std::size_t>(std::ranges::count(row.path, '.'));
    const std::string key = depth == 0 ? row.path : row.path.substr(row.path.rfind('.') + 1);
    const std::string when = condition(row, rows);
    table.rows.push_back({std::string(2 * depth, ' ') + key, row.type,
                          when.empty() ? row.words : fmt::format("{} ({})", row.words, when)});
  }
  constexpr std::size_t most = 120;  // columns
  return fmt::format("trainyard {} --json: {}\n", reference.command, reference.words) + table.text("  ", most);
}

std::string commands_as_json(const std::vector<std::string>& commands) {
  std::string text =
      "Keys of the JSON, their types and meaning. A type such as s or bytes is a number in that unit; share is a\n"
      "number from 0 to 1, where 1 is the whole; {key: s} is an object with names as keys and numbers in that unit.\n"
      "Parentheses give the condition under which a key is present.\n";
  std::vector<std::string> described;
  for (const std::string& name : json_references().names())
    if (commands.empty() || std::ranges::any_of(commands, [&name](const std::string& command) {
          return name == command || name.starts_with(command + " ");
        }))
      described.push_back(name);
  for (const std::string& name : described.empty() ? commands : described)
    text += "\n" + reference_text(json_references().find(name, Place::named("trainyard help json")));
  return text;
}

/// Adds the paths of the values below `node` to `paths`.
void add_paths(const Node& node, const std::string& path, std::set<std::string>& paths) {
  if (node.kind == Node::Kind::scalar) paths.insert(path);
  for (const auto& [key, value] : node.fields) add_paths(value, path.empty() ? key : path + "." + key, paths);
}

/// The text of a key in `help scenario`.
struct KeyText {
  std::string path, type;
  std::string requirement;  ///< "required", "required with …"; "": the key has a default, or it depends on other keys
  std::string fallback;     ///< the default; "": the words state it
  std::string words;
  bool is_first = false;  ///< the smallest scenario has it
};

/// The description of a field, with an example before its default if it has none but a list of choices.
std::string words_with_example(const ScenarioField& field) {
  const std::string example = field.words.find("for example") == std::string::npos ? find_example(field) : "";
  if (example.empty()) return field.words;
  std::string words = field.words;
  return words.insert(std::min(words.find(" Default: "), words.size()), fmt::format(" Example: {}.", example));
}

/// The keys of a scenario, as its readers declare them, so the list is complete.
std::vector<KeyText> key_texts() {
  std::set<std::string> first;
  add_paths(parse_document(smallest_scenario(), "the smallest scenario"), "", first);
  constexpr std::size_t most_choices = 60;  // characters
  std::vector<KeyText> keys;
  for (const ScenarioField& field : known_scenario_fields()) {
    if (field.words.empty()) continue;  // figures of the hardware
    KeyText key{field.path, fmt::format("{}", fmt::join(field.choices, " | ")), "", "", words_with_example(field),
                false};
    if (key.type.empty() || key.type.size() > most_choices) key.type = field.type;
    key.is_first = first.contains(field.path);
    if (field.required || key.is_first) key.requirement = "required";
    if (!field.condition.empty())
      key.requirement += (key.requirement.empty() ? "required " : "; required ") + field.condition;
    // The reader's default belongs to the scenario that was read first; the words hold for all scenarios.
    if (field.words.find("Default: ") == std::string::npos) key.fallback = field.fallback;
    keys.push_back(std::move(key));
  }
  return keys;
}

/// The texts that are not empty, joined by "; ".
std::string joined_facts(std::vector<std::string> facts) {
  std::erase(facts, "");
  return fmt::format("{}", fmt::join(facts, "; "));
}

/// Each key on a line with its type, and its description below. Keys of the smallest scenario are marked.
std::string keys_as_text(const std::vector<KeyText>& keys, std::size_t width) {
  constexpr std::size_t indent = 6;
  std::string text, section;
  for (const KeyText& key : keys) {
    if (const std::string top = key.path.substr(0, key.path.find('.')); top != section) {
      text += "\n";
      section = top;
    }
    const std::string facts = joined_facts({key.type, key.requirement});
    const std::string name = fmt::format("{} {}", key.is_first ? "*" : " ", key.path);
    const bool fits = facts.empty() || name.size() + facts.size() + 2 <= width;
    text += fits ? fmt::format("{}{}{}\n", name, facts.empty() ? "" : "  ", facts)
                 : name + "\n" + hanging_lines(std::string(indent, ' ') + facts, width, indent);
    const std::string fallback = key.fallback.empty() ? "" : fmt::format(" Default: {}.", key.fallback);
    text += hanging_lines(std::string(indent, ' ') + key.words + fallback, width, indent);
  }
  return text;
}

std::string keys_as_table(const std::vector<KeyText>& keys) {
  TextTable table{"key", "type", "default", "meaning"};
  for (const KeyText& key : keys)
    table.rows.push_back({key.path, key.type, joined_facts({key.fallback, key.requirement}), key.words});
  return "\n" + table.text();
}

/// The keys of a scenario whose path has this part. Throws UserError if there is none.
std::string matching_keys(const std::string& part) {
  std::vector<KeyText> keys = key_texts();
  std::vector<std::string> paths;
  for (const KeyText& key : keys) paths.push_back(key.path);
  std::erase_if(keys, [&part](const KeyText& key) { return key.path.find(part) == std::string::npos; });
  if (keys.empty())
    throw UserError(fmt::format("trainyard help scenario: no key has \"{}\" in its path{}", part,
                                hint(part, paths).starts_with("; did") ? hint(part, paths) : ""));
  return tables_are_markdown() ? keys_as_table(keys) : keys_as_text(keys, 80);
}

/// The smallest scenario, the keys of a scenario, and the kinds of names.
std::string scenario_reference() {
  constexpr std::size_t width = 80;
  const bool markdown = tables_are_markdown();
  const auto paragraph = [=](const std::string& text) {
    return markdown ? text + "\n" : hanging_lines(text, width, 0);
  };
  const std::string smallest = markdown ? fmt::format("```yaml\n{}```\n", smallest_scenario()) : smallest_scenario();
  TextTable kinds{"kind", "key; figures"};
  std::size_t longest = 0;
  for (const auto& [name, what] : listed_kinds()) {
    kinds.rows.push_back({name, what});
    longest = std::max(longest, name.size());
  }
  return paragraph("The smallest scenario has the keys without a default:") + "\n" + smallest + "\n" +
         paragraph(
             "`trainyard run FILE` simulates a step of it; `trainyard new FILE` writes a longer one with comments.") +
         "\n" +
         paragraph(
             "Keys of a scenario, as `--set PATH=VALUE` names them. Figures of the hardware may be changed too: "
             "cluster.gpu, cluster.hca, cluster.nvlink, cluster.pcie, … take those that `trainyard show node NAME` "
             "lists.") +
         paragraph(
             "\"required\": the key is needed if the map that holds it is given. Default: the value of a key that is "
             "left out. If neither is stated, the value depends on other keys, the software or the node; an error asks "
             "for the key if there is none.") +
         (markdown ? keys_as_table(key_texts())
                   : paragraph("*: the smallest scenario has the key.") + keys_as_text(key_texts(), width)) +
         "\n" + paragraph("Names, by kind: `trainyard list KIND` lists the names of a kind, with their figures.") +
         "\n" + (markdown ? kinds.text() : hanging_lines(kinds.text(), width, longest + 2));
}

std::string limits_text() {
  TextTable table{"not modelled", "in a scenario", "nearest"};
  for (const UnmodelledKey& row : not_modelled())
    table.rows.push_back({row.what, fmt::format("{}: {}", row.path, fmt::join(row.words, ", ")),
                          fmt::format("{}", fmt::join(row.nearest, ", "))});
  return "What is not modelled, with the nearest feature that is. A scenario with one of these words is refused, and "
         "the error names the nearest feature. Names of models are\nthose of model_type in a config.json and of the "
         "catalog.\n\n" +
         table.text();
}

/// The references as Markdown. The keys of the JSON are indented by depth, so that they stay as they are printed.
std::vector<HelpTopic> reference_topics() {
  const std::string json = commands_as_json({});
  write_tables_as_markdown();
  return {{"scenario", "The keys of a scenario", scenario_reference()},
          {"json", "The keys of the JSON", "````\n" + json + "````\n"},
          {"limits", "What is not modelled", limits_text()}};
}

/// Writes all pages. All are made before the first is written, and index.html is the last. A signal ends the work only
/// before the first page is written: writing takes a few milliseconds.
void write_manual(const std::filesystem::path& folder) {
  watch_interrupts();
  const std::vector<ManualFile> files = manual_pages(reference_topics());
  end_if_interrupted();
  create_page_folder(folder);
  for (const ManualFile& file : files) check_writable(folder / file.name);
  for (auto file = files.rbegin(); file != files.rend(); ++file) write_atomically(folder / file->name, file->content);
  write_atomically(
      "-", labelled("written", fmt::format("{} files; open {}", files.size(), (folder / "index.html").string())));
}

/// Prints what the words name: nothing, a verb, or a reference.
int explain_topic(const std::vector<std::string>& words) {
  if (words.empty()) {
    write_atomically("-", usage());
    return kGood;
  }
  if (words[0] == "json") {
    std::string command;  // one word or two, such as topo check
    for (std::size_t i = 1; i < words.size(); ++i) command += (i > 1 ? " " : "") + words[i];
    write_atomically(
        "-", commands_as_json(command.empty() ? std::vector<std::string>{} : std::vector<std::string>{command}));
    return kGood;
  }
  if (words[0] == "scenario") {
    write_atomically("-", words.size() > 1 ? matching_keys(words[1]) : scenario_reference());
    return kGood;
  }
  if (words[0] == "limits") {
    write_atomically("-", limits_text());
    return kGood;
  }
  std::vector<std::string> topics = verbs().names();
  if (std::ranges::find(topics, words[0]) != topics.end()) return verbs().find(words[0], {}).run({"--help"});
  topics.insert(topics.end(), {"json", "limits", "scenario"});
  throw UserError(fmt::format("trainyard help: unknown topic \"{}\"{}", words[0], hint(words[0], topics)));
}

int help(const std::vector<std::string>& words) {
  Arguments arguments("help",
                      "Lists the verbs by what they are for, explains a verb, or lists the keys of a scenario "
                      "(scenario), the keys of the JSON (json; json COMMAND for those of a command), and what is not "
                      "modelled (limits). With --html, it writes the manual as pages: its chapters, the help of each "
                      "verb, these references and the words of the field. The pages open without a network.",
                      "help --html manual");
  std::vector<std::string> topic;
  std::string html;
  arguments.positionals("TOPIC", topic,
                        "a verb, scenario, scenario PART (keys with that part in their path), json, json COMMAND, or "
                        "limits; none: the list of verbs");
  arguments.output("--html", html, "folder to write the manual to; index.html is the first page", true);
  if (!arguments.parse(words)) return kGood;
  if (html.empty()) return explain_topic(topic);
  if (html == "-") throw UserError("trainyard help: --html -: a folder expected");
  if (!topic.empty())
    throw UserError(fmt::format("trainyard help: --html writes the whole manual; leave out \"{}\"", topic[0]));
  write_manual(html);
  return kGood;
}

const RegisterVerb registered_help{
    "help", VerbGroup::prepare,
    "explain a verb, the keys of a scenario (help scenario) or of the JSON (help json), and what is not modelled (help "
    "limits); write the manual as pages (help --html DIR)",
    help};

}  // namespace
}  // namespace trainyard
