#pragma once
#include <cstdint>
#include <initializer_list>

namespace trainyard {

/// SplitMix64 (Steele, Lea & Flood 2014): one well-mixed number from a counter.
constexpr std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
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

}  // namespace trainyard
