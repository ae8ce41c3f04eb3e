#include "topologies/straggler_machine.hpp"

#include "topologies/hashing.hpp"

namespace trainyard {
Cost StragglerMachine::price(const Work& work, Actor actor) const {
  const auto a = static_cast<std::size_t>(actor);
  Cost cost = beneath_.price(work, actor);
  if (a < slowdown_.factor.size()) cost.duration = cost.duration * slowdown_.factor[a];
  if (slowdown_.spread > 0 && cost.duration.value > 0) {
    if (a >= priced_.size()) priced_.resize(a + 1);
    const std::uint64_t number = mixed(mixed(mixed(slowdown_.seed) + a) + priced_[a]++);
    const double uniform = static_cast<double>(number >> 11) * 0x1p-53;
    cost.duration = cost.duration * (1 - slowdown_.spread + 2 * slowdown_.spread * uniform);
  }
  return cost;
}

}  // namespace trainyard
