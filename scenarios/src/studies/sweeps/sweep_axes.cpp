// The points of a sweep.
// Reads the file of a study.
#include "scenarios/src/studies/sweeps/sweep_axes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <utility>

#include "models/reading/document.hpp"
#include "models/reading/document_text.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/planning/layer_division.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"

namespace trainyard {
namespace {

/// Appends all cuts of the layers to `cuts`. `layers`: number of layers after those in `first_parts`.
void cut(std::vector<int>& first_parts, int layers, std::size_t parts, const Place& place,
         std::vector<std::string>& cuts) {
  if (first_parts.size() + 1 == parts) {
    if (cuts.size() == kMostSweepValues)
      fail(place, fmt::format("more than {} ways to cut the layers into {} parts", kMostSweepValues, parts));
    cuts.push_back(fmt::format("[{}{}{}]", fmt::join(first_parts, ", "), first_parts.empty() ? "" : ", ", layers));
    return;
  }
  const int later_parts = static_cast<int>(parts - first_parts.size()) - 1;
  for (int part = 1; part + later_parts <= layers; ++part) {
    first_parts.push_back(part);
    cut(first_parts, layers - part, parts, place, cuts);
    first_parts.pop_back();
  }
}

/// Splits at separators outside of quotes and brackets.
std::vector<std::string> split(std::string_view list, char separator) {
  std::vector<std::string> values;
  std::size_t from = 0;
  int depth = 0;
  char quote = 0;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    const char c = i < list.size() ? list[i] : separator;
    if (i == list.size() || (c == separator && depth <= 0 && quote == 0)) {
      values.emplace_back(trim(list.substr(from, i - from)));
      from = i + 1;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{' || c == '(') {
      ++depth;
    } else if (c == ']' || c == '}' || c == ')') {
      --depth;
    }
  }
  return values;
}

/// A number and the text after it: "400 Gbit/s".
struct NumberWithUnit {
  double number = 0;
  std::string unit;
};
std::optional<NumberWithUnit> number_with_unit(const std::string& text) {
  const std::size_t end = std::min(text.find_first_not_of("0123456789+-.eE"), text.size());
  try {
    return NumberWithUnit{parse_number(trim(std::string_view(text).substr(0, end))),
                          std::string(trim(std::string_view(text).substr(end)))};
  } catch (const UserError&) {
    return std::nullopt;
  }
}

/// Returns the values of range(…) or log-range(…), or any other value itself.
std::vector<std::string> values_of_range(const std::string& value) {
  const bool powers = value.starts_with("log-range(") || value.starts_with("log_range(");
  if (!powers && !value.starts_with("range(")) return {value};
  const auto refusal = [&value, powers](const std::string& why) -> UserError {
    return UserError(fmt::format("{}: {}; {} expected, such as {}", value, why,
                                 powers ? "log-range(FROM, TO, FACTOR)" : "range(FROM, TO, STEP)",
                                 powers ? "log-range(100 Gbit/s, 800 Gbit/s, 2)" : "range(1, 8, 1)"));
  };
  if (!value.ends_with(')')) throw refusal("no closing parenthesis");
  const std::size_t open = value.find('(');
  std::vector<NumberWithUnit> numbers;
  for (const std::string& part : split(std::string_view(value).substr(open + 1, value.size() - open - 2), ',')) {
    const std::optional<NumberWithUnit> number = number_with_unit(part);
    if (!number) throw refusal(fmt::format("\"{}\" is no number", part));
    numbers.push_back(*number);
  }
  if (numbers.size() < 2 || numbers.size() > 3) throw refusal("two or three numbers expected");
  const double from = numbers[0].number, to = numbers[1].number,
               step = numbers.size() == 3 ? numbers[2].number
                      : powers            ? 2
                                          : 1;
  for (std::size_t i = 1; i < numbers.size(); ++i)
    if (!numbers[i].unit.empty() && numbers[i].unit != numbers[0].unit) throw refusal("one unit for all expected");
  if (!(from <= to) || !(powers ? step > 1 && from > 0 : step > 0)) throw refusal("it has no values");
  const double count = std::floor((powers ? std::log(to / from) / std::log(step) : (to - from) / step) + 1e-9) + 1;
  if (!(count <= static_cast<double>(kMostSweepValues))) throw refusal(fmt::format("over {} values", kMostSweepValues));
  std::vector<std::string> values;
  for (double i = 0; i < count; ++i) {
    const double number = powers ? from * std::pow(step, i) : from + i * step;
    values.push_back(fmt::format("{:.12g}{}{}", number, numbers[0].unit.empty() ? "" : " ", numbers[0].unit));
  }
  return values;
}

/// A number in the base unit of its dimension.
struct Magnitude {
  double value = 0;
  std::string dimension;  ///< "": a number without a unit
};

/// Reads a number with or without a unit. No value: the text is neither.
std::optional<Magnitude> find_magnitude(const std::string& text) {
  if (const std::optional<double> number = find_number(text)) return Magnitude{*number, ""};
  const auto read = [&text](const char* dimension, auto parse) -> std::optional<Magnitude> {
    try {
      return Magnitude{parse(text).value, dimension};
    } catch (const UserError&) {
      return std::nullopt;
    }
  };
  std::optional<Magnitude> found = read("time", parse_seconds);
  if (!found) found = read("bytes", parse_bytes);
  if (!found) found = read("bytes a second", parse_bandwidth);
  if (!found) found = read("FLOP/s", parse_flops_rate);
  if (!found) found = read("frequency", parse_frequency);
  if (!found) found = read("power", parse_power);
  return found;
}

/// A comparison of two products.
struct SweepCondition {
  std::vector<std::string> left, right;  ///< factors: paths of axes, numbers or names
  std::string sign;

  bool compares_order() const { return sign != "==" && sign != "!="; }

  bool holds(const Overrides& values) const {
    const auto text_of = [&values](const std::string& factor) {
      const auto found = std::ranges::find_if(values, [&](const auto& set) { return set.first == factor; });
      return found == values.end() ? factor : found->second;
    };
    const auto product = [&](const std::vector<std::string>& factors) -> std::optional<double> {
      double all = 1;
      for (const std::string& factor : factors) {
        const std::optional<Magnitude> number = find_magnitude(text_of(factor));
        if (!number) return std::nullopt;
        all *= number->value;
      }
      return all;
    };
    const std::optional<double> a = product(left), b = product(right);
    const auto compared = [this](const auto& x, const auto& y) {
      if (sign == "==") return x == y;
      if (sign == "!=") return x != y;
      if (sign == "<=") return x <= y;
      if (sign == ">=") return x >= y;
      return sign == "<" ? x < y : x > y;
    };
    return a && b ? compared(*a, *b) : compared(text_of(left.front()), text_of(right.front()));
  }
};

/// Checks a condition against the fields that a sweep varies.
class ConditionCheck {
 public:
  ConditionCheck(const std::string& text, const Sweep& sweep) : text_(text) {
    for (const SweepAxis& axis : sweep.axes) {
      paths_.push_back(axis.path);
      axes_.push_back(&axis);
    }
  }

  void check(const SweepCondition& condition) const {
    check_side(condition, condition.left, condition.right);
    check_side(condition, condition.right, condition.left);
    if (is_name(condition.left) || is_name(condition.right)) return;
    const std::string dimension = dimension_of(condition.left), other = dimension_of(condition.right);
    if (dimension != other && !is_zero(condition.left) && !is_zero(condition.right))
      refuse(fmt::format("the left side is {}, the right side {}; expected the same unit on both sides",
                         in_words(dimension), in_words(other)));
  }

 private:
  const std::string& text_;
  std::vector<std::string> paths_;
  std::vector<const SweepAxis*> axes_;

  [[noreturn]] void refuse(const std::string& why) const { throw UserError(fmt::format("--where {}: {}", text_, why)); }

  const SweepAxis* axis_of(const std::string& factor) const {
    const auto found = std::ranges::find(axes_, factor, [](const SweepAxis* axis) { return axis->path; });
    return found == axes_.end() ? nullptr : *found;
  }

  static std::string in_words(const std::string& dimension) {
    return dimension.empty() ? "a number without a unit" : dimension;
  }
  bool is_name(const std::vector<std::string>& side) const {
    return side.size() == 1 && !axis_of(side.front()) && !find_magnitude(side.front());
  }
  static bool is_zero(const std::vector<std::string>& side) {
    return side.size() == 1 && find_number(side.front()).value_or(1) == 0;
  }

  /// Each factor is a number, a field that varies, or a value of the one field on the other side.
  void check_side(const SweepCondition& condition, const std::vector<std::string>& side,
                  const std::vector<std::string>& other) const {
    for (const std::string& factor : side) {
      if (const SweepAxis* axis = axis_of(factor)) {
        if (!condition.compares_order() && side.size() == 1 && other.size() == 1) continue;
        for (const std::string& value : axis->values)
          if (!find_magnitude(value))
            refuse(
                fmt::format("{} takes \"{}\", which is no number; expected == or !=, and no product", factor, value));
        continue;
      }
      if (!factor.empty() && find_magnitude(factor)) continue;
      const SweepAxis* named = other.size() == 1 ? axis_of(other.front()) : nullptr;
      if (side.size() == 1 && named && !condition.compares_order()) {
        if (std::ranges::find(named->values, factor) != named->values.end()) continue;
        refuse(fmt::format("{} does not take \"{}\"{}", named->path, factor, hint(factor, named->values)));
      }
      if (factor.find('/') != std::string::npos || factor.find('+') != std::string::npos)
        refuse(
            fmt::format("\"{}\": a side is a product of fields and numbers; multiply the other side in place of "
                        "a division, as in \"plan.tensor_parallel * plan.pipeline_parallel <= 64\"",
                        factor));
      refuse(fmt::format("\"{}\" is no field that varies{}", factor, hint(factor, paths_)));
    }
  }

  /// Returns the dimensions of the factors of a product, which each field has in all its numbers.
  std::string dimension_of(const std::vector<std::string>& side) const {
    std::vector<std::string> all;
    for (const std::string& factor : side) {
      const SweepAxis* axis = axis_of(factor);
      std::optional<std::string> dimension;
      for (const std::string& value : axis ? axis->values : std::vector<std::string>{factor}) {
        const std::optional<Magnitude> number = find_magnitude(value);
        if (!number || (axis && number->value == 0)) continue;
        if (dimension && *dimension != number->dimension)
          refuse(fmt::format("{} takes {} and {}; expected the same unit in all its values", factor,
                             in_words(*dimension), in_words(number->dimension)));
        dimension = number->dimension;
      }
      if (!dimension) return "a name";
      if (!dimension->empty()) all.push_back(*dimension);
    }
    std::ranges::sort(all);
    return fmt::format("{}", fmt::join(all, " times "));
  }
};

SweepCondition parse_condition(const std::string& text, const Sweep& sweep) {
  for (const char* sign : {"<=", ">=", "==", "!=", "<", ">"}) {
    const std::size_t found = text.find(sign);
    if (found == std::string::npos) continue;
    SweepCondition condition{split(text.substr(0, found), '*'),
                             split(text.substr(found + std::string(sign).size()), '*'), sign};
    ConditionCheck(text, sweep).check(condition);
    return condition;
  }
  throw UserError(
      fmt::format("--where {}: two products and <, <=, >, >=, == or != expected, such as \"plan.tensor_parallel * "
                  "plan.pipeline_parallel <= 64\"",
                  text));
}

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

std::vector<std::string> layer_cuts(const Scenario& s) {
  const int parts = s.plan.mesh.parts(s.plan.chunks), layers = layers_to_divide(s.network, s.plan);
  std::vector<int> first_parts;
  std::vector<std::string> cuts;
  cut(first_parts, layers, static_cast<std::size_t>(parts), s.plan.place, cuts);
  return cuts;
}

SweepAxis parse_sweep_axis(const std::string& option, const std::string& flag) {
  const auto [path, list] = parse_override_option(option, flag);
  SweepAxis axis{path, {}};
  for (const std::string& value : split(list, ',')) {
    if (value.empty()) throw UserError(fmt::format("{} {}: an empty value in the list", flag, option));
    for (std::string& item : values_of_range(value)) axis.values.push_back(std::move(item));
  }
  return axis;
}

std::vector<SweepAxis> parse_sweep_axes(const std::string& option, const std::string& flag) {
  std::vector<SweepAxis> axes;
  for (const std::string& item : split(option, '&')) {
    axes.push_back(parse_sweep_axis(item, flag));
    axes.back().with_previous = axes.size() > 1;
    if (axes.back().values.size() != axes.front().values.size())
      throw UserError(fmt::format("{} {}: {} has {} values, {} has {}; fields that move together have equally many",
                                  flag, option, axes.front().path, axes.front().values.size(), axes.back().path,
                                  axes.back().values.size()));
  }
  return axes;
}

std::size_t Sweep::points() const {
  if (selected) return selected->size();
  std::size_t count = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k)
      if (axes[k].path == axes[i].path)
        throw UserError(fmt::format("--set {}: given twice; put all its values into one list", axes[i].path));
    if (!axes[i].with_previous) count *= axes[i].values.size();
    if (count > kMostSweepPoints)
      throw UserError(
          fmt::format("a sweep of over {} points would take days; make the lists shorter", kMostSweepPoints));
  }
  return count;
}

Overrides Sweep::point(std::size_t index) const {
  if (selected) index = selected->at(index);
  Overrides overrides(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    overrides[i] = {axes[i].path, axes[i].values[index % axes[i].values.size()]};
    if (!axes[i].with_previous) index /= axes[i].values.size();
  }
  return overrides;
}

void Sweep::keep_where() {
  if (conditions.empty()) return;
  std::vector<SweepCondition> parsed;
  for (const std::string& text : conditions) parsed.push_back(parse_condition(text, *this));
  selected.reset();
  const std::size_t all = points();
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < all; ++i) {
    const Overrides values = point(i);
    if (std::ranges::all_of(parsed, [&](const auto& c) { return c.holds(values); })) indices.push_back(i);
  }
  if (indices.empty()) throw UserError(fmt::format("--where {}: none of {} points meets it", conditions.front(), all));
  selected = std::move(indices);
}

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
