#pragma once
#include <cstddef>
#include <functional>
#include <string_view>

namespace trainyard {

/// Evaluates a sum of products from left to right. A subclass reads what stands between + - * and /.
class Arithmetic {
 public:
  explicit Arithmetic(std::string_view text) : text_(text) {}
  Arithmetic(const Arithmetic&) = delete;
  Arithmetic& operator=(const Arithmetic&) = delete;
  virtual ~Arithmetic() = default;

 protected:
  const std::string_view text_;
  std::size_t at_ = 0;  // position of the next character

  /// Returns the next character that is not a space; 0 at the end.
  char next();
  /// Skips spaces and the character. Returns false if another character comes next.
  bool take(char c);
  double sum();
  virtual double factor() = 0;

 private:
  double product();
};

/// Evaluates numbers and names with + - * /, parentheses, floor(…), min(…, …) and max(…, …): "tokens / (step_time_s * gpus)". `value` returns
/// the value of a name. Throws UserError if the text is no formula.
double evaluate(std::string_view formula, const std::function<double(std::string_view name)>& value);

}  // namespace trainyard
