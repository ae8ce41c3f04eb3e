#include "scenarios/src/lessons/claims.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "scenarios/src/lessons/figures.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

constexpr double kContrast = 0.05;  // least distance of a contrast, as a share of the limit
constexpr const char* kRelations[] = {"at_most", "at_least", "above", "below", "equals"};

/// A number or quantity. `kind`: the kind of figure that its unit implies; empty: it has no unit.
struct StatedAmount {
  double value = 0;
  std::string kind;
};

/// Returns no value if the text is an expression.
std::optional<StatedAmount> parsed_quantity(const std::string& text) {
  using Parse = double (*)(std::string_view);
  constexpr std::pair<const char*, Parse> kParsers[] = {
      {"percent", [](std::string_view t) { return parse_number(trim(t.substr(0, t.size() - 1))) / 100; }},
      {"", parse_number},
      {"time", [](std::string_view t) { return parse_seconds(t).value; }},
      {"bytes", [](std::string_view t) { return parse_bytes(t).value; }},
      {"rate", [](std::string_view t) { return parse_bandwidth(t).value; }}};
  if (text == "true" || text == "false") return StatedAmount{text == "true" ? 1.0 : 0.0, ""};
  for (const auto& [kind, parse] : kParsers) try {
      if (kind != std::string_view("percent") || text.ends_with('%')) return StatedAmount{parse(text), kind};
    } catch (const UserError&) {  // it is of another kind
    }
  return std::nullopt;
}

/// Converts a time to the unit of a figure in microseconds.
StatedAmount in_figure_unit(StatedAmount quantity, const std::string& kind) {
  if (kind == "microseconds" && quantity.kind == "time") return {quantity.value * 1e6, kind};
  return quantity;
}

/// Returns the least distance from the limit, or the tolerance of an equality.
double distance_of(const Criterion& criterion, double value, double limit, const std::string& kind) {
  constexpr double rounding = 1e-9;
  const double largest = std::max(std::abs(value), std::abs(limit));
  if (criterion.distance.empty())
    return criterion.relation == "equals" ? rounding * largest : kContrast * std::abs(limit);
  const StatedAmount distance = in_figure_unit(*parsed_quantity(criterion.distance), kind);
  // A percentage is a share of the limit. If the limit is 0, the percentage itself is the distance.
  return distance.kind == "percent" && limit != 0 ? distance.value * std::abs(limit) : distance.value;
}

bool holds(const Criterion& criterion, double value, double limit, const std::string& kind) {
  const double slack = 1e-9 * std::max(std::abs(value), std::abs(limit));
  if (criterion.relation == "at_most") return value <= limit + slack;
  if (criterion.relation == "at_least") return value >= limit - slack;
  const double distance = distance_of(criterion, value, limit, kind);
  if (criterion.relation == "equals") return std::abs(value - limit) <= distance + slack;
  return criterion.relation == "above" ? value > limit && value >= limit + distance - slack
                                       : value < limit && value <= limit - distance + slack;
}

/// Returns "at most ", "above (by 20 %) ", or "" for an equality without a stated tolerance.
std::string relation_words(const Criterion& criterion) {
  std::string words = criterion.relation == "equals" ? "" : criterion.relation + " ";
  std::ranges::replace(words, '_', ' ');
  if (criterion.relation == "above" || criterion.relation == "below")
    words += fmt::format("(by {}) ",
                         criterion.distance.empty() ? fmt::format("{:g} %", 100 * kContrast) : criterion.distance);
  if (criterion.relation == "equals" && !criterion.distance.empty())
    words += fmt::format("(within {}) ", criterion.distance);
  return words;
}

[[noreturn]] void refuse_text(const Place& place, const std::string& expression, const std::string& text) {
  throw MissingFigure(fmt::format("{}: figure \"{}\": \"{}\" is no number", place.text(), expression, text));
}

}  // namespace

Criterion read_criterion(const Node& node) {
  Fields fields(node, "a criterion");
  Criterion criterion{fields.text("figure"), "", "", "", fields.text("words", ""), node.place};
  for (const char* relation : kRelations) {
    if (!fields.has(relation)) continue;
    if (!criterion.relation.empty())
      fail(node.place, fmt::format("a criterion: {} or {}, not both", criterion.relation, relation));
    criterion.relation = relation;
    criterion.limit = fields.text(relation);
  }
  if (criterion.relation.empty()) fail(node.place, "a criterion: at_most, at_least, above, below or equals expected");
  const bool contrast = criterion.relation == "above" || criterion.relation == "below";
  fields.require_condition("by", contrast, "with above and below only");
  fields.require_condition("within", criterion.relation == "equals", "with equals only");
  const char* key = contrast ? "by" : "within";
  criterion.distance = fields.text(key, "");
  if (!criterion.distance.empty() && !parsed_quantity(criterion.distance))
    fields.refuse(key, fmt::format("\"{}\": a percentage, a number or a quantity expected", criterion.distance));
  fields.finish();
  return criterion;
}

Verdict judge(const Criterion& criterion, const ordered_json& answer) {
  const std::string subject = criterion.words.empty() ? criterion.figure : criterion.words;
  const Figure figure = read_figure(answer, criterion.figure, criterion.place);
  if (figure.text && criterion.relation != "equals") refuse_text(criterion.place, criterion.figure, *figure.text);
  if (figure.text)
    return {*figure.text == criterion.limit, fmt::format("{}: {}; wanted {}", subject, *figure.text, criterion.limit)};
  std::optional<StatedAmount> quantity = parsed_quantity(criterion.limit);
  if (!quantity) {
    const Figure other = read_figure(answer, criterion.limit, criterion.place);
    if (other.text) refuse_text(criterion.place, criterion.limit, *other.text);
    quantity = StatedAmount{other.value, ""};
  }
  const StatedAmount limit = in_figure_unit(*quantity, figure.kind);
  const std::string kind = limit.kind.empty() ? figure.kind : limit.kind;
  const auto shown = [&](double v) {
    return figure.is_truth ? std::string(v != 0 ? "yes" : "no") : figure_text(v, kind, criterion.place);
  };
  return {
      holds(criterion, figure.value, limit.value, figure.kind),
      fmt::format("{}: {}; wanted {}{}", subject, shown(figure.value), relation_words(criterion), shown(limit.value))};
}

Claim read_claim(const Node& node, const std::string& what) {
  Fields fields(node, what);
  Claim claim{fields.text("text"), {}, node.place};
  const std::vector<Node>* criteria = fields.list("holds");
  if (!criteria) fail(node.place, what + ".holds: at least one criterion expected that makes the sentence true");
  for (const Node& item : *criteria) claim.holds.push_back(read_criterion(item));
  fields.finish();
  return claim;
}

std::vector<Claim> read_claims(Fields& fields, const char* key, const std::string& what) {
  std::vector<Claim> claims;
  if (const std::vector<Node>* items = fields.list(key))
    for (const Node& item : *items) claims.push_back(read_claim(item, what));
  return claims;
}

bool JudgedClaim::holds() const { return std::ranges::all_of(verdicts, &Verdict::holds); }

JudgedClaim judge(const Claim& claim, const ordered_json& answer) {
  JudgedClaim judged;
  for (const Criterion& criterion : claim.holds) judged.verdicts.push_back(judge(criterion, answer));
  judged.text = with_figures(answer, claim.text, claim.place);
  return judged;
}

}  // namespace trainyard
