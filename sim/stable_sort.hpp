#pragma once
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace trainyard {

/// Returns the numbers below `count`, sorted by `before`; of equal ones the smaller comes first.
std::vector<std::size_t> stable_order(std::size_t count, const std::function<bool(std::size_t, std::size_t)>& before);

/// Sorts like std::stable_sort, but the code of the merges is compiled once for all types. Use it for short lists.
template <class T, class Before>
void sort_stably(std::vector<T>& values, Before before) {
  const std::vector<std::size_t> order =
      stable_order(values.size(), [&](std::size_t a, std::size_t b) { return before(values[a], values[b]); });
  std::vector<T> sorted;
  sorted.reserve(values.size());
  for (const std::size_t i : order) sorted.push_back(std::move(values[i]));
  values = std::move(sorted);
}

}  // namespace trainyard
