#pragma once
#include <functional>
#include <string_view>

namespace trainyard {

/// Numbers and names with + - * / and parentheses: "tokens / (step_time_s * gpus)". `value` says what a name stands for.
/// Throws UserError for what is no formula.
double evaluate(std::string_view formula, const std::function<double(std::string_view name)>& value);

}  // namespace trainyard
