#include "sim/stable_sort.hpp"

#include <numeric>

namespace trainyard {

std::vector<std::size_t> stable_order(std::size_t count, const std::function<bool(std::size_t, std::size_t)>& before) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::cref(before));
  return order;
}

}  // namespace trainyard
