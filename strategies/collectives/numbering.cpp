#include "strategies/collectives/numbering.hpp"

#include "sim/error.hpp"

namespace trainyard {

RingOrder::RingOrder(std::vector<int> order) : member(std::move(order)), number(member.size(), -1) {
  for (std::size_t v = 0; v < member.size(); ++v) {
    const auto m = static_cast<std::size_t>(member[v]);
    if (m >= number.size() || number[m] >= 0) throw InternalError("a ring that does not meet every member once");
    number[m] = static_cast<int>(v);
  }
}

}  // namespace trainyard
