#include "models/fitted/fitting.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "sim/error.hpp"

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

double search(std::vector<SearchedConstant>& constants, const std::function<double()>& error) {
  std::vector<double> at;
  for (const SearchedConstant& constant : constants) at.push_back(constant.at);
  const auto take = [&] {
    for (std::size_t i = 0; i < at.size(); ++i) constants[i].move_to(at[i]);
  };
  const double least = pattern_search(at, [&] {
    take();
    return error();
  });
  take();
  return least;
}

std::vector<std::string> unfelt(std::vector<SearchedConstant> constants, double move,
                                const std::function<double()>& error, const std::function<bool(double)>& felt) {
  std::vector<std::string> keys;
  for (SearchedConstant& constant : constants) {
    const double from = constant.at, value = *constant.value;
    bool any = false;
    for (const double by : {move, -move}) {
      constant.move_to(from + by);
      any |= felt(error());
    }
    constant.at = from;
    *constant.value = value;
    if (!any) keys.emplace_back(constant.key);
  }
  return keys;
}

/// FNV-1a, finished with a multiply-shift since the low bits of FNV alone follow the last digit.
bool goes_to_fit(const std::string& shape) {
  std::uint64_t h = 14695981039346656037u;
  for (const char c : shape) h = (h ^ static_cast<unsigned char>(c)) * 1099511628211u;
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdu;
  return (h >> 63) == 0;
}

double sorted_quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) throw InternalError("a quantile of nothing");
  const double rank = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(rank);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (rank - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

FitErrors fit_errors(std::vector<double> errors) {
  std::sort(errors.begin(), errors.end());
  const double sum = std::accumulate(errors.begin(), errors.end(), 0.0);
  return {sorted_quantile(errors, 0.5), sum / static_cast<double>(errors.size()), sorted_quantile(errors, 0.9)};
}

}  // namespace trainyard
