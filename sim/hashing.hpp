#pragma once
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace trainyard {

/// What SplitMix64 (Steele, Lea & Flood 2014) adds to its state between two numbers.
constexpr std::uint64_t kGoldenGamma = 0x9e3779b97f4a7c15U;

/// SplitMix64's number for a state: well mixed, the same with every compiler and library (std's distributions are not).
constexpr std::uint64_t mixed(std::uint64_t x) {
  x += kGoldenGamma;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}
/// Of several numbers, in order: the same on every machine.
constexpr std::uint64_t hashed(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t h = 0;
  for (const std::uint64_t n : numbers) h = mixed(h ^ mixed(n));
  return h;
}

/// Fisher and Yates: every order is as likely, and the same for the same seed and round.
template <class T>
void shuffle(std::vector<T>& order, std::uint64_t seed, std::uint64_t round) {
  for (std::size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[hashed({seed, round, left}) % left]);
}

}  // namespace trainyard
