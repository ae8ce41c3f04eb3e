#pragma once
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>
#include <utility>
#include <vector>

namespace trainyard {

/// State increment of SplitMix64 (Steele, Lea & Flood 2014).
constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15U;

/// Output of SplitMix64 for the state `x`. Unlike std's distributions, it is the same with every compiler and library.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x += kGoldenGamma;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}
/// Hash of a sequence of numbers. It depends on the order of the numbers and is the same on every machine.
constexpr std::uint64_t hash_numbers(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t h = 0;
  for (const std::uint64_t n : numbers) h = mix_bits(h ^ mix_bits(n));
  return h;
}

/// Returns the uniform number in (0, 1) that 64 random bits stand for.
constexpr double uniform_number(std::uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; }
/// Returns a standard normal number from two uniform numbers in (0, 1) (Box and Muller 1958).
inline double normal_number(double first, double second) {
  return std::sqrt(-2 * std::log(first)) * std::cos(2 * std::numbers::pi * second);
}

/// Fisher–Yates shuffle: all orders are equally likely. The order depends only on `seed` and `round`.
template <class T>
void shuffle(std::vector<T>& order, std::uint64_t seed, std::uint64_t round) {
  for (std::size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[hash_numbers({seed, round, left}) % left]);
}

}  // namespace trainyard
