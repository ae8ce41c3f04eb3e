#include "models/fitted/fitting.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "sim/error.hpp"

namespace trainyard {

double pattern_search(std::span<double> point, const std::function<double()>& error) {
  constexpr double kFirst = 0.3, kGrow = 1.5, kShrink = 0.5, kLeast = 1e-3, kGain = 1e-12;
  constexpr int kMostRounds = 2000;
  std::vector<double> step(point.size(), kFirst);
  double best = error();
  for (int round = 0; round<kMostRounds&& * std::ranges::max_element(step)> kLeast; ++round)
    for (std::size_t i = 0; i < point.size(); ++i) {
      bool better = false;
      const double origin = point[i];
      for (const double move : {step[i], -step[i]}) {
        point[i] = origin + move;
        const double e = error();
        better = e < best - kGain;
        if (better) {
          best = e;
          break;
        }
        point[i] = origin;
      }
      step[i] *= better ? kGrow : kShrink;
    }
  return best;
}

double search(std::vector<SearchedConstant>& constants, const std::function<double()>& error) {
  std::vector<double> point;
  for (const SearchedConstant& constant : constants) point.push_back(constant.logarithm);
  const auto move_constants = [&] {
    for (std::size_t i = 0; i < point.size(); ++i) constants[i].move_to(point[i]);
  };
  const double least = pattern_search(point, [&] {
    move_constants();
    return error();
  });
  move_constants();
  return least;
}

std::vector<std::string> undetermined_constants(std::vector<SearchedConstant> constants, double move,
                                                const std::function<double()>& error,
                                                const std::function<bool(double)>& makes_difference) {
  std::vector<std::string> keys;
  for (SearchedConstant& constant : constants) {
    const double origin = constant.logarithm, value = *constant.value;
    bool matters = false;
    for (const double shift : {move, -move}) {
      constant.move_to(origin + shift);
      matters |= makes_difference(error());
    }
    constant.logarithm = origin;
    *constant.value = value;
    if (!matters) keys.emplace_back(constant.key);
  }
  return keys;
}

/// FNV-1a, finished with a multiply-shift because the low bits of FNV alone depend mostly on the last digit.
bool is_fitted(const std::string& shape) {
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

double weighted_quantile(std::vector<WeightedValue> all, double share) {
  std::ranges::sort(all, {}, [](const WeightedValue& v) { return std::pair(v.value, v.weight); });
  double sum = 0, below = 0;
  for (const WeightedValue& v : all) sum += v.weight;
  for (const WeightedValue& v : all)
    if ((below += v.weight) >= share * sum) return v.value;
  return 0;
}

double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return sorted_quantile(values, 0.5);
}

FitErrors fit_errors(std::vector<double> errors) {
  std::ranges::sort(errors);
  const double sum = std::accumulate(errors.begin(), errors.end(), 0.0);
  return {sorted_quantile(errors, 0.5), sum / static_cast<double>(errors.size()), sorted_quantile(errors, 0.9)};
}

}  // namespace trainyard
