#include "sim/transports/filling.hpp"

#include <algorithm>
#include <cmath>

namespace trainyard::sharing {
namespace {

/// Shares closer than this belong to one level: links that fill up together are found together.
constexpr double kSameShare = 1 + 1e-13;
/// Rates and loads closer than this part are equal: they are sums, which are rounded.
constexpr double kRounding = 1e-12;
/// A neighbourhood that is still unfair after so many rounds holds most of its component.
constexpr int kMostRounds = 12;

}  // namespace

void Filling::share_from(LinkId link, double now) {
  gather(link);
  prepare();
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

bool Filling::share_near(const std::vector<BundleId>& changed, const std::vector<GroupId>& groups, double now) {
  ++mark_;
  component_.clear();
  links_.clear();
  for (const GroupId id : groups) gather_group(id);
  for (const BundleId id : changed) {
    gather_bundle(id);
    if (const GroupId of_bundle = table_.bundles[id].group) gather_group(of_bundle);
  }
  for (int round = 0; round < kMostRounds; ++round) {
    prepare_near();
    fill();
    if (gather_unfair()) continue;
    regroup(now);
    return true;
  }
  return false;
}

void Filling::gather_group(GroupId id) {
  Group& group = table_.groups[id];
  if (group.members == 0 || group.mark == mark_) return;
  group.mark = mark_;
  for (const Group::Next& next : group.bundles.items()) gather_bundle(next.id);
}

void Filling::gather_bundle(BundleId id) {
  Bundle& bundle = table_.bundles[id];
  if (bundle.mark == mark_) return;
  bundle.mark = mark_;
  component_.push_back(id);
  for (const Hop& hop : bundle.hops) gather_link(hop.link);
}

/// A bundle that was alone on the link so far has no group.
void Filling::gather_link(LinkId id) {
  LinkState& link = table_.links[id];
  if (link.mark == mark_) return;
  link.mark = mark_;
  links_.push_back(id);
  if (!table_.loads[id].groups.empty()) return;
  for (const LinkState::Share& share : link.bundles)
    if (!table_.bundles[share.bundle].group) gather_bundle(share.bundle);
}

/// The bundles inside share what the groups outside leave.
void Filling::prepare_near() {
  for (const LinkId id : links_) {
    double capacity = table_.links[id].capacity;
    for (const Load::GroupLoad& entry : table_.loads[id].groups)
      if (table_.groups[entry.group].mark != mark_) capacity -= entry.weight * table_.rate(entry.group);
    neighbourhood_[id] = {capacity, 0, 0, HUGE_VAL};
    unshared_[id] = {std::max(0.0, capacity), 0};
  }
  for (const BundleId id : component_) {
    fixed_.grown(id) = {};
    const Bundle& bundle = table_.bundles[id];
    for (const Hop& hop : bundle.hops) unshared_[hop.link].weights += hop.weight * bundle.count();
  }
  bottlenecks_.clear();
  for (const LinkId id : links_)
    if (const UnsharedLink& link = unshared_[id]; link.weights > 0)
      bottlenecks_.push_back({link.capacity / link.weights, id});
}

/// Gathers the groups outside that must change too: a group whose limiting link is no longer full, or gives a higher rate
/// to a bundle inside; a group that has a higher rate than a bundle inside on the link that limits the latter; and groups
/// on a link that they overfill. Returns false if there are none.
bool Filling::gather_unfair() {
  for (const BundleId id : component_) {
    const Bundle& bundle = table_.bundles[id];
    const FixedRate& found = fixed_[id];
    for (const Hop& hop : bundle.hops) {
      NearLink& link = neighbourhood_[hop.link];
      link.load += hop.weight * bundle.count() * found.rate;
      link.highest = std::max(link.highest, found.rate);
      if (found.limiting_link == hop.link) link.lowest = std::min(link.lowest, found.rate);
    }
  }
  const std::size_t bundles = component_.size(), count = links_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const LinkId id = links_[i];
    const NearLink& link = neighbourhood_[id];
    const Load& load = table_.loads[id];
    const double tolerance = table_.links[id].capacity * kRounding;
    const bool has_room = link.capacity - link.load > tolerance, overfull = link.load - link.capacity > tolerance;
    for (const Load::GroupLoad& entry : load.groups) {
      if (table_.groups[entry.group].mark == mark_) continue;
      const double rate = table_.rate(entry.group);
      const bool loses_limit = load.limits == entry.group && (has_room || link.highest > rate * (1 + kRounding));
      if (loses_limit || overfull || rate > link.lowest * (1 + kRounding)) gather_group(entry.group);
    }
  }
  return component_.size() > bundles;
}

void Filling::regroup(double now) {
  for (const BundleId id : component_) {
    const Bundle& bundle = table_.bundles[id];
    if (!bundle.group) continue;
    for (const Hop& hop : bundle.hops) table_.loads[hop.link].remove(bundle.group, hop.weight * bundle.shared);
    table_.leave_group(id, now);
  }
  for (const BundleId id : component_) join_limiting_group(id, now);
  for (const LinkId id : links_) {
    const Load& load = table_.loads[id];
    for (const Load::GroupLoad& entry : load.groups) {
      Group& group = table_.groups[entry.group];
      if (!load.limits)
        group.ceiling = table_.rate(entry.group);
      else if (entry.group != load.limits && std::find(group.feeds.begin(), group.feeds.end(), id) == group.feeds.end())
        group.feeds.push_back(id);
    }
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

void Filling::prepare() {
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
}

/// The link with the smallest share fixes its flows; the others continue. Shares only grow as flows are fixed: a link
/// that was taken off the heap too early is put back with its new share.
void Filling::fill() {
  const auto later = [](const Bottleneck& a, const Bottleneck& b) {
    return a.share > b.share || (a.share == b.share && a.link > b.link);
  };
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
      if (table_.bundles[entry.bundle].mark == mark_ && fixed_[entry.bundle].rate < 0)
        fix(entry.bundle, share, least.link);
  }
}

void Filling::join_limiting_group(BundleId id, double now) {
  Bundle& bundle = table_.bundles[id];
  bundle.shared = bundle.count();
  const LinkId limiting_link = fixed_[id].limiting_link;
  GroupId group = limiting_link >= 0 ? table_.loads[limiting_link].limits : GroupId{};
  if (!group) group = table_.new_group(limiting_link, std::max(0.0, fixed_[id].rate), now);
  table_.join(group, id, now);
  for (const Hop& hop : bundle.hops) table_.loads[hop.link].add(group, hop.weight * bundle.count());
}

/// Joins the bundles that one link limits into a group with one clock. A bundle that shares no link keeps its own clock.
void Filling::group(double now) {
  for (const BundleId id : component_)
    if (table_.bundles[id].group) table_.leave_group(id, now);
  for (const LinkId link : links_) table_.loads[link].groups.clear();
  for (const BundleId id : component_) {
    if (component_.size() > 1) {
      join_limiting_group(id, now);
      continue;
    }
    Bundle& bundle = table_.bundles[id];
    bundle.shared = bundle.count();
    table_.set_rate(bundle.own_clock, std::max(0.0, fixed_[id].rate), now);
  }
  for (const LinkId link : links_) {
    const Load& load = table_.loads[link];
    for (const Load::GroupLoad& entry : load.groups)
      if (load.limits && entry.group != load.limits) table_.groups[entry.group].feeds.push_back(link);
  }
}

}  // namespace trainyard::sharing
