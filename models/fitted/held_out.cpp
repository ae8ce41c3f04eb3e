#include "models/fitted/held_out.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "sim/error.hpp"

namespace trainyard {

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

KernelErrors kernel_errors(std::vector<double> errors) {
  std::sort(errors.begin(), errors.end());
  const double sum = std::accumulate(errors.begin(), errors.end(), 0.0);
  return {sorted_quantile(errors, 0.5), sum / static_cast<double>(errors.size()), sorted_quantile(errors, 0.9)};
}

}  // namespace trainyard
