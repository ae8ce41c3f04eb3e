#pragma once
#include <functional>
#include <string_view>

namespace trainyard {

/// Evaluates numbers and names with + - * / and parentheses: "tokens / (step_time_s * gpus)". `value` returns the value
/// of a name. Throws UserError if the text is no formula.
double evaluate(std::string_view formula, const std::function<double(std::string_view name)>& value);

}  // namespace trainyard
