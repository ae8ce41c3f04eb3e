#include "tools/verbs/serving/served_verbs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string_view>
#include <vector>

#include "models/reading/document_text.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "sim/process/job.hpp"
#include "tools/verbs/verbs.hpp"

namespace trainyard {
namespace {

using ArgumentKind = ArgumentDescription::Kind;

constexpr std::array<std::string_view, 10> kServed{"run",   "plan",    "size",    "fleet", "sweep",
                                                   "bench", "explain", "compare", "list",  "validate"};

/// Flags that write files besides the outputs, that print text alone, or that divide a search among machines.
const std::set<std::string> kNotServed{"run --chakra",  "run --trace-ranks", "run --require",  "run --rank",
                                       "run --sources", "plan --layers",     "plan --shard",   "plan --slurm",
                                       "plan --tasks",  "plan --submit",     "size --shard",   "size --slurm",
                                       "size --tasks",  "size --submit",     "sweep --shard",  "sweep --slurm",
                                       "sweep --tasks", "sweep --submit",    "validate --fit", "validate --systems"};

const Verb& served_verb(const std::string& name) { return verbs().find(name, Place::named("trainyard")); }

/// The arguments that programs may state.
std::vector<ArgumentDescription> served_arguments(const Verb& verb, const VerbDescription& description) {
  std::vector<ArgumentDescription> all = description.arguments;
  std::erase_if(all, [&verb](const ArgumentDescription& argument) {
    return argument.is_output || kNotServed.contains(verb.name + " " + argument.name);
  });
  return all;
}

VerbDescription served_description(const Verb& verb) {
  return describe_verb([&verb] { verb.run({}); });
}

/// "tokens_per_parameter" for "--tokens-per-parameter", "scenario" for "SCENARIO".
std::string property_name(const std::string& argument) {
  std::string name = argument.substr(argument.find_first_not_of('-'));
  for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

/// Returns true if the argument names a scenario. A program may then give an object with the scenario's content, unless
/// the verb takes only the words of a command line, which name a file.
bool takes_document(const Verb& verb, const ArgumentDescription& argument) {
  return verb.answer != nullptr && argument.name == "SCENARIO";
}

ServedJson schema_of(const Verb& verb, const ArgumentDescription& argument) {
  ServedJson schema;
  switch (argument.kind) {
    case ArgumentKind::text:
      schema["type"] = takes_document(verb, argument) ? ServedJson{"string", "object"} : ServedJson{"string", "number"};
      break;
    case ArgumentKind::texts:
      schema = {{"type", "array"}, {"items", {{"type", "string"}}}};
      break;
    case ArgumentKind::whole_number:
      schema["type"] = "integer";
      break;
    case ArgumentKind::number:
      schema["type"] = "number";
      break;
    case ArgumentKind::flag:
      schema["type"] = "boolean";
      break;
  }
  if (!argument.choices.empty()) schema = {{"type", "string"}, {"enum", argument.choices}};
  schema["description"] = argument.help;
  if (takes_document(verb, argument))
    schema["description"] =
        argument.help + ". Its path or name, or the content of such a file, as an object or as text";
  return schema;
}

ServedJson tool_of(const Verb& verb) {
  const VerbDescription description = served_description(verb);
  ServedJson properties = ServedJson::object(), required = ServedJson::array();
  for (const ArgumentDescription& argument : served_arguments(verb, description)) {
    properties[property_name(argument.name)] = schema_of(verb, argument);
    if (argument.required) required.push_back(property_name(argument.name));
  }
  ServedJson schema{{"type", "object"}, {"properties", properties}};
  if (!required.empty()) schema["required"] = required;
  schema["additionalProperties"] = false;
  return {{"name", verb.name},
          {"title", verb.summary},
          {"description", description.summary},
          {"inputSchema", schema},
          {"annotations", {{"readOnlyHint", true}, {"openWorldHint", false}}}};
}

/// The value in the form of a command line.
std::string argument_text(const std::string& property, const ServedJson& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number() || value.is_boolean()) return json_text(value);
  throw UserError(fmt::format("{}: a text or a number expected", property));
}

/// The question of a program, from the properties of the schema.
VerbQuestion served_question(const Verb& verb, const ServedJson& arguments) {
  const std::vector<ArgumentDescription> possible = served_arguments(verb, served_description(verb));
  std::vector<std::string> names;
  for (const ArgumentDescription& argument : possible) names.push_back(property_name(argument.name));
  VerbQuestion question;
  for (const auto& [property, value] : arguments.items()) {
    const auto found = std::ranges::find(names, property);
    if (found == names.end())
      throw UserError(fmt::format("{}: unknown argument \"{}\"{}", verb.name, property, hint(property, names)));
    const ArgumentDescription& argument = possible[static_cast<std::size_t>(found - names.begin())];
    if (value.is_null()) continue;
    if (value.is_object() && takes_document(verb, argument)) {
      question.document = parse_json_document(json_text(value, 1), "scenario.yaml");
      question.keyed_name = "scenario.yaml";
      question.options.emplace_back(argument.name, question.keyed_name);
    } else if (value.is_string() && takes_document(verb, argument) &&
               value.get_ref<const std::string&>().find_first_of("\n{") != std::string::npos) {
      question.document = parse_document(value.get<std::string>(), "scenario.yaml");
      question.options.emplace_back(argument.name, "scenario.yaml");
    } else if (argument.kind == ArgumentKind::flag) {
      if (!value.is_boolean()) throw UserError(fmt::format("{}: true or false expected", property));
      if (value.get<bool>()) question.options.emplace_back(argument.name, "true");
    } else if (argument.kind == ArgumentKind::texts && value.is_array()) {
      for (const ServedJson& item : value) question.options.emplace_back(argument.name, argument_text(property, item));
    } else if (argument.kind == ArgumentKind::text && value.is_array() && !takes_document(verb, argument)) {
      std::vector<std::string> items;  // a list of names, as "--nodes-of a,b" has it
      for (const ServedJson& item : value) items.push_back(argument_text(property, item));
      question.options.emplace_back(argument.name, fmt::format("{}", fmt::join(items, ",")));
    } else {
      question.options.emplace_back(argument.name, argument_text(property, value));
    }
  }
  for (const auto& [name, text] : question.options)
    if (!name.starts_with("--") && text.starts_with("-"))
      throw UserError(fmt::format("{} \"{}\": a name or a path expected", property_name(name), text));
  for (const ArgumentDescription& argument : possible)
    if (argument.required && !arguments.contains(property_name(argument.name)))
      throw UserError(fmt::format("{}: {} expected: {}", verb.name, property_name(argument.name), argument.help));
  return question;
}

/// Runs a verb that has no answer for programs, and returns what it prints with --json.
std::string printed_answer(const Verb& verb, const VerbQuestion& question) {
  std::vector<std::string> words;
  for (const auto& [name, text] : question.options) words.push_back(name.starts_with("--") ? name + "=" + text : text);
  words.insert(words.end(), {"--json", "-"});
  const CaughtOutput screen;
  const int code = verb.run(words);
  if (code == kInterrupted) throw Interruption();
  if (code != kGood && code != kFailsLimit) throw UserError(fmt::format("{}: ended with code {}", verb.name, code));
  return screen.text;
}

}  // namespace

bool is_served(const std::string& verb) { return std::ranges::find(kServed, verb) != kServed.end(); }

ServedJson served_tools() {
  ServedJson tools = ServedJson::array();
  for (const std::string_view name : kServed) tools.push_back(tool_of(served_verb(std::string(name))));
  return tools;
}

std::string served_answer(const std::string& verb_name, const ServedJson& arguments) {
  const Verb& verb = served_verb(verb_name);
  const VerbQuestion question = served_question(verb, arguments);
  return verb.answer ? answer_program(verb, question) : printed_answer(verb, question);
}

}  // namespace trainyard
