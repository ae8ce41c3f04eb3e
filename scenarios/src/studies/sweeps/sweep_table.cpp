// Writes the tables of a sweep.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/reading/document.hpp"
#include "scenarios/src/answer/csv_cell.hpp"
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "sim/error.hpp"
#include "sim/index.hpp"
#include "sim/json_text.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

double sum_of(const ordered_json& numbers) {
  double sum = 0;
  for (const auto& [name, number] : numbers.items()) sum += number.get<double>();
  return sum;
}

/// Returns the field at a path such as "memory_bytes.peak"; null if there is none.
const ordered_json* find_path(const ordered_json& answer, std::string_view path) {
  const ordered_json* json_value = &answer;
  while (json_value && !path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    const std::string name(path.substr(0, dot));
    if (json_value->is_array()) {
      const std::size_t index = std::stoul(name);
      json_value = index < json_value->size() ? &json_value->at(index) : nullptr;
    } else {
      const auto field = json_value->find(name);
      json_value = field == json_value->end() ? nullptr : &*field;
    }
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return json_value;
}

ordered_json figures(const SweepPoint& point) {
  return point.figures.empty() ? ordered_json::object() : parse_ordered_json(point.figures);
}

std::string figure_cell(const ordered_json& value) {
  if (value.is_string()) return csv_cell(value.get<std::string>());
  if (value.is_number_float()) return exact(value.get<double>());
  return json_text(value);
}

/// Describes the answer's fields under their column names.
std::vector<FieldRow> sweep_rows() {
  std::vector<FieldRow> rows{
      {"scenario", "text", "the scenario's file", ""},
      {"unfinished", "text", "how far the sweep came; the other points are missing", "if a signal ended it"},
      {"points", "list", "the points of the sweep, the last list of values varying fastest", ""},
      {"points[].set", "{key: text}", "the point's values, by field of the scenario", ""}};
  const std::vector<FieldRow> answer = result_fields().rows();
  for (const SweepColumn& column : sweep_columns()) {
    std::string path = column.path;
    const bool is_item = path.ends_with(".0") || path.ends_with(".1");  // an item of an array
    if (is_item) path.resize(path.size() - 2);
    const auto field = std::ranges::find_if(answer, [&](const FieldRow& row) { return row.path == path; });
    if (field == answer.end()) throw InternalError("a column of no field: " + path);
    rows.push_back({std::string("points[].") + column.name,
                    is_item ? path.ends_with("_bytes") ? "bytes" : "s" : field->type, field->words, field->when});
  }
  rows.push_back(
      {"points[].error", "text", "why the point is impossible, instead of figures", "if the point is impossible"});
  return rows;
}

const RegisterJsonReference sweep_table_json{"sweep", "a row per point; the CSV has the same columns", sweep_rows};

}  // namespace

const std::vector<SweepColumn>& sweep_columns() {
  static const std::vector<SweepColumn> columns{
      {"step_time_s", "step_time_s", false},
      {"step_time_low_s", "step_time_interval_s.0", false},
      {"step_time_high_s", "step_time_interval_s.1", false},
      {"step_time_ci95_s", "step_time_ci95_s", false},
      {"samples_per_s", "samples_per_s", false},
      {"tokens_per_s_per_gpu", "tokens_per_s_per_gpu", false},
      {"tflops_per_gpu", "tflops_per_gpu", false},
      {"post_training_step_time_s", "post_training.step_time_s", false},
      {"post_training_generation_s", "post_training.generation_s", false},
      {"post_training_training_s", "post_training.training_s", false},
      {"post_training_samples_per_s", "post_training.samples_per_s", false},
      {"post_training_tokens_per_s_per_gpu", "post_training.tokens_per_s_per_gpu", false},
      {"generation_time_s", "generation.time_s", false},
      {"generation_requests_per_s", "generation.requests_per_s", false},
      {"generation_tokens_per_s", "generation.tokens_per_s", false},
      {"generation_tokens_per_s_per_gpu", "generation.tokens_per_s_per_gpu", false},
      {"generation_first_token_s", "generation.answer_times_s.first_token", false},
      {"generation_token_s", "generation.answer_times_s.token", false},
      {"mfu", "mfu", false},
      {"mfu_with_attention", "mfu_with_attention", false},
      {"memory_peak_bytes", "memory_bytes.peak", true},
      {"memory_device_bytes", "memory_bytes.device", true},
      {"memory_low_bytes", "memory_interval_bytes.0", true},
      {"memory_high_bytes", "memory_interval_bytes.1", true},
      {"fits", "fits", true},
      {"fits_in_words", "fits_in_words", true},
      {"out_of_memory_probability", "out_of_memory_probability", true},
      {"bottleneck", "bottleneck.resource", true},
      {"exposed_communication_s", "breakdown_s.exposed_communication", true},
      {"goodput", "goodput", false},
      {"goodput_deviation", "goodput_deviation", false},
      {"training_time_s", "training_time_s", false},
      {"training_days", "training_days", false},
      {"gpu_hours", "gpu_hours", false},
      {"training_time_without_failures_s", "training_time_without_failures_s", false},
      {"effective_step_time_s", "failures.effective_step_time_s", false},
      {"lost_work_s", "lost_work_s", false},
      {"checkpoint_interval_s", "checkpoint_interval_s", false},
      {"gpus", "gpus", false},
      {"step_energy_J", "energy.step_J", false},
      {"tokens_per_J", "tokens_per_J", false},
      {"samples_per_J", "samples_per_J", false},
      {"money_step", "money.step", false},
      {"money_training", "money.training", false},
      {"money_per_million", "money.per_million", false},
      {"money_per_million_answers", "money.per_million_answers", false},
      {"purchase", "money.ownership.purchase", false},
      {"ownership_year", "money.ownership.year", false},
      {"ownership_per_million", "money.ownership.per_million", false},
      {"ownership_total", "money.ownership.total", false}};
  return columns;
}

std::string column_figures(const Result& result) {
  const ordered_json answer = result_fields().json(result);
  ordered_json column_values = ordered_json::object();
  for (const SweepColumn& column : sweep_columns()) {
    if (column.simulated && !result.step_time_source.empty()) continue;
    if (const ordered_json* field = find_path(answer, column.path))
      column_values[column.name] = field->is_object() ? ordered_json(sum_of(*field)) : *field;
  }
  return json_text(column_values);
}

SweepOrder parse_sweep_order(const std::string& sort, int top) {
  if (top < 0) throw UserError(fmt::format("--top {}: expected 1 or more", top));
  SweepOrder order{sort, false, static_cast<std::size_t>(top)};
  if (order.column.starts_with('-')) {
    order.falling = true;
    order.column.erase(0, 1);
  }
  std::vector<std::string> names;
  for (const SweepColumn& column : sweep_columns()) names.emplace_back(column.name);
  if (!order.column.empty() && std::ranges::find(names, order.column) == names.end())
    throw UserError(fmt::format("--sort {}: unknown column{}", sort, hint(order.column, names)));
  return order;
}

std::vector<std::size_t> sweep_rows_in(const SweepOrder& order, const std::vector<SweepPoint>& points) {
  std::vector<std::size_t> rows = consecutive_numbers(std::size_t{0}, points.size());
  if (!order.column.empty()) {
    std::vector<ordered_json> values;
    std::vector<std::string> present;
    for (const SweepPoint& point : points) {
      const ordered_json all = figures(point);
      values.push_back(all.value(order.column, ordered_json()));
      for (const auto& [name, value] : all.items())
        if (std::ranges::find(present, name) == present.end()) present.push_back(name);
    }
    if (!present.empty() && std::ranges::find(present, order.column) == present.end())
      throw UserError(fmt::format("--sort {}: no point has this column{}", order.column, hint(order.column, present)));
    sort_stably(rows, [&](std::size_t a, std::size_t b) {
      if (values[a].is_null() || values[b].is_null()) return !values[a].is_null() && values[b].is_null();
      return order.falling ? values[b] < values[a] : values[a] < values[b];
    });
  }
  if (order.top > 0) rows.resize(std::min(rows.size(), order.top));
  return rows;
}

void SweepTable::note(const SweepPoint& point) {
  const ordered_json all = figures(point);
  auto next = columns_.begin();  // a new column follows the one before it in its point
  for (const auto& [name, value] : all.items()) {
    const auto column = std::ranges::find(columns_, name);
    next = std::next(column != columns_.end() ? column : columns_.insert(next, name));
  }
}

std::string SweepTable::head() const {
  std::string text;
  for (const SweepAxis& axis : sweep_.axes) text += csv_cell(axis.path) + ",";
  for (const std::string& column : columns_) text += column + ",";
  return text + "error\n";
}

std::string SweepTable::row(std::size_t index, const SweepPoint& point) const {
  std::string text;
  for (const auto& [path, value] : sweep_.point(index)) text += csv_cell(value) + ",";
  const ordered_json point_figures = figures(point);
  for (const std::string& column : columns_)
    text += (point_figures.contains(column) ? figure_cell(point_figures[column]) : "") + ",";
  return text + csv_cell(point.error) + "\n";
}

std::string sweep_csv(const Sweep& sweep, const std::vector<SweepPoint>& points, const SweepOrder& order) {
  SweepTable table(sweep);
  for (const SweepPoint& point : points) table.note(point);
  std::string text = table.head();
  for (const std::size_t i : sweep_rows_in(order, points)) text += table.row(i, points[i]);
  return text;
}

ordered_json sweep_json(const Sweep& sweep, const std::vector<SweepPoint>& points, const SweepOrder& order) {
  ordered_json rows = ordered_json::array();
  for (const std::size_t i : sweep_rows_in(order, points)) {
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
