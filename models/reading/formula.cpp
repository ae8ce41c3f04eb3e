#include "models/reading/formula.hpp"

#include <fmt/format.h>

#include <cctype>

#include "sim/error.hpp"
#include "sim/units.hpp"

namespace trainyard {
namespace {

using Value = std::function<double(std::string_view)>;

/// Evaluates from the left: sums of products of numbers, names and formulas in parentheses.
class Formula {
 public:
  Formula(std::string_view text, const Value& value) : all_(text), rest_(text), value_(value) {}
  double result() {
    const double result = sum();
    if (!takes('\0')) refuse();
    return result;
  }

 private:
  std::string_view all_, rest_;
  const Value& value_;

  [[noreturn]] void refuse() const {
    throw UserError(fmt::format("\"{}\": a formula of numbers and names expected at \"{}\"", all_, rest_));
  }
  /// Skips spaces and the character `c`. Returns false if another character comes next. '\0' stands for the end.
  bool takes(char c) {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    if (c == '\0') return rest_.empty();
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  double sum() {
    double sum = product();
    while (true)
      if (takes('+'))
        sum += product();
      else if (takes('-'))
        sum -= product();
      else
        return sum;
  }
  double product() {
    double product = factor();
    while (true)
      if (takes('*'))
        product *= factor();
      else if (takes('/'))
        product /= factor();
      else
        return product;
  }
  double factor() {
    if (takes('-')) return -factor();
    if (takes('(')) {
      const double inner = sum();
      if (!takes(')')) refuse();
      return inner;
    }
    std::size_t length = 0;
    const auto is_word_character = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
    };
    while (length < rest_.size() && is_word_character(rest_[length])) ++length;
    if (length == 0) refuse();
    const std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return std::isalpha(static_cast<unsigned char>(word.front())) ? value_(word) : parse_number(word);
  }
};

}  // namespace

double evaluate(std::string_view formula, const Value& value) { return Formula(formula, value).result(); }

}  // namespace trainyard
