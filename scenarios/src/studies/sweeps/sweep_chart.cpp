#include "scenarios/src/studies/sweeps/sweep_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "models/reading/document.hpp"
#include "scenarios/src/pictures/chart.hpp"
#include "sim/error.hpp"
#include "sim/json_text.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

constexpr double kChartWidth = 704, kChartHeight = 360, kMostChartWidth = 2400, kBesideLabels = 90;
constexpr double kLogarithmicFrom = 8;  // least ratio of the largest value to the smallest of a logarithmic axis
constexpr double kZeroFrom = 1.5;       // least ratio of the largest height to the smallest of an axis from 0
constexpr std::size_t kMostLegendEntries = 24, kMostLabelBytes = 28;

struct DrawnPoint {
  std::map<std::string, std::string> set;
  ordered_json figures;
};

std::vector<DrawnPoint> possible_points(const Sweep& sweep, const std::vector<SweepPoint>& points) {
  std::vector<DrawnPoint> possible;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!points[i].error.empty() || points[i].figures.empty()) continue;
    const Overrides set = sweep.point(i);
    possible.push_back({{set.begin(), set.end()}, parse_ordered_json(points[i].figures)});
  }
  return possible;
}

std::string without_underscores(std::string text) {
  std::ranges::replace(text, '_', ' ');
  return text;
}

/// The name of a column in words, without its unit, which the labels of the axis have: "samples a second" for
/// samples_per_s, "step time" for step_time_s.
std::string column_words(std::string column) {
  constexpr std::string_view rate = "_per_s";
  for (const std::string_view unit : {rate, std::string_view("_bytes"), std::string_view("_s")})
    if (column.ends_with(unit)) {
      column.resize(column.size() - unit.size());
      if (unit == rate) column += " a second";
      break;
    }
  if (column.starts_with("mfu")) column.replace(0, 3, "MFU");
  if (column == "gpus") column = "GPUs";
  return without_underscores(column);
}

/// The name of a swept field in words: its last component, and the one before if that alone says little.
std::string field_words(const std::string& path) {
  static const std::set<std::string> general{"base", "count", "kind", "label", "name", "rate", "size", "type"};
  const std::size_t dot = path.rfind('.');
  if (dot == std::string::npos || !general.contains(path.substr(dot + 1)))
    return without_underscores(path.substr(dot == std::string::npos ? 0 : dot + 1));
  const std::size_t above = path.rfind('.', dot - 1);
  const std::size_t begin = above == std::string::npos ? 0 : above + 1;
  return without_underscores(path.substr(begin, dot - begin) + " " + path.substr(dot + 1));
}

/// A swept field as an axis: a value is at its number if all values have one, with the same unit; else at its place in
/// the list.
class FieldAxis {
 public:
  FieldAxis(const Sweep& sweep, const std::string& path) : path_(path) {
    for (std::size_t i = 0; i < sweep.points(); ++i)
      for (const auto& [field, value] : sweep.point(i))
        if (field == path && places_.try_emplace(value, texts_.size()).second) texts_.push_back(value);
    for (const std::string& text : texts_) {
      char* end = nullptr;
      const double number = std::strtod(text.c_str(), &end);
      const std::string unit(trim(std::string_view(text).substr(static_cast<std::size_t>(end - text.c_str()))));
      const bool is_quantity = end != text.c_str() && std::isfinite(number) && !has_digits(unit);  // 8W2PS is a word
      has_numbers_ = has_numbers_ && is_quantity && (numbers_.empty() || unit == unit_);
      unit_ = unit;
      numbers_.push_back(number);
    }
  }

  const std::string& path() const { return path_; }
  bool has_numbers() const { return has_numbers_; }
  std::size_t values() const { return texts_.size(); }
  /// Returns the name in words with the unit, for example "hca rate (Gbit/s)".
  std::string name() const {
    const std::string words = field_words(path_);
    return has_numbers_ && !unit_.empty() ? fmt::format("{} ({})", words, unit_) : words;
  }
  double position(const std::string& text) const {
    const std::size_t place = places_.at(text);
    return has_numbers_ ? numbers_[place] : static_cast<double>(place);
  }
  bool is_logarithmic() const {
    if (!has_numbers_) return false;
    const auto [least, most] = std::minmax_element(numbers_.begin(), numbers_.end());
    return *least > 0 && *most >= kLogarithmicFrom * *least;
  }
  ChartAxis chart_axis() const {
    return ChartAxis(is_logarithmic() ? ChartAxis::Scale::log2
                     : has_numbers_   ? ChartAxis::Scale::linear
                                      : ChartAxis::Scale::places);
  }
  /// Returns the width of a chart in which labels do not touch.
  double chart_width() const {
    return has_numbers_ ? kChartWidth
                        : std::clamp(label_width() * static_cast<double>(values()) + kBesideLabels, kChartWidth,
                                     kMostChartWidth);
  }
  TickLabel tick_label() const {
    if (has_numbers_) return short_number;
    const auto shown = std::max(1.0, std::floor((chart_width() - kBesideLabels) / label_width()));
    const auto stride = static_cast<std::size_t>(std::ceil(static_cast<double>(values()) / shown));
    return [texts = texts_, stride](double value) {
      const auto place = static_cast<std::size_t>(std::lround(value));
      return place < texts.size() && place % stride == 0 ? short_text(texts[place]) : std::string();
    };
  }

 private:
  std::string path_, unit_;
  std::vector<std::string> texts_;
  std::map<std::string, std::size_t> places_;
  std::vector<double> numbers_;
  bool has_numbers_ = true;

  static bool has_digits(const std::string& text) { return text.find_first_of("0123456789") != std::string::npos; }
  double label_width() const {
    double width = 0;
    for (const std::string& text : texts_) width = std::max(width, Svg::text_width(short_text(text), 11) + 14);
    return width;
  }
  static std::string short_text(const std::string& text) {
    return text.size() <= kMostLabelBytes ? text : text.substr(0, kMostLabelBytes - 3) + "...";
  }
};

std::vector<FieldAxis> field_axes(const Sweep& sweep) {
  std::vector<FieldAxis> axes;
  for (const SweepAxis& axis : sweep.axes) axes.emplace_back(sweep, axis.path);
  return axes;
}

/// Returns the field whose values name the points: they are no numbers, and each of at least three points has another
/// one. Null: there is no such field.
const FieldAxis* naming_axis(const std::vector<FieldAxis>& axes, std::size_t points) {
  const auto found = std::ranges::find_if(
      axes, [points](const FieldAxis& axis) { return !axis.has_numbers() && axis.values() == points && points > 2; });
  return found == axes.end() ? nullptr : &*found;
}

const FieldAxis& horizontal_axis(const std::vector<FieldAxis>& axes, const FieldAxis* naming,
                                 const std::string& across) {
  if (axes.empty()) throw UserError("--svg: a chart of a sweep expected at least one swept field (--set)");
  if (across.empty() && naming) return *naming;
  return *std::ranges::max_element(axes, [&across](const FieldAxis& a, const FieldAxis& b) {
    const auto rank = [&across](const FieldAxis& axis) {
      return std::tuple(axis.path() == across, axis.has_numbers(), axis.values());
    };
    return rank(a) < rank(b);
  });
}

/// Returns the column on the vertical axis: the stated one; samples/s if the points have names, of loops and engines their
/// answers/s; else the first column whose values differ, of loops and engines the first one of their own.
std::string vertical_column(const std::vector<DrawnPoint>& points, bool has_names, const std::string& up) {
  if (!up.empty()) return up;
  std::string first;
  const auto any_has = [&points](const char* column) {
    return std::ranges::any_of(points, [column](const DrawnPoint& p) { return p.figures.contains(column); });
  };
  const std::string prefix = any_has("post_training_step_time_s") ? "post_training_"
                             : any_has("generation_time_s")       ? "generation_"
                                                                  : "";
  const std::string rate = prefix == "generation_" ? "generation_requests_per_s" : prefix + "samples_per_s";
  for (const SweepColumn& column : sweep_columns()) {
    if (!std::string_view(column.name).starts_with(prefix)) continue;
    std::set<double> values;
    for (const DrawnPoint& point : points)
      if (point.figures.contains(column.name) && point.figures[column.name].is_number())
        values.insert(point.figures[column.name].get<double>());
    if (values.empty()) continue;
    if (has_names && column.name == rate) return column.name;
    if (first.empty() || (!has_names && values.size() > 1)) first = column.name;
    if (!has_names && values.size() > 1) break;
  }
  return first;
}

TickLabel label_of_column(const std::string& column) {
  if (column.ends_with("_bytes")) return [](double v) { return show(Bytes{v}); };
  if (column.ends_with("_s") && column.find("_per_s") == std::string::npos)
    return [](double v) { return show(Seconds{v}); };
  if (column.starts_with("mfu") || column.starts_with("goodput") || column == "scaling_efficiency")
    return [](double v) { return percent(v); };
  return short_number;
}

/// Returns the name of a line: the values of the fields that distinguish it.
std::string line_name(const std::vector<std::string>& others, const DrawnPoint& point) {
  std::string name;
  for (const std::string& path : others)
    name += fmt::format("{}{} {}", name.empty() ? "" : ", ", field_words(path), point.set.at(path));
  return name;
}

/// Returns the fields other than `across` that differ between points with the same value of it.
std::vector<std::string> distinguishing_fields(const std::vector<FieldAxis>& axes, const std::string& across,
                                               const std::vector<DrawnPoint>& points) {
  std::vector<std::string> fields;
  for (const FieldAxis& axis : axes) {
    if (axis.path() == across) continue;
    std::map<std::string, std::set<std::string>> values;
    for (const DrawnPoint& point : points) values[point.set.at(across)].insert(point.set.at(axis.path()));
    if (std::ranges::any_of(values, [](const auto& entry) { return entry.second.size() > 1; }))
      fields.push_back(axis.path());
  }
  return fields;
}

}  // namespace

void check_chart_axes(const Sweep& sweep, const SweepChartAxes& chosen) {
  std::vector<std::string> paths, columns{"speedup", "ideal_samples_per_s", "scaling_efficiency"};
  for (const SweepAxis& axis : sweep.axes) paths.push_back(axis.path);
  for (const SweepColumn& column : sweep_columns()) columns.emplace_back(column.name);
  const auto check = [](const char* flag, const std::string& name, const char* what,
                        const std::vector<std::string>& names) {
    if (!name.empty() && std::ranges::find(names, name) == names.end())
      throw UserError(fmt::format("{} {}: {}{}", flag, name, what, hint(name, names)));
  };
  check("--across", chosen.across, "not a swept field", paths);
  check("--up", chosen.up, "unknown column", columns);
}

bool shows_scaling(const Sweep& sweep, const std::vector<SweepPoint>& points) {
  const std::vector<DrawnPoint> possible = possible_points(sweep, points);
  std::set<double> devices;
  for (const DrawnPoint& point : possible) devices.insert(point.figures.value("gpus", 0.0));
  const std::vector<FieldAxis> axes = field_axes(sweep);
  const FieldAxis* naming = naming_axis(axes, points.size());
  // Labels such as 8W2PS say more than the number of GPUs, which is that of the workers.
  if (naming && naming->path().ends_with("servers.label")) return false;
  return devices.size() > 1 && (devices.size() == possible.size() || !naming);
}

std::string sweep_chart(const Sweep& sweep, const std::vector<SweepPoint>& points, const SweepChartAxes& chosen) {
  const std::vector<DrawnPoint> possible = possible_points(sweep, points);
  const std::vector<FieldAxis> axes = field_axes(sweep);
  const FieldAxis* naming = naming_axis(axes, points.size());
  const FieldAxis& across = horizontal_axis(axes, naming, chosen.across);
  const std::string up = vertical_column(possible, &across == naming, chosen.up);
  const std::vector<std::string> others = distinguishing_fields(axes, across.path(), possible);
  std::map<std::string, std::size_t> places;  // numbers of lines, indexed by name
  const auto scale = up.ends_with("_bytes") ? ChartAxis::Scale::binary : ChartAxis::Scale::linear;
  Chart chart{"", across.chart_axis(), ChartAxis(scale), across.tick_label(), label_of_column(up)};
  ChartSheet sheet{.title = sweep.scenario.stem().string(),
                   .note = fmt::format("{} over {}{}", column_words(up), across.name(),
                                       across.is_logarithmic() ? ", logarithmic" : ""),
                   .description = fmt::format("{} over {}", column_words(up), across.name()),
                   .width = across.chart_width(),
                   .height = kChartHeight};
  for (const DrawnPoint& point : possible) {
    if (!point.figures.contains(up) || !point.figures[up].is_number()) continue;
    const std::string name = line_name(others, point);
    const auto [place, is_new] = places.try_emplace(name, places.size());
    if (is_new) {
      chart.series.push_back({series_color(place->second)});
      if (!name.empty() && place->second < kMostLegendEntries)
        sheet.legend.push_back({series_color(place->second), name});
    }
    chart.series[place->second].points.push_back(
        {across.position(point.set.at(across.path())), point.figures[up].get<double>(), "", true});
  }
  if (chart.series.empty()) throw UserError(fmt::format("--svg: no possible point has a number in column {}", up));
  double least = HUGE_VAL, most = 0;
  for (const ChartSeries& series : chart.series)
    for (const ChartSeries::Point& point : series.points) {
      least = std::min(least, point.y);
      most = std::max(most, point.y);
    }
  // Heights are compared by eye, so an axis begins at 0 unless the values differ little.
  if (least > 0 && most >= kZeroFrom * least) chart.y.include(0);
  for (ChartSeries& series : chart.series)
    sort_stably(series.points, [](const ChartSeries::Point& a, const ChartSeries::Point& b) { return a.x < b.x; });
  return charts_svg(sheet, {chart});
}

}  // namespace trainyard
