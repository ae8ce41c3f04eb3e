#pragma once
#include <random>
#include <string>

namespace trainyard::test {

/// Scenarios over machines, networks between nodes, meshes, mechanisms and ZeRO stages, as text. Small: a case takes some
/// hundredths of a second. Not every one can be laid out: those are refused as users' errors.
class RandomScenarios {
 public:
  explicit RandomScenarios(unsigned seed) : random_(seed) {}
  std::string next();

 private:
  std::mt19937 random_;

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  template <std::size_t n>
  std::string one_of(const char* const (&choices)[n]) {
    return choices[below(static_cast<int>(n))];
  }
};

}  // namespace trainyard::test
