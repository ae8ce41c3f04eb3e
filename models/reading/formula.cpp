#include "models/reading/formula.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "sim/error.hpp"
#include "sim/units.hpp"

namespace trainyard {
namespace {

using Value = std::function<double(std::string_view)>;

/// Numbers, names and formulas in parentheses.
class Formula : public Arithmetic {
 public:
  Formula(std::string_view text, const Value& value) : Arithmetic(text), value_(value) {}
  double result() {
    const double result = sum();
    if (next() != 0) refuse();
    return result;
  }

 private:
  const Value& value_;

  [[noreturn]] void refuse() const {
    throw UserError(fmt::format("\"{}\": a formula of numbers and names expected at \"{}\"", text_, text_.substr(at_)));
  }
  double factor() override {
    if (take('-')) return -factor();
    if (take('(')) {
      const double inner = sum();
      if (!take(')')) refuse();
      return inner;
    }
    const auto is_word_character = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
    };
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word_character(text_[at_])) ++at_;
    if (at_ == begin) refuse();
    const std::string_view word = text_.substr(begin, at_ - begin);
    if ((word == "floor" || word == "min" || word == "max") && take('(')) {
      const double first = sum();
      const bool is_pair = word != "floor";
      if (is_pair && !take(',')) refuse();
      const double second = is_pair ? sum() : 0;
      if (!take(')')) refuse();
      return !is_pair ? std::floor(first) : word == "min" ? std::min(first, second) : std::max(first, second);
    }
    return std::isalpha(static_cast<unsigned char>(word.front())) ? value_(word) : parse_number(word);
  }
};

}  // namespace

char Arithmetic::next() {
  while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool Arithmetic::take(char c) {
  if (next() != c) return false;
  ++at_;
  return true;
}

double Arithmetic::sum() {
  double sum = product();
  while (true)
    if (take('+'))
      sum += product();
    else if (take('-'))
      sum -= product();
    else
      return sum;
}

double Arithmetic::product() {
  double product = factor();
  while (true)
    if (take('*'))
      product *= factor();
    else if (take('/'))
      product /= factor();
    else
      return product;
}

double evaluate(std::string_view formula, const Value& value) { return Formula(formula, value).result(); }

}  // namespace trainyard
