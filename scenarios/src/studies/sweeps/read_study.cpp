// Reads the file of a study.
#include <fmt/format.h>

#include "models/reading/document_text.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"

namespace trainyard {
namespace {

/// Writes a value in one line, as in an override.
std::string override_text(const Node& node) {
  return node.kind == Node::Kind::scalar && !node.quoted ? node.scalar : flow_text(node);
}

std::string range_text(const char* name, const Node& numbers) {
  if (numbers.kind != Node::Kind::list)
    fail(numbers.place, fmt::format("{}: [from, to] or three numbers expected", name));
  std::string text = std::string(name) + "(";
  for (const Node& number : numbers.items) text += (text.ends_with('(') ? "" : ", ") + number.scalar;
  return text + ")";
}

/// Reads a list, {range: [from, to, step]}, {log_range: [from, to, factor]}, or one value.
SweepAxis axis_of(const std::string& path, const Node& values) {
  std::string list;
  if (values.kind == Node::Kind::list)
    for (const Node& item : values.items) list += (list.empty() ? "" : ",") + override_text(item);
  else if (const Node* range = values.find("range"))
    list = range_text("range", *range);
  else if (const Node* powers = values.find("log_range"))
    list = range_text("log-range", *powers);
  else
    list = override_text(values);
  try {
    return parse_sweep_axis(path + "=" + list);
  } catch (const UserError& e) {
    fail(values.place, fmt::format("{}: {}", path, e.what()));
  }
}

void add_axes(Sweep& sweep, const Node& map, bool change_together) {
  if (map.kind != Node::Kind::map)
    fail(map.place, "fields with their values expected, such as cluster.nodes: [1, 2, 4]");
  std::size_t first = sweep.axes.size();
  for (const auto& [path, values] : map.fields) {
    sweep.axes.push_back(axis_of(path, values));
    SweepAxis& axis = sweep.axes.back();
    axis.with_previous = change_together && sweep.axes.size() > first + 1;
    if (change_together && axis.values.size() != sweep.axes[first].values.size())
      fail(values.place, fmt::format("together: {} has {} values, {} has {}", sweep.axes[first].path,
                                     sweep.axes[first].values.size(), path, axis.values.size()));
  }
}

}  // namespace

Sweep read_study(const std::filesystem::path& study_file, const std::optional<Node>& contents) {
  Sweep single{study_file, {}};
  single.document = contents;
  if (study_file.string().find('@') != std::string::npos) return single;
  const std::filesystem::path path = contents ? study_file : scenario_file(study_file);
  const Node document = contents ? *contents : read_document(path);
  const Node* scenario = document.find("scenario");
  if (!scenario || scenario->kind != Node::Kind::scalar || document.find("cluster")) return single;
  Fields fields(document, "a study");
  const std::string name = fields.text("scenario");
  const std::filesystem::path neighbour = path.parent_path() / name;
  std::error_code ignored;
  Sweep sweep{
      !std::filesystem::exists(neighbour, ignored) && shipped_scenario(name) ? std::filesystem::path(name) : neighbour,
      {}};
  fields.text("name", "");
  if (const Node* set = fields.child("set")) add_axes(sweep, *set, false);
  if (const std::vector<Node>* groups = fields.list("together"))
    for (const Node& group : *groups) add_axes(sweep, group, true);
  sweep.conditions = fields.texts("where");
  fields.finish();
  return sweep;
}

}  // namespace trainyard
