#pragma once
#include <random>
#include <string>

namespace trainyard::test {

/// The random choices that make up a scenario.
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

/// Draws the text of small scenarios: machines, networks between nodes, meshes, mechanisms, ZeRO stages. Each takes
/// some hundredths of a second to simulate. Some contradict themselves, so that reading or planning throws UserError.
class RandomScenarios : RandomDraws {
 public:
  using RandomDraws::RandomDraws;
  std::string next();
};

}  // namespace trainyard::test
