#include "sim/observers/traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/error.hpp"

namespace trainyard {

Traffic::Traffic(std::span<const Link> links) : links_(links), on_link_(links.size()) {
  for (const Link& link : links) most_.push_back(link.capacity);
}

void Traffic::link_changed(LinkId link, BytesPerSecond capacity) {
  BytesPerSecond& most = most_[link];
  most = std::max(most, capacity);
}

void Traffic::transferred(const TransferRun& run) {
  const Bytes arrived = run.last_leg ? run.bytes : Bytes{0};  // once a message, however often it is taken up
  if (run.group) {
    for (const GroupFlow::Edge& edge : run.group->edges) {
      if (edge.from == edge.to) continue;  // work in an actor's own memory
      sent_.grown(edge.from) += arrived * edge.weight;
      received_.grown(edge.to) += arrived * edge.weight;
    }
  } else {
    sent_.grown(run.from) += arrived;
    received_.grown(run.to) += arrived;
  }
  for (const LinkUse& use : run.route.links) on_link_[use.link] += run.bytes * use.weight;
  messages_ += run.last ? 1 : 0;
}

Traffic Traffic::since(const Traffic& before) const {
  Traffic rest = *this;
  const auto subtract = [](auto& from, const auto& what) {
    for (std::size_t i = 0; i < what.size(); ++i) from.data()[i] -= what.data()[i];
  };
  subtract(rest.on_link_, before.on_link_);
  subtract(rest.sent_, before.sent_);
  subtract(rest.received_, before.received_);
  rest.messages_ -= before.messages_;
  return rest;
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
  for (LinkId link = 0; link < on_link_.end_id(); ++link) sums[links_[position(link)].kind] += on_link_[link];
  return sums;
}

void Traffic::check(Seconds end) const {
  Bytes arrived;
  for (const Bytes b : received_) arrived += b;
  if (std::abs(arrived.value - total().value) > 1e-9 * total().value)
    throw InternalError(fmt::format("{} bytes were sent, {} arrived", total().value, arrived.value));
  for (LinkId link = 0; link < on_link_.end_id(); ++link)
    // All that ends within one time step ends at once: a little early.
    if (on_link_[link].value > (most_[link] * (end + Seconds{8 * kSameTime})).value * (1 + 1e-9))
      throw InternalError(fmt::format("link {} carried {} bytes in {} s, above its {} B/s", links_[position(link)].name,
                                      on_link_[link].value, end.value, most_[link].value));
}

}  // namespace trainyard
