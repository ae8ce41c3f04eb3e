#include "scenarios/studies/sweep.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/planning/size.hpp"
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

/// The program that computes, by its file: a new build must not take the answers of the old one.
std::string program_stamp() {
  struct stat status = {};
  if (::stat("/proc/self/exe", &status) != 0) return "";
  return fmt::format("{} {} {}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

void describe(const Node& node, std::string& out) {
  out += fmt::format("{}{}:{};", static_cast<int>(node.kind), node.quoted ? "q" : "", node.scalar);
  for (const Node& item : node.items) describe(item, out);
  for (const auto& [key, field] : node.fields) {
    out += key + "=";
    describe(field, out);
  }
  out += ")";
}

/// Everything that the answer at a point depends on, as one number.
std::string point_key(const Scenario& s, const std::string& stamp) {
  std::string all = stamp + "\n";
  describe(s.document, all);
  for (const FigureSource& figure : s.sources) all += figure.figure + "=" + figure.value + "\n";
  all += fmt::format("{} {} {} {}", s.network.parameters(), s.network.forward_flops().value,
                     s.network.backward_flops().value, s.network.activations().value);
  return text_hash(all);
}

/// A point as children and the journal write it: its figures, or {"error": ...}.
SweepPoint point_from_text(const std::string& text) {
  const json j = parse_json(text);
  if (j.contains("error")) return {true, j.at("error"), ""};
  return {true, "", text};
}

/// Reads every point in children, some points a child: errors, and keys of the journal.
struct Checked {
  std::vector<std::string> errors, keys;
  std::vector<char> done;
};
Checked check_points(const Sweep& sweep, std::size_t count) {
  const std::size_t parts = std::min<std::size_t>(count, static_cast<std::size_t>(processors()) * 8);
  const auto first = [&](std::size_t part) { return part * count / parts; };
  const std::string stamp = program_stamp();
  const std::vector<std::string> texts = in_children(parts, processors(), [&](std::size_t part) {
    json lines = json::array();
    for (std::size_t i = first(part); i < first(part + 1); ++i) try {
        const Scenario s = read_scenario(sweep.scenario, sweep.point(i));
        if (!s.prescribed_step.given()) require_simulable(s, plan(s));
        lines.push_back({"", point_key(s, stamp)});
      } catch (const UserError& e) {
        lines.push_back({e.what(), ""});
      }
    return json_text(lines);
  });
  Checked checked{std::vector<std::string>(count), std::vector<std::string>(count), std::vector<char>(count)};
  for (std::size_t part = 0; part < parts; ++part) {
    if (texts[part].empty()) continue;  // interrupted
    const json lines = parse_json(texts[part]);
    for (std::size_t i = first(part); i < first(part + 1); ++i) {
      checked.errors[i] = lines.at(i - first(part)).at(0);
      checked.keys[i] = lines.at(i - first(part)).at(1);
      checked.done[i] = 1;
    }
  }
  return checked;
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

std::string all_impossible(std::size_t points, const std::string& first) {
  return points == 1 ? first : fmt::format("all {} points are impossible; the first: {}", points, first);
}

std::vector<SweepPoint> run_sweep(const Sweep& sweep, const SweepOptions& options) {
  const std::size_t count = sweep.points();
  const Checked checked = check_points(sweep, count);
  if (std::all_of(checked.errors.begin(), checked.errors.end(), [](const std::string& e) { return !e.empty(); }))
    throw UserError(all_impossible(count, checked.errors.front()));

  Journal journal(options.journal);
  std::vector<SweepPoint> points(count);
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < count; ++i) {
    if (!checked.errors[i].empty()) {
      points[i].done = true;
      points[i].error = checked.errors[i];
    } else if (checked.done[i] && !take_from(journal, checked.keys[i], points[i])) {
      open.push_back(i);
    }
  }
  std::size_t done = count - open.size();
  const auto simulate_point = [&](std::size_t k) {
    try {
      Scenario s = read_scenario(sweep.scenario, sweep.point(open[k]));
      s.failures.find_best = false;  // no column shows it
      return column_figures(simulate_training(s));
    } catch (
        const UserError& e) {  // found only in the run, such as a deadlock: this point is impossible, not the sweep
      return json_text(json{{"error", e.what()}});
    }
  };
  in_children(open.size(), processors(), simulate_point, [&](std::size_t k, const std::string& text) {
    points[open[k]] = point_from_text(text);
    journal.add(checked.keys[open[k]], text);
    if (options.progress) options.progress(++done, count);
  });
  return points;
}

}  // namespace trainyard
