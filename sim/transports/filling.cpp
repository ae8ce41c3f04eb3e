#include "sim/transports/filling.hpp"

#include <algorithm>

namespace trainyard::sharing {
namespace {

/// Shares closer than this belong to one level: links that fill up together are found together.
constexpr double kSameShare = 1 + 1e-13;

}  // namespace

void Filling::share_from(LinkId link, double now) {
  gather(link);
  fill();
  group(now);
}

void Filling::gather(LinkId start) {
  ++mark_;
  component_.clear();
  links_.clear();
  const auto take_link = [this](LinkId id) {
    LinkState& link = table_.links[id];
    if (link.mark == mark_) return;
    link.mark = mark_;
    link.dirty = false;
    links_.push_back(id);
  };
  take_link(start);
  for (std::size_t index = 0; index < links_.size(); ++index)
    for (const LinkState::Share& share : table_.links[links_[index]].bundles) {
      Bundle& bundle = table_.bundles[share.bundle];
      if (bundle.mark == mark_) continue;
      bundle.mark = mark_;
      fixed_.grown(share.bundle) = {};
      component_.push_back(share.bundle);
      for (const Hop& hop : bundle.hops) take_link(hop.link);
    }
}

void Filling::fix(BundleId id, double rate, LinkId limiting_link) {
  fixed_[id] = {rate, limiting_link};
  const Bundle& bundle = table_.bundles[id];
  for (const Hop& hop : bundle.hops) {
    const double weight = hop.weight * bundle.count();
    UnsharedLink& link = unshared_[hop.link];
    link.capacity = std::max(0.0, link.capacity - rate * weight);
    link.weights -= weight;
  }
}

/// The link with the smallest share fixes its flows; the others continue. Shares only grow as flows are fixed: a link
/// that was taken off the heap too early is put back with its new share.
void Filling::fill() {
  const auto later = [](const Bottleneck& a, const Bottleneck& b) {
    return a.share > b.share || (a.share == b.share && a.link > b.link);
  };
  bottlenecks_.clear();
  for (const LinkId id : links_) {
    const LinkState& link = table_.links[id];
    double weights = 0;
    for (const LinkState::Share& share : link.bundles) {
      const Bundle& bundle = table_.bundles[share.bundle];
      weights += bundle.hops[share.hop].weight * bundle.count();
    }
    unshared_[id] = {link.capacity, weights};
    if (weights > 0) bottlenecks_.push_back({link.capacity / weights, id});
  }
  std::make_heap(bottlenecks_.begin(), bottlenecks_.end(), later);
  capped_.clear();
  for (const BundleId id : component_)
    if (table_.bundles[id].cap > 0) capped_.push_back(id);
  std::sort(capped_.begin(), capped_.end(), [this](BundleId a, BundleId b) {  // the lowest last
    const double cap_a = table_.bundles[a].cap, cap_b = table_.bundles[b].cap;
    return cap_b < cap_a || (cap_a == cap_b && b < a);
  });
  while (!bottlenecks_.empty()) {
    std::pop_heap(bottlenecks_.begin(), bottlenecks_.end(), later);
    const Bottleneck least = bottlenecks_.back();
    bottlenecks_.pop_back();
    const UnsharedLink& link = unshared_[least.link];
    if (link.weights <= 0) continue;
    const double share = link.capacity / link.weights;
    if (share > least.share * kSameShare) {
      bottlenecks_.push_back({share, least.link});
      std::push_heap(bottlenecks_.begin(), bottlenecks_.end(), later);
      continue;
    }
    while (!capped_.empty() && fixed_[capped_.back()].rate >= 0) capped_.pop_back();
    if (!capped_.empty() && table_.bundles[capped_.back()].cap < share) {
      fix(capped_.back(), table_.bundles[capped_.back()].cap, -1);
      bottlenecks_.push_back({least.share, least.link});  // its share has changed if the flow crosses it
      std::push_heap(bottlenecks_.begin(), bottlenecks_.end(), later);
      continue;
    }
    for (const LinkState::Share& entry : table_.links[least.link].bundles)
      if (fixed_[entry.bundle].rate < 0) fix(entry.bundle, share, least.link);
  }
}

/// Joins the bundles that one link limits into a group with one clock. A bundle that shares no link keeps its own clock.
void Filling::group(double now) {
  for (const BundleId id : component_)
    if (table_.bundles[id].group) table_.leave_group(id, now);
  for (const LinkId link : links_) table_.loads[link].groups.clear();
  for (const BundleId id : component_) {
    Bundle& bundle = table_.bundles[id];
    const double rate = std::max(0.0, fixed_[id].rate);
    bundle.shared = bundle.count();
    if (component_.size() == 1) {
      table_.set_rate(bundle.own_clock, rate, now);
      continue;
    }
    const LinkId limiting_link = fixed_[id].limiting_link;
    GroupId group = limiting_link >= 0 ? table_.loads[limiting_link].limits : GroupId{};
    if (!group) group = table_.new_group(limiting_link, rate, now);
    table_.join(group, id, now);
    for (const Hop& hop : bundle.hops) table_.loads[hop.link].add(group, hop.weight * bundle.count());
  }
  for (const LinkId link : links_) {
    const Load& load = table_.loads[link];
    for (const Load::GroupLoad& entry : load.groups)
      if (load.limits && entry.group != load.limits) table_.groups[entry.group].feeds.push_back(link);
  }
}

}  // namespace trainyard::sharing
