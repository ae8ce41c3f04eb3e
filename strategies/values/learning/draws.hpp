#pragma once
#include <cmath>
#include <cstdint>
#include <numbers>

#include "sim/hashing.hpp"

namespace trainyard {

/// A sequence of random numbers that is the same with every compiler.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(mix_bits(seed)) {}

  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  ///< in [0, 1)
  int integer_below(int end) { return static_cast<int>(next() % static_cast<std::uint64_t>(end)); }
  /// Draws from the standard normal distribution (Box & Muller 1958).
  double normal() {
    const double size = std::sqrt(-2 * std::log(1 - uniform()));
    return size * std::cos(2 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
  std::uint64_t next() { return mix_bits(state_ += kGoldenGamma); }
};

}  // namespace trainyard
