#include "sim/observers/traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/error.hpp"

namespace trainyard {

Traffic::Traffic(std::span<const Link> links, Multiplicity multiplicity)
    : links_(links), on_link_(links.size()), multiplicity_(std::move(multiplicity)) {
  for (const Link& link : links) most_.push_back(link.capacity);
}

void Traffic::link_changed(LinkId link, BytesPerSecond capacity) {
  BytesPerSecond& most = most_[link];
  most = std::max(most, capacity);
}

void Traffic::transferred(const TransferRun& run) {
  const Bytes arrived = run.last_leg ? run.bytes : Bytes{0};  // counted once for each message, at its last leg
  double copies = 1;                                          // number of groups that this one stands for
  const Bytes before = total_;
  if (run.group) {
    copies = run.group->copies;
    for (const GroupFlow::Edge& edge : run.group->edges) {
      if (edge.from == edge.to) continue;  // work in an actor's own memory
      sent_.grown(edge.from) += arrived * edge.weight;
      received_.grown(edge.to) += arrived * edge.weight;
      total_ += arrived * edge.weight;
    }
    for (const GroupFlow::Share& share : run.group->shares) {
      sent_.grown(share.actor) += arrived * share.sends;
      received_.grown(share.actor) += arrived * share.receives;
    }
    total_ += arrived * (run.group->moved * copies);
  } else {
    copies = multiplicity_.of_actor(run.from);
    sent_.grown(run.from) += arrived;
    received_.grown(run.to) += arrived;
    total_ += arrived * copies;
  }
  if (run.send) {
    const GroupId group = run.joins_of.value_or(run.send->group);
    if (of_group_.size() <= group) of_group_.resize(group + 1U);
    of_group_[group] += total_ - before;
  }
  for (const LinkUse& use : run.route.links) on_link_[use.link] += run.bytes * use.weight;
  messages_ += run.last ? copies * run.joins : 0;
}

Traffic Traffic::increase_since(const Traffic& before) const {
  Traffic rest = *this;
  const auto subtract = [](auto& from, const auto& subtrahend) {
    for (std::size_t i = 0; i < subtrahend.size(); ++i) from.data()[i] -= subtrahend.data()[i];
  };
  subtract(rest.on_link_, before.on_link_);
  subtract(rest.sent_, before.sent_);
  subtract(rest.received_, before.received_);
  for (std::size_t g = 0; g < before.of_group_.size(); ++g) rest.of_group_[g] -= before.of_group_[g];
  rest.messages_ -= before.messages_;
  rest.total_ -= before.total_;
  return rest;
}

Bytes Traffic::of_group(GroupId group) const { return group < of_group_.size() ? of_group_[group] : Bytes{}; }

Bytes Traffic::most_sent() const {
  Bytes most;
  for (const Bytes b : sent_) most = std::max(most, b);
  return most;
}

std::map<std::string, Bytes> Traffic::by_link_kind() const {
  std::map<std::string, Bytes> sums;
  for (LinkId link = 0; link < on_link_.end_id(); ++link)
    sums[links_[position(link)].kind] += on_link_[link] * multiplicity_.of_link(link);
  return sums;
}

std::map<std::string, double> Traffic::busiest(Seconds over) const {
  std::map<std::string, double> shares;
  for (LinkId link = 0; link < on_link_.end_id(); ++link) {
    double& most = shares[links_[position(link)].kind];
    most = std::max(most, on_link_[link].value / (most_[link] * over).value);
  }
  return shares;
}

void Traffic::check(Seconds end) const {
  Bytes sent, arrived;
  for (const Bytes b : sent_) sent += b;
  for (const Bytes b : received_) arrived += b;
  const bool counts_both = multiplicity_.actors.empty();  // groups that stand for several count only what is sent
  if (counts_both && std::abs(arrived.value - sent.value) > 1e-9 * sent.value)
    throw InternalError(fmt::format("{} bytes were sent, {} arrived", sent.value, arrived.value));
  for (LinkId link = 0; link < on_link_.end_id(); ++link)
    // Everything that ends within one time step ends together, some of it a little early.
    if (on_link_[link].value > (most_[link] * (end + Seconds{8 * kSameTime})).value * (1 + 1e-9))
      throw InternalError(fmt::format("link {} carried {} bytes in {} s, above its {} B/s", links_[position(link)].name,
                                      on_link_[link].value, end.value, most_[link].value));
}

}  // namespace trainyard
