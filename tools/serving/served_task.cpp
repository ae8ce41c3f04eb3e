#include "tools/serving/served_task.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/reading/document_text.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

const Node* node_at(const Node& document, const std::string& path) {
  const Node* node = &document;
  std::istringstream in(path);
  for (std::string key; node && std::getline(in, key, '.');)
    node = node->kind == Node::Kind::map ? node->find(key) : nullptr;
  return node;
}

bool is_within(const std::string& path, const std::string& map) { return path == map || path.starts_with(map + "."); }

bool is_word(const std::string& text) {
  return !text.empty() && text.front() >= 'a' && text.front() <= 'z' && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

bool is_plain_node(const Node& node, bool (*is_plain_value)(const std::string&)) {
  if (node.kind == Node::Kind::scalar) return is_word(node.scalar) || is_plain_value(node.scalar);
  return std::ranges::all_of(node.fields,
                             [&](const auto& field) { return is_plain_node(field.second, is_plain_value); }) &&
         std::ranges::all_of(node.items, [&](const Node& item) { return is_plain_node(item, is_plain_value); });
}

}  // namespace

std::string ServedTasks::name_of(const Task& task) {
  return fmt::format("task {}: {}", task.file.number, task.file.name);
}

const Task* ServedTasks::find(const std::string& name) const {
  const auto found = std::ranges::find_if(tasks, [&name](const Task& task) { return name_of(task) == name; });
  return found == tasks.end() ? nullptr : &*found;
}

ordered_json tasks_json(const ServedTasks& served) {
  ordered_json tasks = ordered_json::object();
  for (const Task& task : served.tasks)
    tasks[ServedTasks::name_of(task)] = {
        {"title", task.title}, {"level", task.level},           {"objectives", task.objectives},
        {"hints", task.hints}, {"may_change", task.may_change}, {"reproduces", task.reproduces},
        {"paper", task.paper}};
  return tasks;
}

std::vector<ScenarioField> fields_of_task(const Task& task, const Node& document,
                                          const std::vector<ScenarioField>& offered) {
  std::vector<ScenarioField> fields;
  for (const std::string& key : task.may_change) {
    const auto before = fields.size();
    for (const ScenarioField& field : offered)
      if (field.path == key) fields.push_back(field);
    if (fields.size() > before) continue;
    ScenarioField map_field;
    map_field.path = key;
    map_field.type = "as in a scenario, on one line";
    if (const Node* node = node_at(document, key)) map_field.value = flow_text(*node);
    fields.push_back(map_field);
    // The fields inside a map can be set too.
    for (const ScenarioField& field : offered)
      if (field.path != key && is_within(field.path, key)) fields.push_back(field);
  }
  return fields;
}

void require_change(const Task& task, const std::string& path, const std::string& value,
                    bool (*is_plain_value)(const std::string&)) {
  if (std::ranges::none_of(task.may_change, [&path](const std::string& key) { return is_within(path, key); }))
    throw UserError(fmt::format("{}: not among the fields of this page{}", path, hint(path, task.may_change)));
  constexpr std::size_t most = 200;
  const auto plain = [&] {
    try {
      return is_plain_node(parse_override(value, path), is_plain_value);
    } catch (const UserError&) {
      return false;
    }
  };
  if (value.empty() || value.size() > most || !plain())
    throw UserError(fmt::format("{}: \"{}\": numbers with their units, and names, expected", path, value));
}

}  // namespace trainyard
