#include "tools/reports/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "scenarios/src/answer/memory_verdict.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "sim/units.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/reports/table.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

std::string number(double v) { return v >= 1e4 && v < 1e15 ? fmt::format("{:.0f}", v) : fmt::format("{:.4g}", v); }

/// A result that the table for people shows.
struct MainResult {
  const char* head;    ///< title of the column
  const char* column;  ///< its column in the full table
  std::string (*text)(const ordered_json&);
  bool of_half = false;  ///< for a loop it is a figure of the training half, for engines one of a forward pass
};

const std::vector<MainResult>& main_results() {
  static const auto plain = [](const ordered_json& v) { return number(v.get<double>()); };
  static const auto share = [](const ordered_json& v) { return percent(v.get<double>()); };
  static const std::vector<MainResult> all{
      {"GPUs", "gpus", plain},
      {"step", "step_time_s", [](const ordered_json& v) { return show(Seconds{v.get<double>()}); }, true},
      {"loop step", "post_training_step_time_s", [](const ordered_json& v) { return show(Seconds{v.get<double>()}); }},
      {"answers/s", "post_training_samples_per_s", plain},
      {"tokens/s a GPU", "post_training_tokens_per_s_per_gpu", plain},
      {"all answered after", "generation_time_s", [](const ordered_json& v) { return show(Seconds{v.get<double>()}); }},
      {"generated tokens/s", "generation_tokens_per_s", plain},
      {"first token after", "generation_first_token_s",
       [](const ordered_json& v) { return show(Seconds{v.get<double>()}); }},
      {"token to token", "generation_token_s", [](const ordered_json& v) { return show(Seconds{v.get<double>()}); }},
      {"samples/s", "samples_per_s", plain, true},
      {"MFU", "mfu", share, true},
      {"memory", "memory_peak_bytes", [](const ordered_json& v) { return show(Bytes{v.get<double>()}); }, true},
      {"fits", "fits_in_words", [](const ordered_json& v) { return v.get<std::string>(); }, true},
      {"out of memory", "out_of_memory_probability",
       [](const ordered_json& v) { return probability_text(v.get<double>(), kSafeRisk); }, true},
      {"bottleneck", "bottleneck", [](const ordered_json& v) { return v.get<std::string>(); }, true},
      {"goodput", "goodput", share},
      {"training", "training_days", [](const ordered_json& v) { return number(v.get<double>()) + " days"; }},
      {"training costs", "money_training", plain},
      {"tokens/J", "tokens_per_J", plain},
      {"samples/J", "samples_per_J", plain},
      {"a million costs", "money_per_million", plain},
      {"owned, a million costs", "ownership_per_million", plain},
      {"speedup", "speedup", plain},
      {"of ideal", "scaling_efficiency", share}};
  return all;
}

/// The axes with more than one value: their paths and titles. A title is the last word of the path if it is unambiguous.
std::vector<std::pair<std::string, std::string>> varying_fields(const Sweep& sweep) {
  const auto word = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
  std::vector<std::pair<std::string, std::string>> fields;  // path and title
  for (const SweepAxis& axis : sweep.axes) {
    if (std::set<std::string>(axis.values.begin(), axis.values.end()).size() < 2) continue;
    const auto named =
        std::ranges::count_if(sweep.axes, [&](const SweepAxis& other) { return word(other.path) == word(axis.path); });
    fields.emplace_back(axis.path, named > 1 ? axis.path : word(axis.path));
  }
  return fields;
}

/// The column that the bars draw: the time of a loop step, until the last answer, or of a step, or the first result.
std::string drawn_column(const std::vector<MainResult>& results) {
  for (const char* time : {"post_training_step_time_s", "generation_time_s", "step_time_s"})
    for (const MainResult& result : results)
      if (std::string(result.column) == time) return result.column;
  return results.empty() ? "" : results.front().column;
}

/// The values of a column as bars of blocks, the largest of them `width` characters; empty for a row without a value.
std::vector<std::string> bars(const ordered_json& rows, const std::string& column) {
  constexpr std::size_t width = 16, parts = 8;
  static const char* const kParts[parts] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto value = [&column](const ordered_json& row) {
    return row.contains(column) && row[column].is_number() ? std::max(0.0, row[column].get<double>()) : 0.0;
  };
  double largest = 0;
  for (const ordered_json& row : rows) largest = std::max(largest, value(row));
  std::vector<std::string> all;
  for (const ordered_json& row : rows) {
    const double share = largest > 0 ? value(row) / largest : 0;
    auto eighths = static_cast<std::size_t>(share * width * parts + 0.5);
    if (eighths == 0 && share > 0) eighths = 1;
    std::string bar;
    for (std::size_t i = 0; i < eighths / parts; ++i) bar += "█";
    all.push_back(bar + kParts[eighths % parts]);
  }
  return all;
}

bool is_number(const std::string& text) { return text.find_first_not_of("0123456789.+-e") == std::string::npos; }

}  // namespace

std::string sweep_report(const Sweep& sweep, const std::vector<SweepPoint>& points, const SweepOrder& order) {
  const ordered_json table = sweep_json(sweep, points, order);
  const ordered_json& rows = table.at("points");
  const auto any = [&rows](const char* key) {
    return std::ranges::any_of(rows, [key](const ordered_json& row) { return row.contains(key); });
  };
  const auto fields = varying_fields(sweep);
  std::vector<MainResult> results = main_results();
  std::erase_if(results, [&](const MainResult& result) {
    std::vector<ordered_json> values;
    for (const ordered_json& row : rows)
      if (row.contains(result.column)) values.push_back(row[result.column]);
    // Some columns are left out if all rows have the same value, and the risk if every row fits.
    const std::string column = result.column;
    if (column == "out_of_memory_probability")
      return std::ranges::all_of(values, [](const ordered_json& v) { return is_safe_risk(v.get<double>()); });
    if (column.ends_with("_per_J") && (!any("money_step") || (column == "samples_per_J" && any("tokens_per_J"))))
      return true;  // energy stands beside costs
    if (values.empty()) return true;
    const bool dull = column == "gpus" || (column == "fits_in_words" && values.front() == "yes");
    return dull && std::ranges::count(values, values.front()) == std::ssize(values);
  });

  TextTable text;
  for (const auto& [path, head] : fields)
    text.add_column(head, std::ranges::all_of(rows, [&p = path](const ordered_json& row) {
                      return is_number(row["set"][p].get<std::string>());
                    }));
  const std::string drawn = drawn_column(results);
  const std::vector<std::string> row_bars = bars(rows, drawn);
  const bool has_loops = any("post_training_step_time_s"), has_engines = any("generation_time_s");
  const bool generates = std::ranges::any_of(
      rows, [](const ordered_json& row) { return row.value("post_training_generation_s", 0.0) > 0; });
  const std::string half = generates ? "half: " : has_loops ? "training: " : has_engines ? "pass: " : "";
  for (const MainResult& result : results) {
    text.add_column(result.of_half ? half + result.head : std::string(result.head),
                    std::string(result.column) != "bottleneck");
    if (drawn == result.column) text.add_column("", false);
  }
  if (any("error")) text.add_column("impossible, since", false);
  std::string same;
  for (const auto& [path, value] : sweep.point(0))
    if (std::ranges::none_of(fields, [&p = path](const auto& field) { return field.first == p; }))
      same += fmt::format("{}{}={}", same.empty() ? "; in all " : ", ", path, value);
  for (const ordered_json& row : rows) {
    auto& cells = text.rows.emplace_back();
    for (const auto& [path, head] : fields) cells.push_back(row["set"][path].get<std::string>());
    for (const MainResult& result : results) {
      cells.push_back(row.contains(result.column) ? result.text(row[result.column]) : "");
      if (drawn == result.column) cells.push_back(row_bars[text.rows.size() - 1]);
    }
    if (any("error")) cells.push_back(row.value("error", ""));
  }
  return fmt::format(
      "{}: {} of {} points{}\n{}{}all columns, exact: --csv FILE (- is stdout), --json FILE, --html FILE\n",
      sweep.scenario.stem().string(), rows.size(), points.size(), same, text.text("  "),
      generates     ? "half: an optimizer step of the training half; other columns are of the loop\n"
      : has_loops   ? "training: an optimizer step of the training step; other columns are of the loop\n"
      : has_engines ? "pass: a forward pass of the plan; other columns are of the engines that answer prompts\n"
                    : "");
}

}  // namespace trainyard
