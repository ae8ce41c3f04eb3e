#pragma once
#include <cstdint>
#include <string>

namespace trainyard {

// Texts for errors: the nearest legal numbers below and above a wrong one, for example "4 or 8".

/// The divisors of `dividend` nearest to `number` that are multiples of `unit`, which divides `dividend`. All arguments
/// are at least 1.
std::string nearest_divisors(std::int64_t dividend, std::int64_t number, std::int64_t unit = 1);
/// The divisors nearest to `number` with their noun: "1 rank", "4 or 8 ranks".
std::string nearest_ranks(std::int64_t dividend, std::int64_t number);
/// The multiples of `unit`, above 0, nearest to `number`. `unit` is at least 1, `number` at least 0.
std::string nearest_multiples(std::int64_t unit, std::int64_t number);

}  // namespace trainyard
