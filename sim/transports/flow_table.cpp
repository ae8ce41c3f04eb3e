#include "sim/transports/flow_table.hpp"

namespace trainyard::sharing {
namespace {

bool later(const Bundle::DueFlow& a, const Bundle::DueFlow& b) {
  return a.due > b.due || (a.due == b.due && a.id > b.id);
}

bool is_of(const Bundle& bundle, std::span<const LinkUse> route, double cap) {
  if (bundle.route != route.data() || bundle.cap != cap || bundle.hops.size() != route.size()) return false;
  for (std::size_t h = 0; h < route.size(); ++h)  // another route may lie at the same address now
    if (bundle.hops[h].link != route[h].link || bundle.hops[h].weight != route[h].weight) return false;
  return true;
}

}  // namespace

FlowTable::FlowTable(std::span<const Link> machine_links) : loads(machine_links.size()) {
  for (const Link& link : machine_links) links.emplace_back().capacity = link.capacity.value;
}

ClockId FlowTable::new_clock(BundleId bundle, GroupId group) {
  clocks.emplace_back().group = group;
  bundle_of_clock.push_back(bundle);
  place_.push_back(kNoPlace);
  return ClockId{clocks.size() - 1};
}

BundleId FlowTable::bundle_of(std::span<const LinkUse> route, double cap) {
  const LinkState* least = nullptr;
  for (const LinkUse& use : route)
    if (const LinkState& link = links[use.link]; !least || link.bundles.size() < least->bundles.size()) least = &link;
  if (least)
    for (const LinkState::Share& share : least->bundles)
      if (is_of(bundles[share.bundle], route, cap)) return share.bundle;
  return new_bundle(route, cap);
}

BundleId FlowTable::new_bundle(std::span<const LinkUse> route, double cap) {
  const BundleId id = bundles.acquire();
  Bundle& bundle = bundles[id];
  if (!bundle.own_clock) bundle.own_clock = new_clock(id, {});
  bundle.clock = bundle.own_clock;
  bundle.group = {};
  bundle.cap = cap;
  bundle.shared = 0;
  bundle.route = route.data();
  bundle.hops.clear();
  clocks[bundle.own_clock].rate = 0;
  for (const LinkUse& use : route) {
    LinkState& link = links[use.link];
    const auto hop = static_cast<std::uint32_t>(bundle.hops.size());
    bundle.hops.push_back({use.link, static_cast<std::uint32_t>(link.bundles.size()), use.weight});
    link.bundles.push_back({id, hop});
  }
  return id;
}

FlowId FlowTable::add_flow(BundleId bundle_id, double bytes, FlowToken token, double now) {
  Bundle& bundle = bundles[bundle_id];
  if (bundle.flows.empty()) {  // its service counts from here, because small numbers lose the least
    Clock& clock = clocks[bundle.clock];
    if (bundle.group) {
      clock.advance(now);
    } else {
      clock.service = 0;
      clock.since = now;
    }
    bundle.shift = -clock.service;
  }
  const FlowId id = flows.acquire();
  if (bundle.flows.empty()) {
    flows[id] = {bytes, bundle_id, token};
    bundle.flows.push_back({bytes, id});
    return id;
  }
  const double finish = service(bundle, now) + bytes;
  flows[id] = {finish, bundle_id, token};
  bundle.flows.push_back({finish, id});
  std::push_heap(bundle.flows.begin(), bundle.flows.end(), later);
  return id;
}

void FlowTable::remove_flow(FlowId id) {
  auto& bundle_flows = bundles[flows[id].bundle].flows;
  bundle_flows.erase(std::ranges::find_if(bundle_flows, [id](const Bundle::DueFlow& due) { return due.id == id; }));
  std::make_heap(bundle_flows.begin(), bundle_flows.end(), later);
  flows.release(id);
}

FlowId FlowTable::take_ended(ClockId clock_id, double until, double& ended) {
  const Clock& clock = clocks[clock_id];
  if (!clock.running || clock.next_end() > until) return {};
  ended = clock.next_end();
  const BundleId bundle_id = clock.group ? groups[clock.group].bundles.front().id : bundle_of_clock[clock_id];
  auto& bundle_flows = bundles[bundle_id].flows;
  const FlowId id = bundle_flows.front().id;
  std::pop_heap(bundle_flows.begin(), bundle_flows.end(), later);
  bundle_flows.pop_back();
  note_next(bundle_id);
  return id;
}

void FlowTable::detach(BundleId id) {
  for (const Hop& hop : bundles[id].hops) {
    LinkState& link = links[hop.link];
    if (link.bundles.size() == 1) {
      link.bundles.clear();
      continue;
    }
    const LinkState::Share moved = link.bundles.back();
    link.bundles[hop.place] = moved;
    bundles[moved.bundle].hops[moved.hop].place = hop.place;
    link.bundles.pop_back();
  }
  const ClockId own_clock = bundles[id].own_clock;
  if (place_[own_clock] != kNoPlace) ends.remove(place_[own_clock], place_of_end());
  bundles.release(id);
}

void FlowTable::set_rate(ClockId id, double rate, double now) {
  Clock& clock = clocks[id];
  if (clock.rate == rate) return;
  clock.advance(now);
  clock.rate = rate;
  schedule_later(id);
}

void FlowTable::note_next(BundleId id) {
  const Bundle& bundle = bundles[id];
  Clock& clock = clocks[bundle.clock];
  schedule_later(bundle.clock);
  clock.running = !bundle.flows.empty();
  if (clock.running) {
    clock.due = bundle.flows.front().due - bundle.shift;
    clock.token = flows[bundle.flows.front().id].token;
  }
  if (!bundle.group) return;
  auto& next = groups[bundle.group].bundles;
  if (clock.running)
    next.set({clock.due, id}, place_in_group());
  else if (bundle.place != kNoPlace)
    next.remove(bundle.place, place_in_group());
  clock.running = !next.empty();
  if (!clock.running) return;
  clock.due = next.front().due;
  const auto& first = bundles[next.front().id].flows;
  // A bundle whose flows were all cancelled still stands there until it is removed.
  if (!first.empty()) clock.token = flows[first.front().id].token;
}

GroupId FlowTable::new_group(LinkId limited_by, double rate, double now) {
  const GroupId id = groups.acquire();
  Group& group = groups[id];
  if (!group.clock) group.clock = new_clock({}, id);
  group.link = limited_by;
  group.ceiling = rate;
  group.members = 0;
  group.bundles.clear();
  group.feeds.clear();
  if (limited_by >= 0) loads[limited_by].limits = id;
  Clock& clock = clocks[group.clock];
  clock.rate = rate;
  clock.service = 0;
  clock.since = now;
  return id;
}

void FlowTable::join(GroupId group, BundleId id, double now) {
  Bundle& bundle = bundles[id];
  const double service_now = service(bundle, now);
  clocks[bundle.clock].running = false;
  schedule_later(bundle.clock);
  ++groups[group].members;
  bundle.group = group;
  bundle.clock = groups[group].clock;
  bundle.shift = service_now - clocks[bundle.clock].service_at(now);
  note_next(id);
}

void FlowTable::leave_group(BundleId id, double now) {
  Bundle& bundle = bundles[id];
  const GroupId old_group = bundle.group;
  if (bundle.place != kNoPlace) groups[old_group].bundles.remove(bundle.place, place_in_group());
  Clock& clock = clocks[bundle.own_clock];
  clock.service = service(bundle, now);
  clock.since = now;
  clock.rate = 0;
  bundle.clock = bundle.own_clock;
  bundle.shift = 0;
  bundle.group = {};
  note_next(id);
  if (--groups[old_group].members > 0) return;
  if (groups[old_group].link >= 0) loads[groups[old_group].link].limits = {};
  clocks[groups[old_group].clock].running = false;
  schedule_later(groups[old_group].clock);
  groups.release(old_group);
}

}  // namespace trainyard::sharing
