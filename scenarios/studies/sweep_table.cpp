// The tables of a sweep.
#include <nlohmann/json.hpp>

#include "scenarios/studies/sweep.hpp"
#include "sim/process/output.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

/// Those that the point has.
ordered_json figures(const SweepPoint& p) {
  ordered_json named{{"step_time_s", p.step_time},
                     {"samples_per_s", p.samples_per_s},
                     {"tokens_per_s_per_gpu", p.tokens_per_s_per_gpu},
                     {"tflops_per_gpu", p.tflops_per_gpu},
                     {"mfu", p.mfu}};
  if (!p.said)
    named.update({{"memory_peak_bytes", p.memory_peak},
                  {"fits", p.fits},
                  {"bottleneck", p.bottleneck},
                  {"exposed_communication_s", p.exposed_communication}});
  if (const auto& t = p.training) {
    named.update({{"goodput", t->goodput},
                  {"goodput_deviation", t->goodput_deviation},
                  {"training_time_s", t->end},
                  {"effective_step_time_s", t->step_time},
                  {"lost_work_s", t->lost_work}});
    if (t->checkpoint_interval > 0) named["checkpoint_interval_s"] = t->checkpoint_interval;
  }
  return named;
}

/// Of the table: in the order of the point that has most of them.
std::vector<std::string> columns_of(const std::vector<SweepPoint>& points) {
  std::vector<std::string> columns;
  for (const SweepPoint& point : points) {
    if (!point.error.empty()) continue;
    std::vector<std::string> merged;
    const ordered_json all = figures(point);
    for (const auto& [name, value] : all.items()) merged.push_back(name);
    for (const std::string& name : columns)
      if (!all.contains(name)) merged.push_back(name);
    columns = merged;
  }
  return columns;
}

/// RFC 4180.
std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos && !cell.starts_with(' ') && !cell.ends_with(' ')) return cell;
  std::string out = "\"";
  for (const char c : cell) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string csv_cell(const ordered_json& value) {
  if (value.is_string()) return quoted(value.get<std::string>());
  if (value.is_number_float()) return exact(value.get<double>());
  return value.dump();
}

}  // namespace

std::string sweep_csv(const Sweep& sweep, const std::vector<SweepPoint>& points) {
  std::string text;
  for (const SweepAxis& axis : sweep.axes) text += quoted(axis.path) + ",";
  const std::vector<std::string> columns = columns_of(points);
  for (const std::string& column : columns) text += column + ",";
  text += "error\n";
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (const auto& [path, value] : sweep.point(i)) text += quoted(value) + ",";
    const ordered_json of_point = points[i].error.empty() ? figures(points[i]) : ordered_json::object();
    for (const std::string& column : columns)
      text += (of_point.contains(column) ? csv_cell(of_point[column]) : "") + ",";
    text += quoted(points[i].error) + "\n";
  }
  return text;
}

ordered_json sweep_json(const Sweep& sweep, const std::vector<SweepPoint>& points) {
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < points.size(); ++i) {
    ordered_json set = ordered_json::object();
    for (const auto& [path, value] : sweep.point(i)) set[path] = value;
    ordered_json& row = rows.emplace_back(ordered_json{{"set", set}});
    if (points[i].error.empty())
      row.update(figures(points[i]));
    else
      row["error"] = points[i].error;
  }
  return {{"scenario", sweep.scenario.string()}, {"points", rows}};
}

}  // namespace trainyard
