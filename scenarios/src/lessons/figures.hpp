#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/reading/document.hpp"

namespace trainyard {

/// Evaluates an expression over an answer as --json writes it. An expression has paths (`memory_bytes.peak`,
/// `points[1].step_time_s`, `points[-1].mfu`, `critical_path_s["GPU compute"]`), `count(list)`, numbers, + - * / and
/// parentheses. A minus needs spaces around it, because names have hyphens. Throws UserError at `where` for an unknown
/// figure and names the nearest one.
double figure_of(const nlohmann::ordered_json& answer, const std::string& expression, const Place& where);

/// Replaces each {expression} or {expression | kind} in a sentence by its figure, written for people. Kinds: time (from
/// seconds), bytes, rate (from bytes per second), percent, number. Without a kind, the ending of the figure's name
/// decides: _s, _us, bytes, share, mfu, Bps.
std::string told(const nlohmann::ordered_json& answer, const std::string& sentence, const Place& where);

/// A condition on a figure: `{figure: step_time_s, at_most: 1.1 s}`, or with at_least or equals. The limit is a
/// quantity with its unit, a number, a percentage, or another expression.
struct Criterion {
  std::string figure, relation, limit;
  std::string words;  ///< the condition for people; empty: it is made from the figure and its limit
  Place place;
};
Criterion read_criterion(const Node&);

struct Verdict {
  bool holds = false;
  std::string text;  ///< "step_time_s is 1.21 s; at most 1.10 s"
};
Verdict judge(const Criterion&, const nlohmann::ordered_json& answer);

}  // namespace trainyard
