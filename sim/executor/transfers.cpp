#include "sim/executor/transfers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/error.hpp"

namespace trainyard::execution {
namespace {

template <typename T>
bool same(std::span<const T> a, std::span<const T> b) {
  return a.data() == b.data() && a.size() == b.size();
}
bool same(const Route& a, const Route& b) {
  return same(a.links, b.links) && same(a.legs, b.legs) && a.latency.count == b.latency.count &&
         a.reachable == b.reachable && a.chunk.value == b.chunk.value && a.name == b.name &&
         a.alternatives == b.alternatives && a.slow == b.slow;
}

/// Returns the first edge of a group whose ends no path joins. There must be one.
GroupFlow::Edge cut_edge(const Machine& machine, const GroupFlow& group) {
  const auto is_cut = [&machine](const GroupFlow::Edge& edge) {
    return !machine.route(edge.from, edge.to, PathClass::automatic).reachable;
  };
  const auto found = std::ranges::find_if(group.edges, is_cut);
  if (found == group.edges.end()) throw InternalError("a group is cut, and each of its edges has a path");
  return *found;
}

}  // namespace

const Route& RouteCache::ask(ChannelId channel, PathClass path, Actor from, Actor to) {
  IndexedVector<Entry, ChannelId>& cache = by_path_[static_cast<std::uint8_t>(path)];
  if (!cache.contains(channel)) cache.resize(std::max(position(channel) + 1, cache.size() * 2));
  Entry& entry = cache[channel];
  entry.version = version_;
  if (const Program::Endpoints* endpoints = endpoints_.find(channel); endpoints && endpoints->from >= 0) {
    from = endpoints->from;
    to = endpoints->to;
  }
  const Route route = machine_.route(from, to, path);
  entry.current = entry.newest;
  while (entry.current && !same(entry.current->route, route)) entry.current = entry.current->older;
  if (!entry.current) add(entry, route);
  return entry.current->route;
}

const Route& RouteCache::find(const GroupFlow& group) {
  Entry& entry = group_entries_[&group];
  if (entry.version == version_) return entry.current->route;
  entry.version = version_;
  Route route;
  if (group.known_group) {
    route = group.known_group->route;
  } else {
    GroupRoute found = route_of_group(machine_, group, balance_);
    route.latency = found.latency;
    route.reachable = found.reachable;
    route.slow = found.slow;
    route.links = group_links_.emplace_back(std::move(found.links));
  }
  add(entry, route);
  return entry.current->route;
}

void RouteCache::add(Entry& entry, const Route& route) {
  cached_.push_back({route, entry.newest});
  entry.current = entry.newest = &cached_.back();
}

TransferId Transfers::create(const StreamState& s) {
  const TransferId id = pool_.acquire();
  const Message& message = s.front().message;
  Transfer& t = pool_[id];
  t.mode = message.mode;
  t.path = message.path;
  t.by_legs = t.is_load = t.counts = false;
  t.members = {};
  t.group = nullptr;
  t.from = s.actor;
  t.to = s.peer;
  t.send = table_.id_of(s);
  t.recv = {};
  t.channel = s.channel;
  t.send_id = s.id;
  t.cause = s.cause;
  t.limiting = -1;
  t.steps = message.steps;
  t.bytes = t.left = message.bytes;
  t.extra_latency = message.extra_latency;
  t.rate_cap = message.rate_cap;
  t.send_posted = s.posted;
  t.legs_left = {};
  t.later = {};
  if (t.mode != Mode::rendezvous) {
    if (!sent_.contains(id)) sent_.resize(pool_.size());
    sent_[id] = s.front();
  }
  return id;
}

const Op& Transfers::sent(TransferId id) const {
  const Transfer& t = pool_[id];
  return t.mode == Mode::rendezvous ? table_.streams[t.send].front() : sent_[id];
}

void Transfers::park(TransferId id, const Route& route) {
  Transfer& t = pool_[id];
  t.route = &route;
  t.links = route.links;
  if (!links_.any_down()) {
    const auto [from, to, weight] = t.group ? cut_edge(context_.machine, *t.group) : GroupFlow::Edge{t.from, t.to};
    throw UserError(fmt::format("{}{} cannot reach {}: no path between them", context_.machine.cause_of_cut(from, to),
                                context_.machine.actor_name(from), context_.machine.actor_name(to)));
  }
  t.state = Transfer::State::parked;
  parked_.push_back(id);
}

/// Chooses a path by the messages that are under way, and counts this one.
const Route& Transfers::choose_route(Transfer& t) {
  const Route& first_route = find_route(t);
  if (!first_route.alternatives) return first_route;
  const Route& route = least_loaded(*first_route.alternatives, loads_, context_.machine.links());
  add_load(loads_, route.links);
  t.is_load = chooses_paths_ = true;
  return route;
}

void Transfers::drop_load(Transfer& t) {
  if (std::exchange(t.is_load, false)) add_load(loads_, t.route->links, -1);
}

/// Puts the bytes beyond the first flowlet aside if the route has flowlets.
void Transfers::cut_flowlet(Transfer& t) {
  if (!t.is_load || t.route->flowlet.value <= 0 || t.left <= t.route->flowlet) return;
  t.later = t.left - t.route->flowlet;
  t.left = t.route->flowlet;
}

/// Sends the rest of a message over a route: all of it at once, its first leg, or its first flowlet.
void Transfers::take_route(TransferId id, const Route& route) {
  Transfer& t = pool_[id];
  t.route = &route;
  t.links = route.links;
  t.legs_left = {};
  t.by_legs = t.steps == 1 && route.store_and_forward(t.left);
  const Picoseconds request{t.mode == Mode::get ? route.latency.count : 0};
  t.latency = Picoseconds{route.latency.count * t.steps} + t.extra_latency + request;
  if (!t.by_legs) {
    if (!route.legs.empty()) t.latency += to_picoseconds(route.fill_time());
    cut_flowlet(t);
    return pay_latency(id, t.latency);
  }
  t.legs_left = route.legs.subspan(1);
  t.leg_bytes = t.left;
  t.links = route.legs.front().links;
  pay_latency(id, route.legs.front().latency + t.extra_latency + request);
}

void Transfers::resume(TransferId id, double began, const MovedBytes& so_far) {
  Transfer& t = pool_[id];
  ++count_;
  t.started = t.leg_started = began;
  t.by_legs = t.timed = false;
  t.route = &find_route(t);
  t.links = t.route->links;
  t.slow = t.route->slow;
  t.latency = t.leg_latency = t.route->latency + t.extra_latency;
  if (so_far.latency_left > 0) {
    t.state = Transfer::State::latency;
    t.timed = true;
    t.timer = context_.set_timer(context_.now + so_far.latency_left, TimerToken::Kind::latency, id.number());
    return;
  }
  const Bytes moved = std::min(t.left, so_far.bytes);
  if (moved.value > 0) {
    t.limiting = so_far.limiting;
    report(id, moved, Outcome::done, false, true);
    t.limiting = -1;
    t.leg_started = context_.now;
    t.leg_latency = {};
    t.left = t.left - moved;
  }
  start_flow(id);
}

void Transfers::pay_latency(TransferId id, Picoseconds latency) {
  Transfer& t = pool_[id];
  t.leg_latency = latency;
  t.state = Transfer::State::latency;
  t.timed = latency.count > 0;
  if (t.timed)
    t.timer = context_.set_timer(context_.now + latency.seconds().value, TimerToken::Kind::latency, id.number());
  else
    start_flow(id);
}

/// Starts the flow of bytes when the latency is over. A link of the route may have failed meanwhile. If no other path
/// is left, the bytes depart and stall on the old route; a message without bytes waits for the link.
void Transfers::arrive(TransferId id) {
  Transfer& t = pool_[id];
  const bool stopped = links_.any_down(t.links);
  if (stopped && reroute(id)) return;
  if (!stopped || t.left.value > 0) return start_flow(id);
  t.state = Transfer::State::parked;
  parked_.push_back(id);
}

void Transfers::start_flow(TransferId id) {
  Transfer& t = pool_[id];
  const bool instant = t.left.value <= 0 || (t.links.empty() && t.rate_cap.value <= 0);
  t.state = instant ? Transfer::State::instant : Transfer::State::departing;
  (instant ? instant_ : departing_).push_back(id);
}

/// A buffer on the route has stored the message and forwards it.
void Transfers::start_next_leg(TransferId id) {
  Transfer& t = pool_[id];
  report(id, t.left, Outcome::done, false, false);
  const Leg& leg = t.legs_left.front();
  t.legs_left = t.legs_left.subspan(1);
  t.links = leg.links;
  t.left = t.leg_bytes;
  t.limiting = -1;
  t.leg_started = context_.now;
  t.state = Transfer::State::latency;  // nothing has moved on this leg yet
  t.timed = false;
  if (links_.any_down(t.links) && reroute(id)) return;
  pay_latency(id, leg.latency);
}

/// The next flowlet takes the route that is the least loaded now. It follows the one before it without a gap, so that
/// it pays no latency.
void Transfers::start_next_flowlet(TransferId id) {
  Transfer& t = pool_[id];
  report(id, t.left, Outcome::done, false, true);
  t.left = std::exchange(t.later, {});
  drop_load(t);
  const Route& route = choose_route(t);
  t.limiting = -1;
  t.leg_started = context_.now;
  t.leg_latency = {};
  if (!route.reachable) return park(id, route);
  t.route = &route;
  t.links = route.links;
  cut_flowlet(t);
  start_flow(id);
}

Bytes Transfers::withdraw(TransferId id) {
  Transfer& t = pool_[id];
  Bytes moved;
  switch (t.state) {
    case Transfer::State::latency:
      if (t.timed) context_.timers.cancel(t.timer);
      break;
    case Transfer::State::flowing:
      moved = t.left - context_.transport.remaining(t.flow);
      context_.transport.cancel(t.flow);
      break;
    case Transfer::State::departing:
      std::erase(departing_, id);
      break;
    case Transfer::State::parked:
      std::erase(parked_, id);
      break;
    case Transfer::State::landed:
    case Transfer::State::instant:
      std::erase(instant_, id);
      moved = t.left;
      break;
    case Transfer::State::free:
    case Transfer::State::arrived:
    case Transfer::State::exposed:
      break;
  }
  return moved;
}

void Transfers::notify(TransferId id, Bytes moved, Outcome outcome, bool last, bool last_leg) const {
  const Transfer& t = pool_[id];
  const StreamState* receiver = t.recv ? &table_.streams[t.recv] : nullptr;
  TransferRun run{.from = t.from,
                  .to = t.to,
                  .send = &sent(id),
                  .recv = receiver ? &receiver->front() : nullptr,
                  .send_id = t.send_id,
                  .recv_id = receiver ? receiver->id : 0,
                  .bytes = moved,
                  .route = *t.route,
                  .started = Seconds{t.leg_started},
                  .ended = Seconds{context_.now},
                  .latency = t.leg_latency,
                  .limiting = t.limiting,
                  .outcome = outcome,
                  .group = t.group,
                  .last = last,
                  .last_leg = last_leg};
  run.route.links = t.links;
  for (Observer* o : context_.observers.transfer_observers()) o->transferred(run);
}

void Transfers::depart() {
  for (const TransferId id : departing_) {
    Transfer& t = pool_[id];
    t.flow = context_.transport.send(t.links, t.left, t.rate_cap, id.number());
    t.state = Transfer::State::flowing;
    t.seen = t.left;
  }
  if (context_.observers.record_limiting()) departed_.insert(departed_.end(), departing_.begin(), departing_.end());
  departing_.clear();
}

void Transfers::reroute_all() {
  routes_.invalidate();
  for (const TransferId id : std::exchange(parked_, {})) reroute(id);
  for (TransferId id{0}; id < pool_.end_id(); ++id) {
    const Transfer& t = pool_[id];
    // The rest of the step handles transfers that end in it, and those whose latency ends in it.
    const bool moving = t.state == Transfer::State::flowing || (t.state == Transfer::State::latency && t.timed);
    if (moving && links_.any_down(t.links)) reroute(id);
  }
}

/// Moves the rest of a transfer to another path, where it pays the latency anew. Bytes that had not left a buffer on
/// the old route are sent again from the start. Returns false if every path has a failed link: the transfer stalls on
/// its old path until the link is back.
bool Transfers::reroute(TransferId id) {
  Transfer& t = pool_[id];
  const Route& route = find_route(t);
  if (!route.reachable || links_.any_down(route.links)) {
    if (t.state == Transfer::State::parked) parked_.push_back(id);
    return false;
  }
  const Bytes moved = withdraw(id);
  if (moved.value > 0) {
    report(id, moved, Outcome::done, false, !t.by_legs);
    t.leg_started = context_.now;
  }
  t.left = t.by_legs ? t.leg_bytes : t.left - moved + std::exchange(t.later, {});
  t.limiting = -1;
  drop_load(t);
  take_route(id, route);
  return true;
}

void Transfers::note_limits() {
  for (const TransferId id : departed_) {
    Transfer& t = pool_[id];
    if (t.state != Transfer::State::flowing) continue;
    for (const LinkUse& use : t.links)
      if (limits(use.link, context_.transport.used_share(use.link), t.limiting, context_.machine.links()))
        t.limiting = use.link;
  }
  departed_.clear();
}

void Transfers::prefetch_upcoming() const {
  std::array<FlowToken, kUpcoming> tokens{};
  const std::size_t count = context_.transport.upcoming(tokens);
  if (count == 0) return;
  for (std::size_t i = 1; i < count; ++i) prefetch(pool_[TransferId{tokens[i]}]);
  const Transfer& next = pool_[TransferId{tokens[0]}];  // an earlier call has prefetched it
  prefetch(table_.actors[next.from]);
  prefetch(table_.actors[next.to]);
  if (next.send) prefetch(table_.streams[next.send]);
  if (next.recv) prefetch(table_.streams[next.recv]);
}

void LinkRates::record(double until) {
  const double span = until - since_;
  if (span <= 0) return;
  rates_.assign(links_.size(), BytesPerSecond{0});
  for (Transfer& t : transfers_) {
    if (t.state != Transfer::State::flowing && t.state != Transfer::State::landed) continue;
    const Bytes bytes_left = t.state == Transfer::State::landed ? Bytes{0} : context_.transport.remaining(t.flow);
    const BytesPerSecond rate = (t.seen - bytes_left) / Seconds{span};
    t.seen = bytes_left;
    for (const LinkUse& use : t.links) rates_[use.link] += rate * use.weight;
  }
  for (Observer* o : context_.observers.observers()) o->link_rates(Seconds{since_}, Seconds{until}, rates_);
  since_ = until;
}

}  // namespace trainyard::execution
