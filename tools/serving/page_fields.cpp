#include "tools/serving/page_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/units.hpp"
#include "tools/reports/assumptions.hpp"

namespace trainyard {
namespace {

/// Returns a component of a path as words: "data parallel", "GPU".
std::string component_words(const std::string& component) {
  for (const auto& [key, name] : {std::pair{"gpu", "GPU"},
                                  {"cpu", "CPU"},
                                  {"hca", "HCA"},
                                  {"pcie", "PCIe"},
                                  {"nvlink", "NVLink"},
                                  {"nccl", "NCCL"},
                                  {"mtbf", "MTBF"},
                                  {"gpu_hour", "GPU hour"},
                                  {"kwh", "kWh"}})
    if (component == key) return name;
  std::string words = component;
  std::ranges::replace(words, '_', ' ');
  return words;
}

std::string capitalized(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

std::vector<std::string> components_of(const std::string& path) {
  std::vector<std::string> all;
  std::istringstream in(path);
  for (std::string component; std::getline(in, component, '.');) all.push_back(component);
  return all;
}

bool is_count(const ScenarioField& field) { return field.type == "a whole number" || field.type == "a number"; }

/// Returns true if the key or the description of a field has this noun, in the singular or in the plural.
bool has_noun(const ScenarioField& field, std::string noun) {
  if (noun.size() > 1 && noun.back() == 's') noun.pop_back();
  const std::string text = " " + lower_case(field.path + " " + field.words) + " ";
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  for (std::size_t begin = text.find(noun); begin != std::string::npos; begin = text.find(noun, begin + 1)) {
    const std::size_t end = begin + noun.size();
    if (!is_letter(text[begin - 1]) && !is_letter(text[text[end] == 's' ? end + 1 : end])) return true;
  }
  return false;
}

/// Returns the text that labels a field: the beginning of its description, or the words of its key if it has none.
std::string field_label(const ScenarioField& field) {
  if (field.words.empty()) {
    const std::vector<std::string> components = components_of(field.path);
    return capitalized(component_words(components.back()));
  }
  std::string label = field.words;
  for (const char* end : {". ", "; ", ": ", " (", ", for example", ", as "}) label = label.substr(0, label.find(end));
  // A label names no other key: the words before it end the label, without their preposition.
  if (const std::size_t key = label.find('_'); key != std::string::npos) {
    label.resize(std::min(label.rfind(' ', key), label.size()));
    if (const std::string& text = label; text.ends_with(" at") || text.ends_with(" by") || text.ends_with(" in"))
      label.resize(label.size() - 3);
    if (label.ends_with(',')) label.pop_back();
  }
  constexpr std::size_t most = 80;
  if (const std::size_t comma = label.rfind(", ", most); label.size() > most && comma != std::string::npos)
    label.resize(comma);
  if (label.ends_with('.')) label.pop_back();
  constexpr std::string_view question = "Whether ";
  return label.starts_with(question) ? capitalized(label.substr(question.size())) : label;
}

/// Returns the title of the group in which the page shows a field: "Cluster: GPU", "Plan: data parallel", "Scenario".
std::string field_section(const std::string& path) {
  const std::vector<std::string> components = components_of(path);
  if (components.size() == 1) return "Scenario";
  const std::string section = capitalized(component_words(components.front()));
  return components.size() == 2 ? section : section + ": " + component_words(components[1]);
}

}  // namespace

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

std::vector<ScenarioField> offered_fields(const AskedFields& asked) {
  std::vector<ScenarioField> fields = scenario_fields(asked);
  std::erase_if(fields, [](const ScenarioField& field) {
    return field.path.starts_with("prices.") ||  // price_fields has those
           field.type == "a list of names" ||
           (field.choices.empty() && (field.type.empty() || field.type == "text" || field.type == "a name"));
  });
  return fields;
}

std::vector<ScenarioField> price_fields(const Node& prices, const std::vector<std::string>& machines) {
  std::vector<ScenarioField> fields;
  // A figure has the words and the unit of the assumptions of a page.
  std::map<const Node*, std::string> labels;
  for (const Assumption& each : price_assumptions(prices, machines))
    if (each.node) labels[each.node] = each.item + (each.unit.empty() ? "" : ", " + each.unit);
  const auto is_map_of_machines = [](const std::string& key) {
    for (const char* name : {"gpu_hour", "node_hour", "node", "gpu", "owned", "delivery"})
      if (key == name) return true;
    return false;
  };
  const auto add = [&](const Node& figure, const Node& value, const std::string& path, const std::string& words) {
    if (value.kind != Node::Kind::scalar || !is_plain_value(value.scalar)) return;
    const auto label = labels.find(&figure);
    ScenarioField field;
    field.path = path;
    field.words = capitalized(label == labels.end() ? words : label->second);
    field.type = "as the price file has it";
    field.value = value.scalar;
    fields.push_back(std::move(field));
  };
  const std::function<void(const Node&, const std::string&, const std::string&, bool)> walk =
      [&](const Node& node, const std::string& path, const std::string& words, bool has_machines) {
        for (std::size_t i = 0; i < node.items.size(); ++i)
          walk(node.items[i], fmt::format("{}.{}", path, i),
               fmt::format("{} {},", words == "reserved" ? "reserved term" : words, i + 1), false);
        for (const auto& [key, value] : node.fields) {
          const bool is_other = has_machines && std::ranges::find(machines, key) == machines.end();
          if (is_other || key == "sources" || key.find('.') != std::string::npos) continue;
          const std::string below = path + "." + key,
                            name = words.empty() ? component_words(key)
                                                 : fmt::format("{}{}{}", words, has_machines ? " of " : " ",
                                                               has_machines ? key : component_words(key));
          if (const Node* figure = value.find("value"))
            add(value, *figure, below, name);
          else if (value.kind == Node::Kind::scalar)
            add(value, value, below, name);
          else if (!has_machines)  // prices by quantity are no fields
            walk(value, below, name, is_map_of_machines(key));
        }
      };
  walk(prices, "prices", "", false);
  return fields;
}

std::string typed_value(const ScenarioField& field, const std::string& original) {
  std::string text(trim(original));
  if (!is_count(field)) return text;
  const std::size_t first_other = std::min(text.find_first_not_of("0123456789.,+-"), text.size());
  std::string number = text.substr(0, first_other), rest(trim(text.substr(first_other)));
  std::erase(number, ',');
  const std::optional<double> value = find_number(number);
  if (!value) return text;
  const bool has_suffix = !rest.empty() && (rest.size() == 1 || rest[1] == ' ');
  const double factor = has_suffix ? factor_of_suffix(rest.front()) : 1;
  if (factor > 1) rest = trim(rest.substr(1));
  const bool is_word = !rest.empty() && std::ranges::all_of(rest, [](char c) { return c >= 'a' && c <= 'z'; });
  if (!rest.empty() && !is_word) return text;  // its reader says why it is no number
  if (is_word && !has_noun(field, rest))
    throw UserError(fmt::format("{}: \"{}\": unknown unit \"{}\"; expected {}, such as 1536, 1,536, 2 k or 2 M",
                                field.path, original, rest, field.type));
  const double count = *value * factor;
  return count == std::floor(count) ? fmt::format("{:.0f}", count) : exact(count);
}

nlohmann::ordered_json controls_of(const std::vector<ScenarioField>& fields) {
  nlohmann::ordered_json controls = nlohmann::ordered_json::array();
  for (const ScenarioField& f : fields)
    controls.push_back({{"path", f.path},
                        {"label", field_label(f)},
                        {"section", field_section(f.path)},
                        {"words", f.words},
                        {"type", f.type},
                        {"value", f.value},
                        {"fallback", f.fallback},
                        {"choices", f.choices}});
  return controls;
}

}  // namespace trainyard
