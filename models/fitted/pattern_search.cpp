#include "models/fitted/pattern_search.hpp"

#include <algorithm>
#include <vector>

namespace trainyard {

double pattern_search(std::span<double> at, const std::function<double()>& error) {
  constexpr double kFirst = 0.3, kGrow = 1.5, kShrink = 0.5, kLeast = 1e-3, kGain = 1e-12;
  constexpr int kMostRounds = 2000;
  std::vector<double> step(at.size(), kFirst);
  double best = error();
  for (int round = 0; round<kMostRounds&& * std::max_element(step.begin(), step.end())> kLeast; ++round)
    for (std::size_t i = 0; i < at.size(); ++i) {
      bool better = false;
      const double from = at[i];
      for (const double move : {step[i], -step[i]}) {
        at[i] = from + move;
        const double e = error();
        better = e < best - kGain;
        if (better) {
          best = e;
          break;
        }
        at[i] = from;
      }
      step[i] *= better ? kGrow : kShrink;
    }
  return best;
}

}  // namespace trainyard
