#include "models/reading/nearest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {

std::string nearest_divisors(std::int64_t dividend, std::int64_t number, std::int64_t unit) {
  std::int64_t below = unit, above = 0;
  const auto offer = [&](std::int64_t divisor) {
    if (divisor % unit != 0) return;
    if (divisor <= number) below = std::max(below, divisor);
    if (divisor >= number && (above == 0 || divisor < above)) above = divisor;
  };
  for (std::int64_t divisor = 1; divisor <= dividend / divisor; ++divisor) {
    if (dividend % divisor != 0) continue;
    offer(divisor);
    offer(dividend / divisor);
  }
  return above == 0 || above == below ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

std::string nearest_ranks(std::int64_t dividend, std::int64_t number) {
  const std::string text = nearest_divisors(dividend, number);
  return text + (text == "1" ? " rank" : " ranks");
}

std::string nearest_multiples(std::int64_t unit, std::int64_t number) {
  const std::int64_t below = number / unit * unit;
  if (below == 0) return fmt::format("{}", unit);
  return below == number ? fmt::format("{}", below) : fmt::format("{} or {}", below, below + unit);
}

}  // namespace trainyard
