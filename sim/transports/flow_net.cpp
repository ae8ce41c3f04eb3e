#include "sim/transports/flow_net.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.hpp"
#include "sim/nearly_sorted.hpp"

namespace trainyard {
namespace {

/// Shares nearer than this are one level: links that fill up together are found together.
constexpr double kSameShare = 1 + 1e-13;

bool before(double a, FlowId fa, double b, FlowId fb) { return a < b || (a == b && fa < fb); }

}  // namespace

FlowNet::FlowNet(std::span<const Link> links) : unshared_(links.size()) {
  for (const Link& link : links) links_.emplace_back().capacity = link.capacity.value;
}

FlowId FlowNet::add(std::span<const LinkUse> route, Bytes bytes, BytesPerSecond rate_cap, FlowToken token, double now) {
  const FlowId id = flows_.acquire();
  if (!place_.contains(id)) {
    place_.push_back(kOut);
    fixed_.push_back(-1);
  }
  Flow& flow = flows_[id];
  flow.rate = 0;
  flow.cap = rate_cap.value;
  flow.left = bytes.value;
  flow.since = now;
  flow.token = token;
  flow.hops.clear();
  for (const LinkUse& use : route) {
    LinkState& link = links_[use.link];
    const auto hop = static_cast<std::uint32_t>(flow.hops.size());
    flow.hops.push_back({use.link, static_cast<std::uint32_t>(link.flows.size()), use.weight});
    link.flows.push_back({id, hop});
  }
  unshared_flows_.push_back(id);
  return id;
}

void FlowNet::mark_dirty(LinkId link) {
  LinkState& state = links_[link];
  if (state.dirty) return;
  state.dirty = true;
  dirty_.push_back(link);
}

void FlowNet::detach(FlowId id) {
  Flow& flow = flows_[id];
  for (const Hop& hop : flow.hops) {
    LinkState& link = links_[hop.link];
    if (link.flows.size() == 1) {
      link.flows.clear();
      link.used = 0;
      continue;
    }
    const Share moved = link.flows.back();
    link.flows[hop.place] = moved;
    flows_[moved.flow].hops[moved.hop].place = hop.place;
    link.flows.pop_back();
    link.used -= flow.rate * hop.weight;
    mark_dirty(hop.link);
  }
  flows_.release(id);
}

void FlowNet::remove(FlowId id) {
  std::erase(unshared_flows_, id);
  if (place_[id] != kOut) remove_end(place_[id]);
  detach(id);
}

void FlowNet::set_capacity(LinkId link, BytesPerSecond rate) {
  LinkState& state = links_[link];
  state.capacity = std::max(0.0, rate.value);
  if (!state.flows.empty()) mark_dirty(link);
}

void FlowNet::set_rate(FlowId id, double rate, double now) {
  Flow& flow = flows_[id];
  const std::uint32_t at = place_[id];
  if (flow.rate == rate && (at != kOut || rate == 0)) return;
  flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.since));
  flow.since = now;
  flow.rate = rate;
  if (rate > 0)
    schedule_end(id, now + flow.left / rate);
  else if (at != kOut)
    remove_end(at);
}

/// The rate of a flow that shares no link; −1 if it shares one.
double FlowNet::rate_alone(const Flow& flow) const {
  double rate = flow.cap > 0 ? flow.cap : -1;
  for (const Hop& hop : flow.hops) {
    const LinkState& link = links_[hop.link];
    if (link.flows.size() != 1) return -1;
    const double most = link.capacity / hop.weight;
    if (rate < 0 || most < rate) rate = most;
  }
  return rate;
}

/// All flows that share links with the link's, and so on, with their links.
void FlowNet::gather_component(LinkId start) {
  ++mark_;
  component_.clear();
  component_links_.clear();
  const auto take_link = [this](LinkId id) {
    LinkState& link = links_[id];
    if (link.mark == mark_) return;
    link.mark = mark_;
    link.dirty = false;
    component_links_.push_back(id);
  };
  take_link(start);
  for (std::size_t at = 0; at < component_links_.size(); ++at)
    for (const Share& share : links_[component_links_[at]].flows) {
      Flow& flow = flows_[share.flow];
      if (flow.mark == mark_) continue;
      flow.mark = mark_;
      fixed_[share.flow] = -1;
      component_.push_back(share.flow);
      for (const Hop& hop : flow.hops) take_link(hop.link);
    }
}

void FlowNet::fix(FlowId id, double rate) {
  fixed_[id] = rate;
  for (const Hop& hop : flows_[id].hops) {
    Unshared& link = unshared_[hop.link];
    link.capacity = std::max(0.0, link.capacity - rate * hop.weight);
    link.weights -= hop.weight;
    links_[hop.link].used += rate * hop.weight;
  }
}

/// Progressive filling of the component: the link with the least share left fixes its flows, the others go on. Shares
/// only grow as flows are fixed, so a link that was taken off the heap too early is put back with its new share.
void FlowNet::share_component(double now) {
  const auto later = [](const Bottleneck& a, const Bottleneck& b) {
    return a.share > b.share || (a.share == b.share && a.link > b.link);
  };
  bottlenecks_.clear();
  for (const LinkId id : component_links_) {
    LinkState& link = links_[id];
    link.used = 0;
    double weights = 0;
    for (const Share& share : link.flows) weights += flows_[share.flow].hops[share.hop].weight;
    unshared_[id] = {link.capacity, weights};
    if (weights > 0) bottlenecks_.push_back({link.capacity / weights, id});
  }
  std::make_heap(bottlenecks_.begin(), bottlenecks_.end(), later);
  capped_.clear();
  for (const FlowId id : component_)
    if (flows_[id].cap > 0) capped_.push_back(id);
  std::sort(capped_.begin(), capped_.end(), [this](FlowId a, FlowId b) {  // the lowest last
    return before(flows_[b].cap, b, flows_[a].cap, a);
  });
  while (!bottlenecks_.empty()) {
    std::pop_heap(bottlenecks_.begin(), bottlenecks_.end(), later);
    const Bottleneck least = bottlenecks_.back();
    bottlenecks_.pop_back();
    const Unshared& link = unshared_[least.link];
    if (link.weights <= 0) continue;
    const double share = link.capacity / link.weights;
    if (share > least.share * kSameShare) {
      bottlenecks_.push_back({share, least.link});
      std::push_heap(bottlenecks_.begin(), bottlenecks_.end(), later);
      continue;
    }
    while (!capped_.empty() && fixed_[capped_.back()] >= 0) capped_.pop_back();
    if (!capped_.empty() && flows_[capped_.back()].cap < share) {
      fix(capped_.back(), flows_[capped_.back()].cap);
      bottlenecks_.push_back({least.share, least.link});  // its share has changed if the flow is one of its own
      std::push_heap(bottlenecks_.begin(), bottlenecks_.end(), later);
      continue;
    }
    for (const Share& of : links_[least.link].flows)
      if (fixed_[of.flow] < 0) fix(of.flow, share);
  }
  for (const FlowId id : component_) set_rate(id, std::max(0.0, fixed_[id]), now);
}

void FlowNet::share(double now) {
  for (const FlowId id : unshared_flows_) {
    Flow& flow = flows_[id];
    const double rate = rate_alone(flow);
    if (rate < 0) {
      for (const Hop& hop : flow.hops) mark_dirty(hop.link);
      continue;
    }
    for (const Hop& hop : flow.hops) links_[hop.link].used = rate * hop.weight;
    set_rate(id, rate, now);
  }
  unshared_flows_.clear();
  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    if (!links_[dirty_[i]].dirty) continue;  // shared with another one's
    gather_component(dirty_[i]);
    share_component(now);
  }
  dirty_.clear();
}

double FlowNet::next(double now) {
  if (!unshared_flows_.empty() || !dirty_.empty()) share(now);
  return ends_.empty() ? -1 : ends_.front().time;
}

void FlowNet::collect(double until, double now, std::vector<FlowToken>& done) {
  if (!unshared_flows_.empty() || !dirty_.empty()) share(now);
  ended_.clear();
  while (!ends_.empty() && ends_.front().time <= until) {
    ended_.push_back(ends_.front());
    remove_end(0);
  }
  sort_nearly_sorted(ended_, [](const End& a, const End& b) { return before(a.time, a.flow, b.time, b.flow); });
  for (const End& end : ended_) {
    done.push_back(flows_[end.flow].token);
    detach(end.flow);
  }
}

std::size_t FlowNet::upcoming(std::array<FlowToken, kUpcoming>& tokens) const {
  const std::size_t count = std::min(tokens.size(), ends_.size());  // the first of the heap, and those just below it
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = ends_[i].token;
    __builtin_prefetch(&flows_[ends_[i].flow]);
  }
  return count;
}

Bytes FlowNet::remaining(FlowId id, double now) const {
  const Flow& flow = flows_[id];
  return Bytes{std::max(0.0, flow.left - flow.rate * (now - flow.since))};
}

double FlowNet::used_share(LinkId link) const {
  const LinkState& state = links_[link];
  return state.capacity > 0 ? state.used / state.capacity : 0;
}

void FlowNet::schedule_end(FlowId id, double time) {
  const std::uint32_t at = place_[id];
  if (at == kOut) {
    ends_.push_back({time, id, flows_[id].token});
    sift_up(static_cast<std::uint32_t>(ends_.size()) - 1);
    return;
  }
  const double was = ends_[at].time;
  ends_[at].time = time;
  if (time < was)
    sift_up(at);
  else
    sift_down(at);
}

void FlowNet::remove_end(std::uint32_t at) {
  place_[ends_[at].flow] = kOut;
  const End last = ends_.back();
  ends_.pop_back();
  if (at == ends_.size()) return;
  put(at, last);
  if (at > 0 && last.time < ends_[(at - 1) / 4].time)
    sift_up(at);
  else
    sift_down(at);
}

void FlowNet::sift_up(std::uint32_t at) {
  const End end = ends_[at];
  while (at > 0) {
    const std::uint32_t above = (at - 1) / 4;
    if (!(end.time < ends_[above].time)) break;
    put(at, ends_[above]);
    at = above;
  }
  put(at, end);
}

void FlowNet::sift_down(std::uint32_t at) {
  const End end = ends_[at];
  const auto size = static_cast<std::uint32_t>(ends_.size());
  for (;;) {
    const std::uint32_t first = 4 * at + 1, last = std::min(first + 4, size);
    std::uint32_t least = first;
    for (std::uint32_t below = first + 1; below < last; ++below)
      if (ends_[below].time < ends_[least].time) least = below;
    if (first >= size || !(ends_[least].time < end.time)) break;
    put(at, ends_[least]);
    at = least;
  }
  put(at, end);
}

}  // namespace trainyard
