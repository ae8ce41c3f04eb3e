#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "models/hardware/gpu.hpp"

namespace trainyard {

/// Writes a payload of 32-bit words, bit by bit. Each word is stored as a whole number in a double, so that a buffer
/// of values can hold it.
class WordWriter {
 public:
  /// Writes the lowest `count` bits, up to 32.
  void bits(std::uint32_t value, int count);
  void number(float value);
  void number(Precision, double value);  ///< the precision must be able to represent the number
  std::vector<double> words() &&;        ///< returns the words; the last one is padded with zeros

 private:
  std::vector<double> words_;
  std::uint64_t open_ = 0;  // bits that do not fill a word yet
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

/// The payload of one rank in those of all ranks, which are equally long.
constexpr std::span<const double> payload_of(std::span<const double> all, int rank, int ranks) {
  const std::size_t length = all.size() / static_cast<std::size_t>(ranks);
  return all.subspan(length * static_cast<std::size_t>(rank), length);
}

/// Number of words that hold `bits` bits.
constexpr double words_for(double bits) {
  const double words = bits / 32;
  const auto floor_words = static_cast<double>(static_cast<std::int64_t>(words));
  return floor_words < words ? floor_words + 1 : floor_words;
}

/// Rounds to the nearest number (ties to even) of fp64, fp32, fp16, bf16 or fp8 (E4M3: Micikevicius et al. 2022).
/// Beyond the range it returns the largest number, or infinity for fp16 and bf16.
double rounded_to(Precision, double);
/// Convert such a number of 32 bits or fewer to its bits, and back. The precision must be able to represent the
/// number.
std::uint32_t bits_of(Precision, double);
double number_of_bits(Precision, std::uint32_t);

}  // namespace trainyard
