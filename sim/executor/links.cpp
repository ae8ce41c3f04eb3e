#include "sim/executor/links.hpp"

namespace trainyard::execution {

Links::Links(Context& context) : context_(context) {
  for (const Link& link : context.machine.links()) links_.push_back({link.capacity});
}

bool Links::set_capacity(LinkId link, BytesPerSecond capacity) {
  State& state = links_[link];
  const bool was_up = state.capacity.value > 0;
  const bool is_up = capacity.value > 0;
  state.capacity = capacity;
  context_.transport.set_capacity(link, capacity * state.speed);
  for (Observer* o : context_.observers.observers()) o->link_changed(link, capacity);
  if (was_up == is_up) return false;
  context_.machine.link_state(link, is_up);
  ever_down_ = true;
  return true;
}

void Links::slow(LinkId link, double speed) {
  State& state = links_[link];
  state.speed = speed;
  context_.transport.set_capacity(link, state.capacity * speed);
}

bool Links::any_down() const {
  return std::ranges::any_of(links_, [](const State& s) { return s.capacity.value <= 0; });
}

bool Links::crosses_down(std::span<const LinkUse> links) const {
  return std::ranges::any_of(links, [this](const LinkUse& use) { return links_[use.link].capacity.value <= 0; });
}

}  // namespace trainyard::execution
