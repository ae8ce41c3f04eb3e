#include "sim/transports/flow_table.hpp"

namespace trainyard::sharing {
namespace {

bool later(const Bundle::Due& a, const Bundle::Due& b) { return a.due > b.due || (a.due == b.due && a.id > b.id); }

bool is_of(const Bundle& bundle, std::span<const LinkUse> route, double cap) {
  if (bundle.route != route.data() || bundle.cap != cap || bundle.hops.size() != route.size()) return false;
  for (std::size_t h = 0; h < route.size(); ++h)  // another route may lie where one has been
    if (bundle.hops[h].link != route[h].link || bundle.hops[h].weight != route[h].weight) return false;
  return true;
}

}  // namespace

FlowTable::FlowTable(std::span<const Link> of_machine) : loads(of_machine.size()) {
  for (const Link& link : of_machine) links.emplace_back().capacity = link.capacity.value;
}

ClockId FlowTable::new_clock(BundleId bundle, GroupId group) {
  clocks.emplace_back().group = group;
  bundle_by.push_back(bundle);
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
  if (!bundle.own) bundle.own = new_clock(id, {});
  bundle.clock = bundle.own;
  bundle.group = {};
  bundle.cap = cap;
  bundle.shared = 0;
  bundle.route = route.data();
  bundle.hops.clear();
  clocks[bundle.own].rate = 0;
  for (const LinkUse& use : route) {
    LinkState& link = links[use.link];
    const auto hop = static_cast<std::uint32_t>(bundle.hops.size());
    bundle.hops.push_back({use.link, static_cast<std::uint32_t>(link.bundles.size()), use.weight});
    link.bundles.push_back({id, hop});
  }
  return id;
}

FlowId FlowTable::add_flow(BundleId of, double bytes, FlowToken token, double now) {
  Bundle& bundle = bundles[of];
  if (bundle.flows.empty()) {  // its service counts from here: small numbers lose least
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
    flows[id] = {bytes, of, token};
    bundle.flows.push_back({bytes, id});
    return id;
  }
  const double finish = service(bundle, now) + bytes;
  flows[id] = {finish, of, token};
  bundle.flows.push_back({finish, id});
  std::push_heap(bundle.flows.begin(), bundle.flows.end(), later);
  return id;
}

void FlowTable::remove_flow(FlowId id) {
  auto& of = bundles[flows[id].bundle].flows;
  of.erase(std::find_if(of.begin(), of.end(), [id](const Bundle::Due& due) { return due.id == id; }));
  std::make_heap(of.begin(), of.end(), later);
  flows.release(id);
}

FlowId FlowTable::take_ended(ClockId by, double until, double& ended) {
  const Clock& clock = clocks[by];
  if (!clock.running || clock.next_end() > until) return {};
  ended = clock.next_end();
  const BundleId of = clock.group ? groups[clock.group].bundles.front().id : bundle_by[by];
  auto& its = bundles[of].flows;
  const FlowId id = its.front().id;
  std::pop_heap(its.begin(), its.end(), later);
  its.pop_back();
  note_next(of);
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
  const ClockId own = bundles[id].own;
  if (place_[own] != kNoPlace) ends.remove(place_[own], place_of_end());
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
  if (!first.empty()) clock.token = flows[first.front().id].token;  // else its turn comes: all its flows were cancelled
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
  bundle.shift = service_now - clocks[bundle.clock].at(now);
  note_next(id);
}

void FlowTable::leave_group(BundleId id, double now) {
  Bundle& bundle = bundles[id];
  const GroupId left = bundle.group;
  if (bundle.place != kNoPlace) groups[left].bundles.remove(bundle.place, place_in_group());
  Clock& clock = clocks[bundle.own];
  clock.service = service(bundle, now);
  clock.since = now;
  clock.rate = 0;
  bundle.clock = bundle.own;
  bundle.shift = 0;
  bundle.group = {};
  note_next(id);
  if (--groups[left].members > 0) return;
  if (groups[left].link >= 0) loads[groups[left].link].limits = {};
  clocks[groups[left].clock].running = false;
  schedule_later(groups[left].clock);
  groups.release(left);
}

}  // namespace trainyard::sharing
