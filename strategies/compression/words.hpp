#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "models/hardware/gpu.hpp"

namespace trainyard {

/// A payload of 32-bit words, bit by bit; a word is a whole number in a double, so that a buffer of values can hold it.
class WordWriter {
 public:
  /// The lowest `count` bits, up to 32.
  void bits(std::uint32_t value, int count);
  void number(float value);
  void number(Precision, double value);  ///< one that the precision holds
  std::vector<double> words() &&;        ///< the last one is padded with zeros

 private:
  std::vector<double> words_;
  std::uint64_t open_ = 0;  // bits that fill no word yet
  int count_ = 0;
};

class WordReader {
 public:
  explicit WordReader(std::span<const double> words) : words_(words) {}
  std::uint32_t bits(int count);
  float number();
  double number(Precision);

 private:
  std::span<const double> words_;
  std::size_t next_ = 0;
  std::uint64_t open_ = 0;
  int count_ = 0;
};

/// Words of so many bits.
constexpr double words_for(double bits) {
  const double words = bits / 32;
  const auto whole = static_cast<double>(static_cast<std::int64_t>(words));
  return whole < words ? whole + 1 : whole;
}

/// The nearest number (ties to even) that fp64, fp32, fp16, bf16 or fp8 (E4M3: Micikevicius et al. 2022) holds; beyond their
/// range the largest one, of fp16 and bf16 infinity.
double rounded_to(Precision, double);
/// Of such a number of 32 bits or fewer, and back. The number must be one that the precision holds.
std::uint32_t bits_of(Precision, double);
double number_of_bits(Precision, std::uint32_t);

}  // namespace trainyard
