#include "sim/transports/filling.hpp"

#include <algorithm>
#include <limits>

namespace trainyard::sharing {
namespace {

/// Shares closer than this belong to one level: links that fill up together are found together.
constexpr double kSameShare = 1 + 1e-13;

/// Rates and loads closer than this factor are equal: they are sums, which are rounded.
constexpr double kSame = 1 + 1e-12;
/// If more groups are affected at once, or more rates are found, filling their component costs no more.
constexpr std::size_t kMostAffected = 64;
constexpr int kMostRates = 128;

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
  std::ranges::sort(capped_, [this](BundleId a, BundleId b) {  // the lowest last
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

void Levels::begin() {
  holds_ = true;
  rates_left_ = kMostRates;
  affected_.clear();
  grown_.clear();
}

void Levels::affect(GroupId group) {
  if (affected_.size() >= kMostAffected) holds_ = false;
  if (std::ranges::find(affected_, group) == affected_.end()) affected_.push_back(group);
}

void Levels::remove(BundleId id, double now) {
  Bundle& bundle = table_.bundles[id];
  const GroupId group = bundle.group;
  affect(group);
  for (const Hop& hop : bundle.hops) {
    Load& load = table_.loads[hop.link];
    load.remove(group, hop.weight * bundle.shared);
    if (load.limits && load.limits != group) affect(load.limits);
  }
  bundle.shared = 0;
  leave(id, now);
}

void Levels::leave(BundleId id, double now) {
  const LinkId link = table_.groups[table_.bundles[id].group].link;
  table_.leave_group(id, now);
  if (link < 0 || table_.loads[link].limits) return;
  grown_.push_back(link);
  // The link limits nobody any more: the other groups may keep their rates, but not raise them before a check.
  for (const Load::GroupLoad& entry : table_.loads[link].groups) lower_ceiling(entry.group);
}

/// The group keeps its rate, and does not raise it before a check. While rates are found, a rate may exceed the ceiling.
void Levels::lower_ceiling(GroupId id) {
  Group& group = table_.groups[id];
  group.ceiling = std::min(group.ceiling, table_.rate(id));
}

void Levels::note_feed(GroupId group, LinkId link) {
  std::vector<LinkId>& feeds = table_.groups[group].feeds;
  if (std::ranges::find(feeds, link) == feeds.end()) feeds.push_back(link);
}

/// Returns a new group that the link limits. The other groups on the link affect it.
GroupId Levels::limited_group(LinkId link, double rate, double now) {
  for (const Load::GroupLoad& entry : table_.loads[link].groups) note_feed(entry.group, link);
  return table_.new_group(link, rate, now);
}

/// Moves a bundle to a group with a lower rate.
void Levels::move(BundleId id, GroupId to, double now) {
  const Bundle& bundle = table_.bundles[id];
  const GroupId from = bundle.group;
  affect(from);
  for (const Hop& hop : bundle.hops) {
    Load& load = table_.loads[hop.link];
    load.remove(from, hop.weight * bundle.shared);
    load.add(to, hop.weight * bundle.shared);
    if (!load.limits) {
      grown_.push_back(hop.link);  // the ceiling may be higher
    } else if (load.limits != to) {
      affect(load.limits);
      note_feed(to, hop.link);
    }
  }
  leave(id, now);
  if (const auto& others = table_.groups[from].bundles; !others.empty()) table_.note_next(others.front().id);
  table_.join(to, id, now);
  Group& group = table_.groups[to];
  if (bundle.cap > 0 && group.link >= 0) group.ceiling = std::min(group.ceiling, bundle.cap);
}

void Levels::change(BundleId id, double now) {
  Bundle& bundle = table_.bundles[id];
  const double change = bundle.count() - bundle.shared;
  if (!holds_ || change == 0) return;
  if (!bundle.group && bundle.shared > 0) group_alone(id, now);
  GroupId group = bundle.group;
  const bool is_new = !group;
  if (is_new) {
    group = group_for(bundle, now);
    if (!group) {
      holds_ = false;
      return;
    }
    table_.join(group, id, now);
  }
  bundle.shared = bundle.count();
  affect(group);
  for (const Hop& hop : bundle.hops) {
    Load& load = table_.loads[hop.link];
    if (is_new)
      load.add(group, hop.weight * change);
    else
      load.find(group)->weight += hop.weight * change;
    if (!load.limits) {
      if (change > 0) grown_.push_back(hop.link);
    } else if (load.limits != group) {
      affect(load.limits);
      if (is_new) note_feed(group, hop.link);
    }
  }
}

/// A bundle that ran alone shares a link now: joins a group of its own, which is limited by its cap or tightest link.
void Levels::group_alone(BundleId id, double now) {
  const Bundle& bundle = table_.bundles[id];
  LinkId limiting_link = -1;
  double least = bundle.cap > 0 ? bundle.cap : std::numeric_limits<double>::max();
  for (const Hop& hop : bundle.hops) {
    const double most = table_.links[hop.link].capacity / (hop.weight * bundle.shared);
    if (most >= least) continue;
    least = most;
    limiting_link = hop.link;
  }
  const GroupId group = table_.new_group(limiting_link, table_.clocks[bundle.own_clock].rate, now);
  table_.join(group, id, now);
  for (const Hop& hop : bundle.hops) table_.loads[hop.link].add(group, hop.weight * bundle.shared);
}

/// Returns the rate of each flow if the link limits a new bundle, together with the group that it limits already.
double Levels::rate_with(const Hop& hop, double flows) const {
  const Load& load = table_.loads[hop.link];
  double capacity_left = table_.links[hop.link].capacity, weight = hop.weight * flows;
  for (const Load::GroupLoad& entry : load.groups)
    if (entry.group == load.limits)
      weight += entry.weight;
    else
      capacity_left -= entry.weight * table_.rate(entry.group);
  return std::max(0.0, capacity_left) / weight;
}

/// The group of a new bundle: that of the link that leaves the least to it, or one of its own if that link limits no
/// group yet, or if its cap is lower. The checks of `settle` find out if another link is tighter in the end.
GroupId Levels::group_for(const Bundle& bundle, double now) {
  const Hop* tightest = nullptr;
  double least = std::numeric_limits<double>::max();
  for (const Hop& hop : bundle.hops) {
    if (table_.loads[hop.link].groups.empty())
      for (const LinkState::Share& share : table_.links[hop.link].bundles)
        if (const Bundle& other = table_.bundles[share.bundle]; !other.group && other.shared > 0)
          group_alone(share.bundle, now);
    if (const double rate = rate_with(hop, bundle.count()); rate < least) {
      least = rate;
      tightest = &hop;
    }
  }
  if (bundle.cap > 0 && bundle.cap <= least) return table_.new_group(-1, bundle.cap, now);
  if (!tightest) return {};
  const Load& load = table_.loads[tightest->link];
  if (load.limits) {
    Group& group = table_.groups[load.limits];
    if (bundle.cap > 0) group.ceiling = std::min(group.ceiling, bundle.cap);
    return load.limits;
  }
  return limited_group(tightest->link, least, now);
}

/// Finds the lowest rates first: they affect higher rates, and seldom the other way round.
bool Levels::settle(double now) {
  while (holds_ && !affected_.empty()) {
    const auto lowest = std::ranges::min_element(affected_, [this](GroupId a, GroupId b) {
      const double rate_a = table_.rate(a), rate_b = table_.rate(b);
      return rate_a < rate_b || (rate_a == rate_b && a < b);
    });
    const GroupId group = *lowest;
    *lowest = affected_.back();
    affected_.pop_back();
    if (--rates_left_ < 0) holds_ = false;
    if (table_.groups[group].members > 0) find_rate(group, now);
  }
  return holds_ && std::ranges::all_of(grown_, [this](LinkId link) { return fits(link); });
}

/// Moves the bundles of a group that cross the link.
void Levels::move_all(LinkId link, GroupId from, GroupId to, double now) {
  for (const LinkState::Share& share : table_.links[link].bundles)
    if (table_.bundles[share.bundle].group == from) move(share.bundle, to, now);
}

/// Bundles on the limiting link that would have a higher rate join the group, the fastest first. A bundle that another
/// link or its cap would limit leaves it.
void Levels::find_rate(GroupId id, double now) {
  Group& group = table_.groups[id];
  if (group.link < 0) return;  // limited by its cap
  double rate = 0;
  for (GroupId fastest = id; fastest;) {
    if (fastest != id) move_all(group.link, fastest, id, now);
    double capacity_left = table_.links[group.link].capacity, weight = 0, highest = 0;
    for (const Load::GroupLoad& entry : table_.loads[group.link].groups) {
      if (entry.group == id) {
        weight = entry.weight;
        continue;
      }
      capacity_left -= entry.weight * table_.rate(entry.group);
      if (table_.rate(entry.group) <= highest) continue;
      highest = table_.rate(entry.group);
      fastest = entry.group;
    }
    rate = std::max(0.0, capacity_left) / weight;
    if (highest <= rate * kSame) break;
  }
  if (rate > group.ceiling && !raise_ceiling(id, rate, now)) return;
  if (rate == table_.rate(id)) return;
  table_.set_rate(group.clock, rate, now);
  for (const LinkId link : group.feeds) {
    Load& load = table_.loads[link];
    if (load.limits && load.limits != id && load.find(id)) affect(load.limits);
  }
}

/// Raises the ceiling by half of the capacity left on the links: the other half is for the other groups on them.
/// Returns false if a bundle cannot have the rate. Then it has left the group.
bool Levels::raise_ceiling(GroupId id, double rate, double now) {
  double most = std::numeric_limits<double>::max();
  for (const Group::Next& next : table_.groups[id].bundles.items()) {
    const Bundle& bundle = table_.bundles[next.id];
    if (bundle.cap > 0 && bundle.cap * kSame < rate) {
      const BundleId capped = next.id;
      move(capped, table_.new_group(-1, bundle.cap, now), now);
      return false;
    }
    if (bundle.cap > 0) most = std::min(most, bundle.cap);
    for (const Hop& hop : bundle.hops) {
      if (table_.loads[hop.link].limits) continue;
      const double room_here = room(hop.link, id, rate);
      if (room_here * kSame < rate) {
        const GroupId slower = limited_group(hop.link, std::max(0.0, room_here), now);
        move_all(hop.link, id, slower, now);
        affect(slower);
        return false;
      }
      most = std::min(most, room_here);
    }
  }
  table_.groups[id].ceiling = std::max(rate, rate + (most - rate) / 2);
  return true;
}

/// Returns the rate of the group at which the link is full if the other groups run at their ceilings. If that is less
/// than `wanted`, the rates of the others become their ceilings, and the result is the rate at which the link is full
/// then.
double Levels::room(LinkId link, GroupId id, double wanted) {
  const Load& load = table_.loads[link];
  double weight = 0, by_ceilings = table_.links[link].capacity, by_rates = by_ceilings;
  for (const Load::GroupLoad& entry : load.groups)
    if (entry.group == id) {
      weight = entry.weight;
    } else {
      by_ceilings -= entry.weight * table_.groups[entry.group].ceiling;
      by_rates -= entry.weight * table_.rate(entry.group);
    }
  if (by_ceilings >= weight * wanted) return by_ceilings / weight;
  for (const Load::GroupLoad& entry : load.groups)
    if (entry.group != id) lower_ceiling(entry.group);
  return by_rates / weight;
}

bool Levels::fits(LinkId link) {
  const Load& load = table_.loads[link];
  if (load.limits) return true;
  const double most = table_.links[link].capacity * kSame;
  double at_ceilings = 0, at_rates = 0;
  for (const Load::GroupLoad& entry : load.groups) {
    at_ceilings += entry.weight * table_.groups[entry.group].ceiling;
    at_rates += entry.weight * table_.rate(entry.group);
  }
  if (at_ceilings <= most) return true;
  for (const Load::GroupLoad& entry : load.groups) lower_ceiling(entry.group);
  return at_rates <= most;
}

}  // namespace trainyard::sharing
