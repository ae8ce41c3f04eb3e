#include "sim/observers/traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/error.hpp"
#include "sim/executor/simulation.hpp"

namespace trainyard {

Traffic::Traffic(std::span<const Link> links) : links_(links), on_link_(links.size()) {
  for (const Link& link : links) most_.push_back(link.capacity);
}

void Traffic::link_changed(LinkId link, BytesPerSecond capacity) {
  BytesPerSecond& most = most_[static_cast<std::size_t>(link)];
  most = std::max(most, capacity);
}

void Traffic::transferred(const TransferRun& run) {
  const auto grow = [](std::vector<Bytes>& of, Actor actor) -> Bytes& {
    if (static_cast<std::size_t>(actor) >= of.size()) of.resize(static_cast<std::size_t>(actor) + 1);
    return of[static_cast<std::size_t>(actor)];
  };
  const Bytes arrived = run.last_leg ? run.bytes : Bytes{0};  // once a message, however often it is taken up
  if (run.group) {
    for (const GroupFlow::Edge& edge : run.group->edges) {
      if (edge.from == edge.to) continue;  // work in an actor's own memory
      grow(sent_, edge.from) += arrived * edge.weight;
      grow(received_, edge.to) += arrived * edge.weight;
    }
  } else {
    grow(sent_, run.from) += arrived;
    grow(received_, run.to) += arrived;
  }
  for (const LinkUse& use : run.route.links) on_link_[static_cast<std::size_t>(use.link)] += run.bytes * use.weight;
  messages_ += run.last ? 1 : 0;
}

Bytes Traffic::total() const {
  Bytes sum;
  for (const Bytes b : sent_) sum += b;
  return sum;
}

Bytes Traffic::most_sent() const {
  Bytes most;
  for (const Bytes b : sent_) most = std::max(most, b);
  return most;
}

std::map<std::string, Bytes> Traffic::by_link_kind() const {
  std::map<std::string, Bytes> sums;
  for (std::size_t i = 0; i < on_link_.size(); ++i) sums[links_[i].kind] += on_link_[i];
  return sums;
}

void Traffic::check(Seconds end) const {
  Bytes arrived;
  for (const Bytes b : received_) arrived += b;
  if (std::abs(arrived.value - total().value) > 1e-9 * total().value)
    throw InternalError(fmt::format("{} bytes were sent, {} arrived", total().value, arrived.value));
  for (std::size_t i = 0; i < on_link_.size(); ++i)
    // What ends within one time step ends together: a little early.
    if (on_link_[i].value > (most_[i] * (end + Seconds{8 * kSameTime})).value * (1 + 1e-9))
      throw InternalError(fmt::format("link {} carried {} bytes in {} s, above its {} B/s", links_[i].name,
                                      on_link_[i].value, end.value, most_[i].value));
}

}  // namespace trainyard
