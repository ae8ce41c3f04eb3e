#pragma once
#include <cstdint>
#include <string>

namespace trainyard {

/// For errors: what would have done instead of a number, the nearest below and above: "4 or 8".

/// Divisors of `whole`. Both at least 1.
std::string nearest_divisors(std::int64_t whole, std::int64_t number);
/// Multiples of `unit`, above 0. `unit` at least 1, `number` at least 0.
std::string nearest_multiples(std::int64_t unit, std::int64_t number);

}  // namespace trainyard
