#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/reading/document.hpp"

namespace trainyard {

/// A figure of an answer as --json writes it: paths (`memory_bytes.peak`, `points[1].step_time_s`, `points[-1].mfu`,
/// `critical_path_s["GPU compute"]`), `count(list)`, numbers, + - * / and parentheses. Minus stands between spaces, as
/// names have hyphens. Throws UserError at `where` that names the nearest figure.
double figure_of(const nlohmann::ordered_json& answer, const std::string& expression, const Place& where);

/// A sentence whose {expression} or {expression | kind} become figures for people. Kinds: time (of seconds), bytes, rate
/// (of bytes a second), percent, number; without one the name's ending tells: _s, _us, bytes, share, mfu, Bps.
std::string told(const nlohmann::ordered_json& answer, const std::string& sentence, const Place& where);

/// What a figure has to be: `{figure: step_time_s, at_most: 1.1 s}`; or at_least, or equals. The limit is a quantity with
/// its unit, a number, a percentage, or an expression itself.
struct Criterion {
  std::string figure, relation, limit;
  std::string words;  ///< for people; empty: the figure and its limit say it
  Place place;
};
Criterion read_criterion(const Node&);

struct Verdict {
  bool holds = false;
  std::string text;  ///< "step_time_s is 1.21 s; at most 1.10 s"
};
Verdict judge(const Criterion&, const nlohmann::ordered_json& answer);

}  // namespace trainyard
