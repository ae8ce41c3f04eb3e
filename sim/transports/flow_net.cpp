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

FlowNet::FlowNet(std::span<const Link> links) : links_(links.size()), filling_(links.size()) {
  for (std::size_t i = 0; i < links.size(); ++i) links_[i].capacity = links[i].capacity.value;
}

FlowId FlowNet::add(std::span<const LinkUse> route, Bytes bytes, BytesPerSecond rate_cap, FlowToken token, double now) {
  FlowId id;
  if (free_.empty()) {
    id = static_cast<FlowId>(flows_.size());
    flows_.emplace_back();
    place_.push_back(kOut);
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Flow& flow = flows_[static_cast<std::size_t>(id)];
  flow.rate = 0;
  flow.cap = rate_cap.value;
  flow.left = bytes.value;
  flow.since = now;
  flow.token = token;
  flow.hops.clear();
  for (const LinkUse& use : route) {
    LinkState& link = links_[static_cast<std::size_t>(use.link)];
    const std::uint32_t hop = flow.hops.size();
    flow.hops.push_back({use.link, use.weight, link.flows.size()});
    link.flows.push_back({id, hop});
  }
  fresh_.push_back(id);
  return id;
}

void FlowNet::touch(LinkId link) {
  LinkState& state = links_[static_cast<std::size_t>(link)];
  if (state.dirty) return;
  state.dirty = true;
  dirty_.push_back(link);
}

void FlowNet::detach(FlowId id) {
  Flow& flow = flows_[static_cast<std::size_t>(id)];
  for (const Hop& hop : flow.hops) {
    LinkState& link = links_[static_cast<std::size_t>(hop.link)];
    if (link.flows.size() == 1) {
      link.flows.clear();
      link.used = 0;
      continue;
    }
    const Share moved = link.flows.back();
    link.flows[hop.place] = moved;
    flows_[static_cast<std::size_t>(moved.flow)].hops[moved.hop].place = hop.place;
    link.flows.pop_back();
    link.used -= flow.rate * hop.weight;
    touch(hop.link);
  }
  free_.push_back(id);
}

void FlowNet::remove(FlowId id) {
  std::erase(fresh_, id);
  if (place_[static_cast<std::size_t>(id)] != kOut) take_out(place_[static_cast<std::size_t>(id)]);
  detach(id);
}

void FlowNet::set_capacity(LinkId link, BytesPerSecond rate) {
  LinkState& state = links_[static_cast<std::size_t>(link)];
  state.capacity = std::max(0.0, rate.value);
  if (!state.flows.empty()) touch(link);
}

void FlowNet::settle(Flow& flow, double now) const {
  flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.since));
  flow.since = now;
}

void FlowNet::set_rate(FlowId id, double rate, double now) {
  Flow& flow = flows_[static_cast<std::size_t>(id)];
  const std::uint32_t at = place_[static_cast<std::size_t>(id)];
  if (flow.rate == rate && (at != kOut || rate == 0)) return;
  settle(flow, now);
  flow.rate = rate;
  if (rate > 0)
    place(id, now + flow.left / rate);
  else if (at != kOut)
    take_out(at);
}

/// The rate of a flow that shares no link; −1 if it shares one.
double FlowNet::rate_alone(const Flow& flow) const {
  double rate = flow.cap > 0 ? flow.cap : -1;
  for (const Hop& hop : flow.hops) {
    const LinkState& link = links_[static_cast<std::size_t>(hop.link)];
    if (link.flows.size() != 1) return -1;
    const double most = link.capacity / hop.weight;
    if (rate < 0 || most < rate) rate = most;
  }
  return rate;
}

/// All flows that share links with the link's, and so on, with their links.
void FlowNet::gather(LinkId start) {
  ++mark_;
  component_.clear();
  component_links_.clear();
  const auto take_link = [this](LinkId id) {
    LinkState& link = links_[static_cast<std::size_t>(id)];
    if (link.mark == mark_) return;
    link.mark = mark_;
    link.dirty = false;
    component_links_.push_back(id);
  };
  take_link(start);
  for (std::size_t at = 0; at < component_links_.size(); ++at)
    for (const Share& share : links_[static_cast<std::size_t>(component_links_[at])].flows) {
      Flow& flow = flows_[static_cast<std::size_t>(share.flow)];
      if (flow.mark == mark_) continue;
      flow.mark = mark_;
      flow.fixed = -1;
      component_.push_back(share.flow);
      for (const Hop& hop : flow.hops) take_link(hop.link);
    }
}

void FlowNet::fix(FlowId id, double rate) {
  Flow& flow = flows_[static_cast<std::size_t>(id)];
  flow.fixed = rate;
  for (const Hop& hop : flow.hops) {
    Filling& link = filling_[static_cast<std::size_t>(hop.link)];
    link.left = std::max(0.0, link.left - rate * hop.weight);
    link.weights -= hop.weight;
    links_[static_cast<std::size_t>(hop.link)].used += rate * hop.weight;
  }
}

/// Progressive filling of the component: the link with the least share left fixes its flows, the others go on. Shares
/// only grow as flows are fixed, so a link that was taken off the heap too early is put back with its new share.
void FlowNet::fill(double now) {
  const auto later = [](const Level& a, const Level& b) {
    return a.share > b.share || (a.share == b.share && a.link > b.link);
  };
  levels_.clear();
  for (const LinkId id : component_links_) {
    LinkState& link = links_[static_cast<std::size_t>(id)];
    link.used = 0;
    double weights = 0;
    for (const Share& share : link.flows)
      weights += flows_[static_cast<std::size_t>(share.flow)].hops[share.hop].weight;
    filling_[static_cast<std::size_t>(id)] = {link.capacity, weights};
    if (weights > 0) levels_.push_back({link.capacity / weights, id});
  }
  std::make_heap(levels_.begin(), levels_.end(), later);
  capped_.clear();
  for (const FlowId id : component_)
    if (flows_[static_cast<std::size_t>(id)].cap > 0) capped_.push_back(id);
  std::sort(capped_.begin(), capped_.end(), [this](FlowId a, FlowId b) {  // the lowest last
    return before(flows_[static_cast<std::size_t>(b)].cap, b, flows_[static_cast<std::size_t>(a)].cap, a);
  });
  while (!levels_.empty()) {
    std::pop_heap(levels_.begin(), levels_.end(), later);
    const Level level = levels_.back();
    levels_.pop_back();
    const Filling& link = filling_[static_cast<std::size_t>(level.link)];
    if (link.weights <= 0) continue;
    const double share = link.left / link.weights;
    if (share > level.share * kSameShare) {
      levels_.push_back({share, level.link});
      std::push_heap(levels_.begin(), levels_.end(), later);
      continue;
    }
    while (!capped_.empty() && flows_[static_cast<std::size_t>(capped_.back())].fixed >= 0) capped_.pop_back();
    if (!capped_.empty() && flows_[static_cast<std::size_t>(capped_.back())].cap < share) {
      fix(capped_.back(), flows_[static_cast<std::size_t>(capped_.back())].cap);
      levels_.push_back({level.share, level.link});  // its share has changed if the flow is one of its own
      std::push_heap(levels_.begin(), levels_.end(), later);
      continue;
    }
    for (const Share& of : links_[static_cast<std::size_t>(level.link)].flows)
      if (flows_[static_cast<std::size_t>(of.flow)].fixed < 0) fix(of.flow, share);
  }
  for (const FlowId id : component_) set_rate(id, std::max(0.0, flows_[static_cast<std::size_t>(id)].fixed), now);
}

void FlowNet::share(double now) {
  for (const FlowId id : fresh_) {
    Flow& flow = flows_[static_cast<std::size_t>(id)];
    const double rate = rate_alone(flow);
    if (rate < 0) {
      for (const Hop& hop : flow.hops) touch(hop.link);
      continue;
    }
    for (const Hop& hop : flow.hops) links_[static_cast<std::size_t>(hop.link)].used = rate * hop.weight;
    set_rate(id, rate, now);
  }
  fresh_.clear();
  for (std::size_t i = 0; i < dirty_.size(); ++i) {
    if (!links_[static_cast<std::size_t>(dirty_[i])].dirty) continue;  // shared with another one's
    gather(dirty_[i]);
    fill(now);
  }
  dirty_.clear();
}

double FlowNet::next(double now) {
  if (!fresh_.empty() || !dirty_.empty()) share(now);
  return ends_.empty() ? -1 : ends_.front().time;
}

void FlowNet::collect(double until, double now, std::vector<FlowToken>& done) {
  if (!fresh_.empty() || !dirty_.empty()) share(now);
  ended_.clear();
  while (!ends_.empty() && ends_.front().time <= until) {
    ended_.push_back(ends_.front());
    take_out(0);
  }
  sort_nearly_sorted(ended_, [](const End& a, const End& b) { return before(a.time, a.flow, b.time, b.flow); });
  for (const End& end : ended_) {
    done.push_back(flows_[static_cast<std::size_t>(end.flow)].token);
    detach(end.flow);
  }
}

std::size_t FlowNet::upcoming(std::array<FlowToken, kUpcoming>& tokens) const {
  const std::size_t count = std::min(tokens.size(), ends_.size());  // the first of the heap, and those just below it
  for (std::size_t i = 0; i < count; ++i) {
    tokens[i] = ends_[i].token;
    __builtin_prefetch(&flows_[static_cast<std::size_t>(ends_[i].flow)]);
  }
  return count;
}

Bytes FlowNet::remaining(FlowId id, double now) const {
  const Flow& flow = flows_[static_cast<std::size_t>(id)];
  return Bytes{std::max(0.0, flow.left - flow.rate * (now - flow.since))};
}

double FlowNet::used_share(LinkId link) const {
  const LinkState& state = links_[static_cast<std::size_t>(link)];
  return state.capacity > 0 ? state.used / state.capacity : 0;
}

void FlowNet::place(FlowId id, double time) {
  const std::uint32_t at = place_[static_cast<std::size_t>(id)];
  if (at == kOut) {
    ends_.push_back({time, id, flows_[static_cast<std::size_t>(id)].token});
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

void FlowNet::take_out(std::uint32_t at) {
  place_[static_cast<std::size_t>(ends_[at].flow)] = kOut;
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
