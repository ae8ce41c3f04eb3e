// The points of a sweep.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "models/reading/document.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"

namespace trainyard {
namespace {

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

/// A comparison of two products.
struct SweepCondition {
  std::vector<std::string> left, right;  ///< factors: paths of axes, numbers or names
  std::string sign;

  bool holds(const Overrides& values) const {
    const auto text_of = [&values](const std::string& factor) {
      const auto found =
          std::find_if(values.begin(), values.end(), [&](const auto& set) { return set.first == factor; });
      return found == values.end() ? factor : found->second;
    };
    const auto product = [&](const std::vector<std::string>& factors) -> std::optional<double> {
      double all = 1;
      for (const std::string& factor : factors) {
        const std::optional<NumberWithUnit> number = number_with_unit(text_of(factor));
        if (!number) return std::nullopt;
        all *= number->number;
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

SweepCondition parse_condition(const std::string& text, const Sweep& sweep) {
  for (const char* sign : {"<=", ">=", "==", "!=", "<", ">"}) {
    const std::size_t found = text.find(sign);
    if (found == std::string::npos) continue;
    SweepCondition condition{split(text.substr(0, found), '*'),
                             split(text.substr(found + std::string(sign).size()), '*'), sign};
    std::vector<std::string> paths;
    for (const SweepAxis& axis : sweep.axes) paths.push_back(axis.path);
    for (const auto* side : {&condition.left, &condition.right})
      for (const std::string& factor : *side)
        if (factor.empty() || (factor.find('.') != std::string::npos && !number_with_unit(factor) &&
                               std::find(paths.begin(), paths.end(), factor) == paths.end()))
          throw UserError(
              fmt::format("--where {}: \"{}\" is no field that varies{}", text, factor, hint(factor, paths)));
    return condition;
  }
  throw UserError(
      fmt::format("--where {}: two products and <, <=, >, >=, == or != expected, such as "
                  "\"plan.tensor_parallel * plan.pipeline_parallel <= 64\"",
                  text));
}

}  // namespace

SweepAxis parse_sweep_axis(const std::string& option) {
  const auto [path, list] = parse_override_option(option);
  SweepAxis axis{path, {}};
  for (const std::string& value : split(list, ',')) {
    if (value.empty()) throw UserError(fmt::format("--set {}: an empty value in the list", option));
    for (std::string& item : values_of_range(value)) axis.values.push_back(std::move(item));
  }
  return axis;
}

std::vector<SweepAxis> parse_sweep_axes(const std::string& option) {
  std::vector<SweepAxis> axes;
  for (const std::string& item : split(option, '&')) {
    axes.push_back(parse_sweep_axis(item));
    axes.back().with_previous = axes.size() > 1;
    if (axes.back().values.size() != axes.front().values.size())
      throw UserError(fmt::format("--set {}: {} has {} values, {} has {}; fields that move together have equally many",
                                  option, axes.front().path, axes.front().values.size(), axes.back().path,
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
    if (std::all_of(parsed.begin(), parsed.end(), [&](const auto& c) { return c.holds(values); })) indices.push_back(i);
  }
  if (indices.empty()) throw UserError(fmt::format("--where {}: none of {} points meets it", conditions.front(), all));
  selected = std::move(indices);
}

}  // namespace trainyard
