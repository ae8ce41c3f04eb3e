#pragma once
#include <cstdint>
#include <vector>

#include "models/reading/document.hpp"

namespace trainyard {

/// Tokens of experts relative to each other, as a scenario states them.
struct ExpertLoads {
  enum class Kind : std::uint8_t { even, zipf, lognormal };
  Kind kind = Kind::even;
  double exponent = 1, sigma = 0.5;
  std::uint64_t seed = 1;
  std::vector<double>
      values;  ///< indexed by expert, or by rank of the expert axis; empty: the distribution states them
  Place place;

  bool are_given() const { return kind != Kind::even || !values.empty(); }
};

/// Reads `load` of `plan.expert_parallel`: a list, `zipf`, `lognormal`, or a map. Throws UserError with the place for
/// negative loads, for a file without the columns `expert` and `tokens`, and for keys that exclude each other.
ExpertLoads read_expert_loads(Fields& expert_parallel);

/// Returns the stated values, or those of the distribution for each expert. zipf: the i-th most popular expert has a
/// load of i^−exponent, and the seed decides which expert that is. lognormal: exp(sigma·z) with z standard normal.
std::vector<double> loads_of(const ExpertLoads&, std::int64_t experts);

}  // namespace trainyard
