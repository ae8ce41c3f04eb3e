#pragma once
#include <random>
#include <string>

namespace trainyard::test {

/// Draws of which random scenarios are made.
class RandomDraws {
 public:
  explicit RandomDraws(unsigned seed) : random_(seed) {}

 protected:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  template <std::size_t n>
  std::string one_of(const char* const (&choices)[n]) {
    return choices[below(static_cast<int>(n))];
  }

 private:
  std::mt19937 random_;
};

/// Scenarios over machines, networks between nodes, meshes, mechanisms and ZeRO stages, as text. Small: a case takes some
/// hundredths of a second. Not every one can be laid out: those are refused as users' errors.
class RandomScenarios : RandomDraws {
 public:
  using RandomDraws::RandomDraws;
  std::string next();
};

}  // namespace trainyard::test
