// Links that change while messages are on their way: failures, other ways, rates over time.
#include <algorithm>
#include <utility>

#include "sim/error.hpp"
#include "sim/executor/executor_state.hpp"

namespace trainyard {

void Executor::apply(const LinkChange& change) {
  const auto link = static_cast<std::size_t>(change.link);
  const bool was_up = capacity_[link].value > 0;
  const bool is_up = change.capacity.value > 0;
  capacity_[link] = change.capacity;
  transport_.set_capacity(change.link, change.capacity * port_speed_[link]);
  for (Observer* o : observers_) o->link_changed(change.link, change.capacity);
  if (was_up == is_up) return;
  machine_.link_state(change.link, is_up);
  ++route_version_;
  const std::vector<std::uint32_t> parked = std::exchange(parked_, {});
  for (const std::uint32_t index : parked) reroute(index);
  for (std::uint32_t index = 0; index < transfers_pool_.size(); ++index) {
    const Transfer& t = transfers_pool_[index];
    // What ends in this very step, or pays the end of its latency, is left to the rest of the step.
    const bool moving = t.state == Transfer::State::flowing || (t.state == Transfer::State::latency && t.timed);
    if (moving && crosses_dead_link(t.links)) reroute(index);
  }
}

bool Executor::any_link_down() const {
  return std::any_of(capacity_.begin(), capacity_.end(), [](BytesPerSecond c) { return c.value <= 0; });
}

bool Executor::crosses_dead_link(std::span<const LinkUse> links) const {
  return route_version_ > 1 && std::any_of(links.begin(), links.end(), [this](const LinkUse& use) {
           return capacity_[static_cast<std::size_t>(use.link)].value <= 0;
         });
}

/// What is left of a transfer goes another way, and pays its latency anew; what had not left a buffer on its way is sent
/// again from the start. False where there is none without a dead link: it stalls on its old way until the link is back.
bool Executor::reroute(std::uint32_t index) {
  Transfer& t = transfers_pool_[index];
  const Route& way = find_route(t);
  if (!way.reachable || crosses_dead_link(way.links)) {
    if (t.state == Transfer::State::parked) parked_.push_back(index);
    return false;
  }
  const Bytes moved = withdraw(index);
  if (moved.value > 0) {
    report(index, moved, Outcome::done, false, !t.by_legs);
    t.leg_started = now_;
  }
  t.left = t.by_legs ? t.leg_bytes : t.left - moved;
  t.limiting = -1;
  set_off(index, way);
  return true;
}

void Executor::record_rates(double until) {
  const double span = until - rates_since_;
  if (span <= 0) return;
  rates_.assign(capacity_.size(), BytesPerSecond{0});
  for (Transfer& t : transfers_pool_) {
    if (t.state != Transfer::State::flowing && t.state != Transfer::State::landed) continue;
    const Bytes left = t.state == Transfer::State::landed ? Bytes{0} : transport_.remaining(t.flow);
    const BytesPerSecond rate = (t.seen - left) / Seconds{span};
    t.seen = left;
    for (const LinkUse& use : t.links) rates_[static_cast<std::size_t>(use.link)] += rate * use.weight;
  }
  for (Observer* o : observers_) o->link_rates(Seconds{rates_since_}, Seconds{until}, rates_);
  rates_since_ = until;
}

}  // namespace trainyard
