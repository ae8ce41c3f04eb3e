#pragma once
#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace trainyard {

/// Sorts items that are mostly in order, or in reverse order, in about one pass: operations that end in one time step
/// often began in the order of their actors. Other inputs cost std::sort and a few passes.
template <typename T, typename Before>
void sort_nearly_sorted(std::vector<T>& items, Before before) {
  const std::size_t size = items.size();
  if (size < 2) return;
  std::size_t falls = 0;
  for (std::size_t i = 1; i < size; ++i) falls += before(items[i], items[i - 1]) ? 1 : 0;
  if (falls == 0) return;
  if (falls > size / 2) std::reverse(items.begin(), items.end());
  std::size_t moves = 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!before(items[i], items[i - 1])) continue;
    const T item = items[i];
    std::size_t place = i;
    for (; place > 0 && before(item, items[place - 1]); --place) items[place] = items[place - 1];
    items[place] = item;
    moves += i - place;
    if (moves > 4 * size) return std::sort(items.begin(), items.end(), before);
  }
}
template <typename T>
void sort_nearly_sorted(std::vector<T>& items) {
  sort_nearly_sorted(items, [](const T& a, const T& b) { return a < b; });
}

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
