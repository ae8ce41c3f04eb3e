#include "sim/transports/flow_net.hpp"

#include <algorithm>

#include "sim/stable_sort.hpp"

namespace trainyard {

using namespace sharing;

FlowNet::FlowNet(std::span<const Link> links) : table_(links), levels_(table_), filling_(table_) {}

FlowId FlowNet::add(std::span<const LinkUse> route, Bytes bytes, BytesPerSecond rate_cap, FlowToken token, double now) {
  const BundleId bundle = table_.bundle_of(route, rate_cap.value);
  note_change(bundle);
  return table_.add_flow(bundle, bytes.value, token, now);
}

void FlowNet::remove(FlowId id) {
  note_change(table_.flows[id].bundle);
  table_.remove_flow(id);
}

void FlowNet::note_change(BundleId id) {
  Bundle& bundle = table_.bundles[id];
  if (bundle.changed) return;
  bundle.changed = true;
  changed_.push_back(id);
}

void FlowNet::set_capacity(LinkId link, BytesPerSecond rate) {
  LinkState& state = table_.links[link];
  state.capacity = std::max(0.0, rate.value);
  if (!state.bundles.empty()) mark_dirty(link);
}

void FlowNet::mark_dirty(LinkId link) {
  LinkState& state = table_.links[link];
  if (state.dirty) return;
  state.dirty = true;
  dirty_.push_back(link);
}

/// Rate of each flow of a bundle that shares no link; −1 if it shares one.
double FlowNet::rate_alone(const Bundle& bundle) const {
  double rate = bundle.cap > 0 ? bundle.cap : -1;
  for (const Hop& hop : bundle.hops) {
    const LinkState& link = table_.links[hop.link];
    if (link.bundles.size() != 1) return -1;
    const double most = link.capacity / (hop.weight * bundle.count());
    if (rate < 0 || most < rate) rate = most;
  }
  return rate;
}

/// Removes the bundles without flows first: others may be alone then.
void FlowNet::drop_empty(double now) {
  std::size_t remaining_count = 0;
  for (const BundleId id : changed_) {
    Bundle& bundle = table_.bundles[id];
    if (!bundle.flows.empty()) {
      changed_[remaining_count++] = id;
      continue;
    }
    bundle.changed = false;
    if (bundle.group) {
      for (const Hop& hop : bundle.hops) near_.push_back(hop.link);
      if (bundle.place != kNoPlace) table_.note_next(id);  // its last flow was cancelled
      levels_.remove(id, now);
    }
    table_.detach(id);
  }
  changed_.resize(remaining_count);
}

void FlowNet::share(double now) {
  levels_.begin();
  near_.clear();
  drop_empty(now);
  for (const BundleId id : changed_) {
    Bundle& bundle = table_.bundles[id];
    bundle.changed = false;
    if (!bundle.group) {
      if (const double rate = rate_alone(bundle); rate >= 0) {
        bundle.shared = bundle.count();
        table_.run_alone(id, rate, now);
        continue;
      }
    }
    table_.note_next(id);
    if (bundle.shared == bundle.count()) continue;
    for (const Hop& hop : bundle.hops) near_.push_back(hop.link);
    levels_.change(id, now);
  }
  changed_.clear();
  if (!near_.empty() && !levels_.settle(now))
    for (const LinkId link : near_) mark_dirty(link);
  for (const LinkId link : dirty_)
    if (table_.links[link].dirty) filling_.share_from(link, now);  // otherwise it was shared together with another one
  dirty_.clear();
  table_.schedule();
}

double FlowNet::next(double now) {
  if (!changed_.empty() || !dirty_.empty()) share(now);
  return table_.ends.empty() ? -1 : table_.ends.front().due;
}

void FlowNet::collect(double until, double now, std::vector<FlowToken>& done) {
  if (!changed_.empty() || !dirty_.empty()) share(now);
  ended_.clear();
  while (!table_.ends.empty() && table_.ends.front().due <= until) {
    const FlowTable::End end = table_.ends.front();
    if (const FlowId alone = table_.take_single(end.id)) {
      ended_.push_back({end.due, alone});
      continue;
    }
    double due = end.due;
    while (const FlowId flow = table_.take_ended(end.id, until, due)) ended_.push_back({due, flow});
    table_.schedule();
  }
  sort_nearly_sorted(ended_, [](const EndedFlow& a, const EndedFlow& b) {
    return a.time < b.time || (a.time == b.time && a.flow < b.flow);
  });
  for (const EndedFlow& end : ended_) {
    const Flow& flow = table_.flows[end.flow];
    done.push_back(flow.token);
    note_change(flow.bundle);
    table_.flows.release(end.flow);
  }
}

std::size_t FlowNet::upcoming(std::array<FlowToken, kUpcoming>& tokens) const {
  const auto& ends = table_.ends.items();  // the first of the heap and its children
  const std::size_t count = std::min(tokens.size(), ends.size());
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = ends[i].token;
    if (i > 0) table_.prefetch(ends[i].id);  // the first was prefetched as one of the others
  }
  return count;
}

Bytes FlowNet::remaining(FlowId id, double now) const {
  const Flow& flow = table_.flows[id];
  return Bytes{std::max(0.0, flow.finish - table_.service(table_.bundles[flow.bundle], now))};
}

void FlowNet::shift(double seconds) {
  for (Clock& clock : table_.clocks) clock.since += seconds;
  table_.ends.shift(seconds);
}

double FlowNet::used_share(LinkId id) const {
  const LinkState& link = table_.links[id];
  if (link.capacity <= 0) return 0;
  double used = 0;
  if (const Load& load = table_.loads[id]; !load.groups.empty())
    for (const Load::GroupLoad& entry : load.groups) used += entry.weight * table_.rate(entry.group);
  else
    for (const LinkState::Share& share : link.bundles) {
      const Bundle& bundle = table_.bundles[share.bundle];
      used += bundle.hops[share.hop].weight * bundle.shared * table_.clocks[bundle.clock].rate;
    }
  return used / link.capacity;
}

}  // namespace trainyard
