#include "scenarios/src/lessons/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "models/reading/formula.hpp"
#include "scenarios/src/lessons/data_size.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

struct FigureKind {
  const char* name;
  std::string (*show)(double);
};

/// Writes a number with four significant digits, an integer with all digits; from 1000 on in groups of three.
std::string plain_number(double v) {
  if (std::abs(v) >= 1e15 || (v != std::round(v) && std::abs(v) < 1000)) return fmt::format("{:.4g}", v);
  if (v != std::round(v)) v = parse_number(fmt::format("{:.3e}", v));
  return with_commas(v);
}

/// Writes a time as `show` does, but long times in larger units.
std::string duration(double seconds) {
  constexpr std::pair<double, const char*> kLonger[] = {{86400, "days"}, {3600, "hours"}, {60, "minutes"}};
  for (const auto& [unit, name] : kLonger)
    if (seconds >= 2 * unit) return fmt::format("{:.3g} {}", seconds / unit, name);
  return show(Seconds{seconds});
}

constexpr FigureKind kFigureKinds[] = {
    {"number", plain_number},
    {"time", duration},
    {"bytes", [](double v) { return show(Bytes{v}); }},
    {"rate", [](double v) { return show(BytesPerSecond{v}); }},
    {"percent", [](double v) { return percent(v); }},
    {"microseconds", [](double v) { return show(Seconds{v * 1e-6}); }},
};

const FigureKind& kind_named(const std::string& name, const Place& where) {
  return row_named(kFigureKinds, name, where, "unknown kind of figure");
}

/// Returns the kind of a figure. The last name of its path whose ending implies a kind decides.
const char* kind_by_name(const std::vector<std::string>& names) {
  constexpr std::pair<const char*, const char*> kEndings[] = {
      {"_us", "microseconds"}, {"_s", "time"},     {"bytes", "bytes"}, {"_Bps", "rate"},
      {"share", "percent"},    {"mfu", "percent"}, {"hfu", "percent"}, {"with_attention", "percent"},
      {"goodput", "percent"}};
  for (auto name = names.rbegin(); name != names.rend(); ++name)
    for (const auto& [ending, kind] : kEndings)
      if (name->ends_with(ending) && !name->ends_with("per_s")) return kind;
  return "number";
}

/// Evaluates an expression in a single pass from left to right.
class FigureReader : public Arithmetic {
 public:
  FigureReader(const ordered_json& answer, std::string_view text, const Place& where)
      : Arithmetic(text), answer_(answer), where_(where) {}

  double all() {
    const double v = sum();
    if (next() != 0) refuse("an operator");
    return v;
  }
  /// Returns the value at a path if the expression is a path alone; else null. `names`: receives the names of the path.
  const ordered_json* lone_path(std::vector<std::string>& names) {
    if (std::isalpha(static_cast<unsigned char>(next())) == 0 || !function().empty()) return nullptr;
    const ordered_json& found = path(names);
    return next() == 0 ? &found : nullptr;
  }

 private:
  const ordered_json& answer_;
  const Place& where_;

  [[noreturn]] void refuse(const std::string& expected) const {
    fail(where_, fmt::format("figure \"{}\": {} expected at \"{}\"", text_, expected, text_.substr(at_)));
  }
  [[noreturn]] void miss(const std::string& what) const {
    throw MissingFigure(fmt::format("{}: figure \"{}\": {}", where_.text(), text_, what));
  }
  void close() {
    if (!take(')')) refuse("\")\"");
  }
  /// Returns the name of the function that begins here, with its parenthesis; "" if none does.
  std::string_view function() const {
    for (const std::string_view name : {"count(", "sqrt(", "min(", "max("})
      if (text_.substr(at_).starts_with(name)) return name;
    return {};
  }
  /// Reads a function to its end.
  double value_of(std::string_view name) {
    at_ += name.size();
    std::vector<std::string> names;
    double v = name == "count(" ? static_cast<double>(path(names).size()) : sum();
    while (name.starts_with('m') && take(',')) v = name == "min(" ? std::min(v, sum()) : std::max(v, sum());
    close();
    if (name != "sqrt(") return v;
    if (v < 0) miss(fmt::format("the square root of {:g}", v));
    return std::sqrt(v);
  }
  double factor() override {
    const char c = next();
    if (take('(')) {
      const double v = sum();
      close();
      return v;
    }
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.') {
      std::size_t end = at_;
      while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) != 0 || text_[end] == '.'))
        ++end;
      const double v = parse_number(text_.substr(at_, end - at_));
      at_ = end;
      return v;
    }
    if (const std::string_view name = function(); !name.empty()) return value_of(name);
    std::vector<std::string> names;
    const ordered_json& found = path(names);
    if (found.is_boolean()) return found.get<bool>() ? 1 : 0;
    if (!found.is_number()) miss(fmt::format("{} is no number", names.back()));
    return found.get<double>();
  }
  std::string name() {
    next();
    const auto part = [this](std::size_t i) {
      const auto c = static_cast<unsigned char>(i < text_.size() ? text_[i] : ' ');
      return std::isalnum(c) != 0 || c == '_';
    };
    const std::size_t from = at_;
    while (part(at_) || (at_ > from && at_ < text_.size() && text_[at_] == '-' && part(at_ + 1))) ++at_;
    if (at_ == from) refuse("the name of a figure");
    return std::string(text_.substr(from, at_ - from));
  }
  const ordered_json& member(const ordered_json& object, const std::string& key) const {
    if (object.is_object() && object.contains(key)) return object[key];
    std::vector<std::string> keys;
    if (object.is_object())
      for (const auto& [name, value] : object.items()) keys.push_back(name);
    miss(fmt::format("there is no \"{}\"{}", key, hint(key, keys)));
  }
  const ordered_json& path(std::vector<std::string>& names) {
    const ordered_json* found = &member(answer_, names.emplace_back(name()));
    while (true) {
      if (take('.'))
        found = &member(*found, names.emplace_back(name()));
      else if (take('['))
        found = &item(*found, names);
      else
        return *found;
    }
  }
  /// Reads what follows a bracket: an index (a negative one counts from the end), or a key in quotes.
  const ordered_json& item(const ordered_json& list, std::vector<std::string>& names) {
    const std::size_t end = text_.find(']', at_);
    if (end == std::string_view::npos) refuse("\"]\"");
    const std::string inside(text_.substr(at_, end - at_));
    at_ = end + 1;
    if (inside.size() > 2 && inside.front() == '"')
      return member(list, names.emplace_back(inside.substr(1, inside.size() - 2)));
    const std::int64_t size = list.is_array() ? static_cast<std::int64_t>(list.size()) : 0;
    const std::int64_t number = parse_integer(inside), index = number < 0 ? size + number : number;
    if (index < 0 || index >= size) miss(fmt::format("there is no item {} of {}", inside, size));
    return list[static_cast<std::size_t>(index)];
  }
};

/// Returns true if the user typed the collective's size in powers of 1000. The collective is that of the only run, or
/// of the run that the expression names.
bool asked_decimal(const ordered_json& answer, const std::string& expression) {
  const auto decimal = [](const ordered_json& run) { return run.is_object() && run.value("decimal_sizes", false); };
  return decimal(answer) || std::any_of(answer.items().begin(), answer.items().end(), [&](const auto& run) {
           return decimal(run.value()) && expression.find(run.key() + ".") != std::string::npos;
         });
}

/// Returns the value of an expression as a text for readers. `kind` "": that of the figure's name.
std::string shown(const ordered_json& answer, const std::string& expression, const std::string& kind,
                  const Place& where) {
  const Figure figure = read_figure(answer, expression, where);
  if (figure.text) return *figure.text;
  if (figure.is_truth) return figure.value != 0 ? "yes" : "no";
  const FigureKind& wanted = kind_named(kind.empty() ? figure.kind : kind, where);
  // If the collective's size was typed in powers of 1000 ("160MB"), the sentences of its lesson write sizes so too.
  if (wanted.name == std::string_view("bytes") && asked_decimal(answer, expression)) return decimal_size(figure.value);
  return wanted.show(figure.value);
}

}  // namespace

Figure read_figure(const ordered_json& answer, const std::string& expression, const Place& where) {
  std::vector<std::string> names;
  const ordered_json* found = FigureReader(answer, expression, where).lone_path(names);
  Figure figure;
  if (found) figure.kind = kind_by_name(names);
  if (found && found->is_string()) {
    figure.text = found->get<std::string>();
    return figure;
  }
  figure.is_truth = found && found->is_boolean();
  figure.value = figure_of(answer, expression, where);
  return figure;
}

std::string figure_text(double value, const std::string& kind, const Place& where) {
  return kind_named(kind, where).show(value);
}

double figure_of(const ordered_json& answer, const std::string& expression, const Place& where) {
  return FigureReader(answer, expression, where).all();
}

std::string with_figures(const ordered_json& answer, const std::string& sentence, const Place& where) {
  std::string text;
  for (std::size_t from = 0;;) {
    const std::size_t open = sentence.find('{', from);
    text += sentence.substr(from, open - from);
    if (open == std::string::npos) return text;
    const std::size_t close = sentence.find('}', open);
    if (close == std::string::npos) fail(where, fmt::format("\"}}\" expected after \"{}\"", sentence.substr(open)));
    const std::string_view inside = std::string_view(sentence).substr(open + 1, close - open - 1);
    const std::size_t bar = inside.find('|');
    const std::string kind(bar == std::string::npos ? "" : trim(inside.substr(bar + 1)));
    text += shown(answer, std::string(trim(inside.substr(0, bar))), kind, where);
    from = close + 1;
  }
}

}  // namespace trainyard
