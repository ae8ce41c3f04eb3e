// Joins: groups that meet. Whoever comes last lets all go on, or sets off the flow that all of them make together.
#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "sim/error.hpp"
#include "sim/executor/executor_state.hpp"

namespace trainyard {

void Executor::begin_join(StreamState& last) {
  const OpId cause = last.cause;
  std::vector<Ref>& there = joins_[last.front().message.tag];
  there.push_back(ref_of(last));
  if (there.size() < last.front().message.steps) return;
  std::vector<Ref> all = std::move(there);
  joins_.erase(last.front().message.tag);
  std::sort(all.begin(), all.end());
  const Message& m = last.front().message;
  const bool flows = m.bytes.value > 0 || m.extra_latency.count > 0;
  const int busy = flows && !group_flow(last).by_engines ? 1 : 0;
  for (const Ref ref : all) {
    StreamState& s = streams_[ref];
    s.started = now_;
    s.cause = cause;
    announce_start(s);
    if (flows)
      set_active(s.actor, Kind::send, busy);
    else
      finish(s, Outcome::done);
  }
  if (flows) begin_group(std::move(all));
}

/// The one that a join names; nowhere, of a join that is latency alone.
const GroupFlow& Executor::group_flow(const StreamState& s) const {
  const Message& m = s.front().message;
  const std::span<const GroupFlow* const> known = actors_[static_cast<std::size_t>(s.actor)].program->group_flows();
  if (m.bytes.value > 0 && (m.slot >= known.size() || !known[m.slot]))
    throw InternalError(
        fmt::format("{} names group flow {}, of {}", machine_.actor_name(s.actor), m.slot, known.size()));
  static const GroupFlow nowhere;
  return m.slot < known.size() && known[m.slot] ? *known[m.slot] : nowhere;
}

/// One flow over all ways of the group at once: whoever is slowed slows all, as in the library's rings.
void Executor::begin_group(std::vector<Ref> members) {
  StreamState& first = streams_[members.front()];
  first.peer = first.actor;
  const std::uint32_t index = new_transfer(first);
  first.peer = -1;
  Transfer& t = transfers_pool_[index];
  t.mode = Mode::rendezvous;
  t.group = &group_flow(first);
  t.steps = 1;
  if (free_member_lists_.empty()) {
    free_member_lists_.push_back(static_cast<std::uint32_t>(member_lists_.size()));
    member_lists_.emplace_back();
  }
  t.members = free_member_lists_.back();
  free_member_lists_.pop_back();
  for (const Ref ref : members) streams_[ref].transfer = index;
  member_lists_[t.members] = std::move(members);
  start_transfer(index);
}

void Executor::end_group(std::uint32_t index, Outcome outcome) {
  const std::uint32_t list = transfers_pool_[index].members;
  const std::vector<Ref> members = std::move(member_lists_[list]);
  free_member_lists_.push_back(list);
  const Transfer t = transfers_pool_[index];
  release_transfer(index);
  for (const Ref ref : members) {
    StreamState& s = streams_[ref];
    s.bytes = t.bytes;
    s.latency = t.latency;
    s.limiting = t.limiting;
    set_active(s.actor, Kind::send, t.group->by_engines ? 0 : -1);
    finish(s, outcome);
  }
}

/// The ways of all edges as one: a link that several cross is taken so many times.
const Route& Executor::find_group_route(const GroupFlow& group) {
  CachedRoute& cached = group_route_cache_[&group];
  if (cached.version == route_version_) return cached.now->route;
  cached.version = route_version_;
  std::map<LinkId, std::int32_t> uses;
  Route route;
  for (const GroupFlow::Edge& edge : group.edges) {
    const Route way = machine_.route(edge.from, edge.to, PathClass::automatic);
    route.reachable = route.reachable && way.reachable;
    if (group.by_engines) route.latency = std::max(route.latency, way.latency);
    for (const LinkUse& use : way.links) uses[use.link] += use.weight * edge.weight;
  }
  std::vector<LinkUse>& links = group_links_.emplace_back();
  for (const auto& [link, weight] : uses) links.push_back({link, weight});
  route.links = links;
  routes_.push_back({route, cached.newest});
  cached.now = cached.newest = &routes_.back();
  return cached.now->route;
}

void Executor::withdraw_join(Tag tag, Ref ref) { std::erase(joins_[tag], ref); }

}  // namespace trainyard
