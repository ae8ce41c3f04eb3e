#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "models/reading/document.hpp"
#include "sim/error.hpp"

namespace trainyard {

/// The error of an expression for which the answer has no figure, or a text in place of a number.
struct MissingFigure : UserError {
  using UserError::UserError;
};

/// Evaluates an expression over an answer as --json writes it. An expression has paths (`memory_bytes.peak`,
/// `points[1].step_time_s`, `points[-1].mfu`, `critical_path_s["GPU compute"]`), `count(list)`, `sqrt(x)`, `min(a, b)`,
/// `max(a, b)`, numbers, + - * / and parentheses. A minus needs spaces around it, because names have hyphens. Throws
/// UserError at `where` for a faulty expression, and MissingFigure with the nearest name for an unknown figure.
double figure_of(const nlohmann::ordered_json& answer, const std::string& expression, const Place& where);

/// The result of an expression: a number, or a text if the expression is a path alone that leads to a text.
struct Figure {
  double value = 0;
  std::optional<std::string> text;
  bool is_truth = false;        ///< true or false; `value` is 1 or 0
  std::string kind = "number";  ///< the kind that the figure's name implies (see `with_figures`)
};
Figure read_figure(const nlohmann::ordered_json& answer, const std::string& expression, const Place& where);

/// Writes a number for people. Throws UserError for an unknown kind.
std::string figure_text(double value, const std::string& kind, const Place& where);

/// Replaces each {expression} or {expression | kind} in a sentence by its figure, written for people. Kinds: time (from
/// seconds), bytes, rate (from bytes per second), percent, number. Without a kind, the ending of the figure's name
/// decides: _s, _us, bytes, share, mfu, Bps.
std::string with_figures(const nlohmann::ordered_json& answer, const std::string& sentence, const Place& where);

}  // namespace trainyard
