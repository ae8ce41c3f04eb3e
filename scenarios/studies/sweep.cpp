#include "scenarios/studies/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "scenarios/reading/measured_family.hpp"
#include "scenarios/studies/answer_key.hpp"
#include "scenarios/studies/failure_study.hpp"
#include "scenarios/studies/sweep_journal.hpp"
#include "sim/json_text.hpp"
#include "sim/process/child.hpp"

namespace trainyard {
namespace {

using nlohmann::json;

std::string trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return std::string(text);
}

/// Splits at separators that are in no quotes and no brackets.
std::vector<std::string> split(std::string_view list, char separator) {
  std::vector<std::string> values;
  std::size_t from = 0;
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : separator;
    if (i == list.size() || (c == separator && depth <= 0 && quote == 0)) {
      values.push_back(trimmed(list.substr(from, i - from)));
      from = i + 1;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return values;
}

/// A point as children and the journal write it: its figures, or {"error": ...}.
SweepPoint point_from_text(const std::string& text) {
  const json j = parse_json(text);
  if (j.contains("error")) return {true, j.at("error"), ""};
  return {true, "", text};
}

/// The points of a sweep as workers take them: what is read for one is there for the next.
class PointReader {
 public:
  explicit PointReader(const Sweep& sweep)
      : sweep_(sweep), document_(read_scenario_document(sweep.scenario)), name_(sweep.scenario.stem().string()) {}

  Scenario read(std::size_t point) const { return read_scenario(document_, name_, sweep_.point(point)); }

 private:
  const Sweep& sweep_;
  Node document_;
  std::string name_;
};

/// What a worker says of a point: its key in the journal, a line end, and its figures or error. One that cannot be read has
/// no key.
struct Told {
  std::string key, text;
};
Told told_in(const std::string& line) {
  const std::size_t end = line.find('\n');
  return {line.substr(0, end), line.substr(end + 1)};
}
std::string impossible(const UserError& e) { return json_text(json{{"error", e.what()}}); }

std::string told_of(const PointReader& reader, std::size_t point) {
  std::string key;
  try {
    Scenario s = reader.read(point);
    key = answer_key(s) + "\n";
    s.failures.find_best = false;  // no column shows it
    return key + column_figures(simulate_training(s));
  } catch (const UserError& e) {  // such as a deadlock, found only in the run: this point is impossible, not the sweep
    return (key.empty() ? "\n" : key) + impossible(e);
  }
}

/// From the journal, if it has the point whole.
bool take_from(const Journal& journal, const std::string& key, SweepPoint& point) {
  const std::string* line = journal.find(key);
  if (!line) return false;
  try {
    point = point_from_text(*line);
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

/// Points that the journal has; those that are still to be simulated.
std::vector<std::size_t> take_known(const PointReader& reader, const Journal& journal,
                                    std::vector<SweepPoint>& points) {
  std::vector<std::size_t> open;
  if (journal.empty()) {
    open.resize(points.size());
    std::iota(open.begin(), open.end(), std::size_t{0});
    return open;
  }
  const auto key_of = [&reader](std::size_t point) -> std::string {
    try {
      return answer_key(reader.read(point));
    } catch (const UserError&) {  // said again where it would be simulated
      return "";
    }
  };
  const std::vector<std::string> keys = in_workers(points.size(), processors(), key_of);
  for (std::size_t i = 0; i < points.size() && !interrupted(); ++i)
    if (!take_from(journal, keys[i], points[i])) open.push_back(i);
  return open;
}

}  // namespace

SweepAxis parse_sweep_axis(const std::string& option) {
  const auto [path, list] = parse_override_option(option);
  SweepAxis axis{path, split(list, ',')};
  for (const std::string& value : axis.values)
    if (value.empty()) throw UserError(fmt::format("--set {}: an empty value in the list", option));
  return axis;
}

std::vector<SweepAxis> parse_sweep_axes(const std::string& option) {
  std::vector<SweepAxis> axes;
  for (const std::string& one : split(option, '&')) {
    axes.push_back(parse_sweep_axis(one));
    axes.back().with_previous = axes.size() > 1;
    if (axes.back().values.size() != axes.front().values.size())
      throw UserError(fmt::format("--set {}: {} has {} values, {} has {}; fields that move together have equally many",
                                  option, axes.front().path, axes.front().values.size(), axes.back().path,
                                  axes.back().values.size()));
  }
  return axes;
}

std::size_t Sweep::points() const {
  std::size_t count = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k)
      if (axes[k].path == axes[i].path)
        throw UserError(fmt::format("--set {}: given twice; put all its values into one list", axes[i].path));
    if (!axes[i].with_previous) count *= axes[i].values.size();
    if (count > kMostSweepPoints)
      throw UserError(fmt::format("a sweep of over {} points; make the lists shorter", kMostSweepPoints));
  }
  return count;
}

Overrides Sweep::point(std::size_t index) const {
  Overrides overrides(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    overrides[i] = {axes[i].path, axes[i].values[index % axes[i].values.size()]};
    if (!axes[i].with_previous) index /= axes[i].values.size();
  }
  return overrides;
}

std::vector<SweepPoint> run_sweep(const Sweep& sweep, const SweepOptions& options) {
  const std::size_t count = sweep.points();
  const PointReader reader(sweep);
  Journal journal(options.journal);
  std::vector<SweepPoint> points(count);
  const std::vector<std::size_t> open = take_known(reader, journal, points);
  std::size_t done = count - open.size();
  const auto note = [&](std::size_t k, const std::string& line) {
    const Told told = told_in(line);
    points[open[k]] = point_from_text(told.text);
    if (!told.key.empty()) journal.add(told.key, told.text);
    if (options.progress) options.progress(++done, count);
  };
  in_workers(
      open.size(), processors(), [&](std::size_t k) { return told_of(reader, open[k]); }, note);
  if (std::all_of(points.begin(), points.end(), [](const SweepPoint& p) { return !p.error.empty(); }))
    throw UserError(count == 1
                        ? points.front().error
                        : fmt::format("all {} points are impossible; the first: {}", count, points.front().error));
  return points;
}

}  // namespace trainyard
