#include "sim/flow_net.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.hpp"

namespace trainyard {
namespace {

/// Shares nearer than this are one level: links that fill up together are found together.
constexpr double kSameShare = 1 + 1e-13;

bool before(double a, FlowId fa, double b, FlowId fb) { return a < b || (a == b && fa < fb); }

}  // namespace

FlowNet::FlowNet(std::span<const Link> links) : links_(links.size()) {
  for (std::size_t i = 0; i < links.size(); ++i) links_[i].capacity = links[i].capacity.value;
}

FlowId FlowNet::add(std::span<const LinkUse> route, Bytes bytes, BytesPerSecond rate_cap, FlowToken token, double now) {
  FlowId id;
  if (free_.empty()) {
    id = static_cast<FlowId>(flows_.size());
    flows_.emplace_back();
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
    const auto hop = static_cast<std::uint32_t>(flow.hops.size());
    flow.hops.push_back({use.link, use.weight, static_cast<std::uint32_t>(link.flows.size())});
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
    link.flows[hop.place] = link.flows.back();
    flows_[static_cast<std::size_t>(link.flows[hop.place].flow)].hops[link.flows[hop.place].hop].place = hop.place;
    link.flows.pop_back();
    link.used = link.flows.empty() ? 0 : link.used - flow.rate * hop.weight;
    if (!link.flows.empty()) touch(hop.link);
  }
  if (flow.in_heap != kOut) take_out(id);
  free_.push_back(id);
}

void FlowNet::remove(FlowId id) {
  std::erase(fresh_, id);
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
  if (flow.rate == rate && (flow.in_heap != kOut || rate == 0)) return;
  settle(flow, now);
  flow.rate = rate;
  if (rate > 0)
    place(id, now + flow.left / rate);
  else if (flow.in_heap != kOut)
    take_out(id);
}

bool FlowNet::alone(const Flow& flow) const {
  return std::all_of(flow.hops.begin(), flow.hops.end(),
                     [this](const Hop& hop) { return links_[static_cast<std::size_t>(hop.link)].flows.size() == 1; });
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
    LinkState& link = links_[static_cast<std::size_t>(hop.link)];
    link.left = std::max(0.0, link.left - rate * hop.weight);
    link.weights -= hop.weight;
    link.used += rate * hop.weight;
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
    link.left = link.capacity;
    link.used = 0;
    link.weights = 0;
    for (const Share& share : link.flows)
      link.weights += flows_[static_cast<std::size_t>(share.flow)].hops[share.hop].weight;
    if (link.weights > 0) levels_.push_back({link.left / link.weights, id});
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
    LinkState& link = links_[static_cast<std::size_t>(level.link)];
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
    for (const Share& of : link.flows)
      if (flows_[static_cast<std::size_t>(of.flow)].fixed < 0) fix(of.flow, share);
  }
  for (const FlowId id : component_) set_rate(id, std::max(0.0, flows_[static_cast<std::size_t>(id)].fixed), now);
}

void FlowNet::share(double now) {
  for (const FlowId id : fresh_) {
    Flow& flow = flows_[static_cast<std::size_t>(id)];
    if (!alone(flow)) {
      for (const Hop& hop : flow.hops) touch(hop.link);
      continue;
    }
    double rate = flow.cap > 0 ? flow.cap : -1;
    for (const Hop& hop : flow.hops) {
      const double most = links_[static_cast<std::size_t>(hop.link)].capacity / hop.weight;
      if (rate < 0 || most < rate) rate = most;
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
  while (!ends_.empty() && ends_.front().time <= until) {
    const FlowId id = ends_.front().flow;
    done.push_back(flows_[static_cast<std::size_t>(id)].token);
    detach(id);
  }
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
  const std::uint32_t at = flows_[static_cast<std::size_t>(id)].in_heap;
  if (at == kOut) {
    ends_.push_back({time, id});
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

void FlowNet::take_out(FlowId id) {
  const std::uint32_t at = flows_[static_cast<std::size_t>(id)].in_heap;
  flows_[static_cast<std::size_t>(id)].in_heap = kOut;
  const End last = ends_.back();
  ends_.pop_back();
  if (last.flow == id) return;
  put(at, last);
  sift_up(at);
  sift_down(flows_[static_cast<std::size_t>(last.flow)].in_heap);
}

void FlowNet::sift_up(std::uint32_t at) {
  const End end = ends_[at];
  while (at > 0) {
    const std::uint32_t above = (at - 1) / 2;
    if (!before(end.time, end.flow, ends_[above].time, ends_[above].flow)) break;
    put(at, ends_[above]);
    at = above;
  }
  put(at, end);
}

void FlowNet::sift_down(std::uint32_t at) {
  const End end = ends_[at];
  const auto size = static_cast<std::uint32_t>(ends_.size());
  for (;;) {
    std::uint32_t below = 2 * at + 1;
    if (below >= size) break;
    if (below + 1 < size && before(ends_[below + 1].time, ends_[below + 1].flow, ends_[below].time, ends_[below].flow))
      ++below;
    if (!before(ends_[below].time, ends_[below].flow, end.time, end.flow)) break;
    put(at, ends_[below]);
    at = below;
  }
  put(at, end);
}

}  // namespace trainyard
