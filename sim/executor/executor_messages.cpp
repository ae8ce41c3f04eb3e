// Messages: two halves become a transfer, which pays its latency and then its bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/error.hpp"
#include "sim/executor/executor_state.hpp"

namespace trainyard {
namespace {

template <typename T>
bool same(std::span<const T> a, std::span<const T> b) {
  return a.data() == b.data() && a.size() == b.size();
}
bool same(const Route& a, const Route& b) {
  return same(a.links, b.links) && same(a.legs, b.legs) && a.latency.count == b.latency.count &&
         a.reachable == b.reachable && a.chunk.value == b.chunk.value && a.name == b.name;
}

}  // namespace

ChannelId Executor::channel(const StreamState& s, bool sending, std::uint16_t slot) {
  const ActorState& a = actor_of(s);
  if (slot >= a.slots)
    throw InternalError(fmt::format("{} names peer slot {}, of {}", machine_.actor_name(s.actor), slot, a.slots));
  ChannelId& channel = channels_[a.channels + 2U * slot + (sending ? 0 : 1)];
  if (channel < 0) {
    const Actor peer = a.program->slots()[slot];
    channel = sending ? matcher_.channel(s.actor, peer) : matcher_.channel(peer, s.actor);
  }
  return channel;
}

std::uint32_t Executor::new_transfer(const StreamState& s) {
  std::uint32_t index;
  if (free_transfers_.empty()) {
    index = static_cast<std::uint32_t>(transfers_pool_.size());
    transfers_pool_.emplace_back();
  } else {
    index = free_transfers_.back();
    free_transfers_.pop_back();
  }
  const Message& message = s.front().message;
  Transfer& t = transfers_pool_[index];
  t.mode = message.mode;
  t.path = message.path;
  t.by_legs = false;
  t.members = kNone;
  t.group = nullptr;
  t.from = s.actor;
  t.to = s.peer;
  t.send = ref_of(s);
  t.recv = kNone;
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
  if (t.mode != Mode::rendezvous) {
    if (sent_ops_.size() <= index) sent_ops_.resize(transfers_pool_.size());
    sent_ops_[index] = s.front();
  }
  return index;
}

void Executor::release_transfer(std::uint32_t index) {
  transfers_pool_[index].state = Transfer::State::free;
  free_transfers_.push_back(index);
}

void Executor::begin_send(StreamState& s) {
  const Message& m = s.front().message;
  if (!(m.bytes.value >= 0)) throw InternalError(fmt::format("a message of {} bytes", m.bytes.value));
  s.channel = channel(s, true, m.slot);
  s.peer = matcher_.receiver(s.channel);
  if (m.mode == Mode::rendezvous) {
    const auto partner = matcher_.send(s.channel, m.tag, ref_of(s));
    if (!partner) return;
    const std::uint32_t t = new_transfer(s);
    s.transfer = t;
    attach(t, *partner);
    return start_transfer(t);
  }
  const std::uint32_t t = new_transfer(s);
  const bool eager = m.mode == Mode::eager;
  if (!eager) s.transfer = t;
  if (const auto partner = matcher_.send(s.channel, m.tag, kTransferRef | t)) attach(t, *partner);
  start_transfer(t);
  if (eager) finish(s, Outcome::done);
}

void Executor::begin_recv(StreamState& s) {
  const Message& m = s.front().message;
  const Ref me = ref_of(s);
  const bool any = m.slot == kAnyPeer;
  if (!any) {
    s.channel = channel(s, false, m.slot);
    s.peer = matcher_.sender(s.channel);
  }
  const auto partner = any ? matcher_.recv_any(s.actor, m.tag, me) : matcher_.recv(s.channel, m.tag, me);
  if (!partner) return;
  if (*partner & kTransferRef) {
    const std::uint32_t t = *partner & ~kTransferRef;
    attach(t, me);
    const Transfer& transfer = transfers_pool_[t];
    if (transfer.state == Transfer::State::arrived) {
      s.started = now_;
      s.bytes = transfer.bytes;
      s.latency = transfer.latency;
      s.limiting = transfer.limiting;
      announce_start(s);
      announce_delivery(t, s);
      release_transfer(t);
      finish(s, Outcome::done);
    }
    return;
  }
  StreamState& sender = streams_[*partner];
  const std::uint32_t t = new_transfer(sender);
  sender.transfer = t;
  transfers_pool_[t].cause = s.cause;  // this half came last
  attach(t, me);
  start_transfer(t);
}

void Executor::attach(std::uint32_t index, Ref recv) {
  Transfer& t = transfers_pool_[index];
  StreamState& r = streams_[recv];
  t.recv = recv;
  r.transfer = index;
  r.peer = t.from;
  if (t.state == Transfer::State::arrived) return;
  if (t.state != Transfer::State::free) {  // on its way already
    r.started = t.started;
    r.cause = t.cause;
    set_active(r.actor, Kind::recv, +1);
    announce_start(r);
  }
}

/// Asked once for each channel and class, and again when a link has failed or come back.
const Route& Executor::find_route(const Transfer& t) {
  if (t.group) return find_group_route(*t.group);
  std::vector<CachedRoute>& cache = route_cache_[static_cast<std::size_t>(t.path)];
  const auto channel = static_cast<std::size_t>(t.channel);
  if (channel >= cache.size()) cache.resize(std::max(channel + 1, cache.size() * 2));
  CachedRoute& cached = cache[channel];
  if (cached.version == route_version_) return cached.now->route;
  cached.version = route_version_;
  const Route route = machine_.route(t.from, t.to, t.path);
  cached.now = cached.newest;
  while (cached.now && !same(cached.now->route, route)) cached.now = cached.now->older;
  if (!cached.now) {
    routes_.push_back({route, cached.newest});
    cached.now = cached.newest = &routes_.back();
  }
  return cached.now->route;
}

void Executor::start_transfer(std::uint32_t index) {
  Transfer& t = transfers_pool_[index];
  t.started = now_;
  ++transfers_;
  const auto begun = [this, &t](StreamState& s) {
    s.started = now_;
    s.cause = t.cause;
    set_active(s.actor, s.front().kind, +1);
    announce_start(s);
  };
  if (t.members == kNone) begun(streams_[t.send]);
  if (t.recv != kNone) begun(streams_[t.recv]);
  t.leg_started = now_;
  const Route& route = find_route(t);
  if (!route.reachable) {
    t.way = &route;
    t.links = route.links;
    if (!any_link_down())
      throw UserError(fmt::format("{} cannot reach {}: no path between them", machine_.actor_name(t.from),
                                  machine_.actor_name(t.to)));
    t.state = Transfer::State::parked;  // a link may come back
    parked_.push_back(index);
    return;
  }
  set_off(index, route);
}

/// What is left of a message takes a way: the whole of it at once, or its first leg.
void Executor::set_off(std::uint32_t index, const Route& way) {
  Transfer& t = transfers_pool_[index];
  t.way = &way;
  t.links = way.links;
  t.legs_left = {};
  t.by_legs = t.steps == 1 && way.store_and_forward(t.left);
  t.latency = Picoseconds{way.latency.count * t.steps} + t.extra_latency;
  if (!t.by_legs) {
    if (!way.legs.empty()) t.latency += to_picoseconds(way.fill());
    return pay_latency(index, t.latency);
  }
  t.legs_left = way.legs.subspan(1);
  t.leg_bytes = t.left;
  t.links = way.legs.front().links;
  pay_latency(index, way.legs.front().latency + t.extra_latency);
}

void Executor::pay_latency(std::uint32_t index, Picoseconds latency) {
  Transfer& t = transfers_pool_[index];
  t.leg_latency = latency;
  t.state = Transfer::State::latency;
  t.timed = latency.count > 0;
  if (t.timed)
    t.timer = agenda_.at(now_ + latency.seconds().value, token(Timer::latency, index));
  else
    start_flow(index);
}

/// A buffer has taken the message up, and passes it on.
void Executor::next_leg(std::uint32_t index) {
  Transfer& t = transfers_pool_[index];
  report(index, t.left, Outcome::done, false, false);
  const Leg& leg = t.legs_left.front();
  t.legs_left = t.legs_left.subspan(1);
  t.links = leg.links;
  t.left = t.leg_bytes;
  t.limiting = -1;
  t.leg_started = now_;
  t.state = Transfer::State::latency;  // of this leg nothing has moved yet
  t.timed = false;
  if (crosses_dead_link(t.links) && reroute(index)) return;
  pay_latency(index, leg.latency);
}

void Executor::start_flow(std::uint32_t index) {
  Transfer& t = transfers_pool_[index];
  if (t.left.value <= 0 || (t.links.empty() && t.rate_cap.value <= 0)) {
    t.state = Transfer::State::instant;
    instant_.push_back(index);
    return;
  }
  t.state = Transfer::State::departing;
  departing_.push_back(index);
}

const Op& Executor::sent(std::uint32_t index) const {
  const Transfer& t = transfers_pool_[index];
  return t.mode == Mode::rendezvous ? streams_[t.send].front() : sent_ops_[index];
}

void Executor::announce_start(StreamState& s) {
  s.began = true;
  if (operation_observers_.empty()) return;
  const OpRun run = run_of(s, s.started);
  for (Observer* o : operation_observers_) o->started(run);
}

void Executor::announce_delivery(std::uint32_t index, const StreamState& receiver) {
  if (operation_observers_.empty()) return;
  const Transfer& t = transfers_pool_[index];
  OpRun send;
  send.op = &sent(index);
  send.id = t.send_id;
  send.cause = t.cause;
  send.posted = Seconds{t.send_posted};
  send.started = Seconds{t.started};
  send.ended = Seconds{t.ended};
  send.peer = t.to;
  const OpRun recv = run_of(receiver, now_);
  for (Observer* o : operation_observers_) o->delivered(send, recv);
}

/// All flows of a time step leave together, at its end: SimGrid's code and data then stay in the caches.
void Executor::depart() {
  for (const std::uint32_t index : departing_) {
    Transfer& t = transfers_pool_[index];
    t.flow = transport_.send(t.links, t.left, t.rate_cap, index);
    t.state = Transfer::State::flowing;
    t.seen = t.left;
  }
  if (record_limiting_) departed_.insert(departed_.end(), departing_.begin(), departing_.end());
  departing_.clear();
}

void Executor::look_forward() const {
  std::array<FlowToken, kUpcoming> tokens{};
  const std::size_t count = transport_.upcoming(tokens);
  if (count == 0) return;
  for (std::size_t i = 1; i < count; ++i) fetch(transfers_pool_[tokens[i]]);
  const Transfer& next = transfers_pool_[tokens[0]];  // fetched when it was one of those
  fetch(actors_[static_cast<std::size_t>(next.from)]);
  fetch(actors_[static_cast<std::size_t>(next.to)]);
  if (next.send != kNone) fetch(streams_[next.send]);
  if (next.recv != kNone) fetch(streams_[next.recv]);
}

void Executor::note_limits() {
  for (const std::uint32_t index : departed_) {
    Transfer& t = transfers_pool_[index];
    if (t.state != Transfer::State::flowing) continue;
    double most = 1 - 1e-6;  // a link below its capacity limits nobody: then it is the rate cap
    for (const LinkUse& use : t.links) {
      const double used = transport_.used_share(use.link);
      if (used <= most) continue;
      most = used;
      t.limiting = use.link;
    }
  }
  departed_.clear();
}

void Executor::report(std::uint32_t index, Bytes moved, Outcome outcome, bool last, bool last_leg) const {
  if (transfer_observers_.empty()) return;
  const Transfer& t = transfers_pool_[index];
  const StreamState* receiver = t.recv == kNone ? nullptr : &streams_[t.recv];
  TransferRun run{.from = t.from,
                  .to = t.to,
                  .send = &sent(index),
                  .recv = receiver ? &receiver->front() : nullptr,
                  .send_id = t.send_id,
                  .recv_id = receiver ? receiver->id : 0,
                  .bytes = moved,
                  .route = *t.way,
                  .started = Seconds{t.leg_started},
                  .ended = Seconds{now_},
                  .latency = t.leg_latency,
                  .limiting = t.limiting,
                  .outcome = outcome,
                  .group = t.group,
                  .last = last,
                  .last_leg = last_leg};
  run.route.links = t.links;
  for (Observer* o : transfer_observers_) o->transferred(run);
}

/// Takes a transfer off the machine; the bytes that it moved since it last left.
Bytes Executor::withdraw(std::uint32_t index) {
  Transfer& t = transfers_pool_[index];
  Bytes moved;
  switch (t.state) {
    case Transfer::State::latency:
      if (t.timed) agenda_.cancel(t.timer);
      break;
    case Transfer::State::flowing:
      moved = t.left - transport_.remaining(t.flow);
      transport_.cancel(t.flow);
      break;
    case Transfer::State::departing:
      std::erase(departing_, index);
      break;
    case Transfer::State::parked:
      std::erase(parked_, index);
      break;
    case Transfer::State::landed:
    case Transfer::State::instant:
      std::erase(instant_, index);
      moved = t.left;
      break;
    case Transfer::State::free:
    case Transfer::State::arrived:
      break;
  }
  return moved;
}

void Executor::end_transfer(std::uint32_t index, Outcome outcome) {
  Transfer& t = transfers_pool_[index];
  if (outcome == Outcome::done && !t.legs_left.empty()) return next_leg(index);
  const Bytes moved = outcome == Outcome::done ? t.left : withdraw(index);
  t.ended = now_;
  report(index, moved, outcome, true, t.legs_left.empty());
  if (t.members != kNone) return end_group(index, outcome);

  const bool sender_waits = t.mode != Mode::eager;
  StreamState& sender = streams_[t.send];
  StreamState* receiver = t.recv == kNone ? nullptr : &streams_[t.recv];
  const auto note = [&t](StreamState& s) {
    s.bytes = t.bytes;
    s.latency = t.latency;
    s.limiting = t.limiting;
  };
  set_active(t.from, Kind::send, -1);
  if (receiver) {
    note(*receiver);
    set_active(receiver->actor, Kind::recv, -1);
    if (outcome == Outcome::done) announce_delivery(index, *receiver);
  }
  if (sender_waits) note(sender);
  if (!receiver && outcome == Outcome::done) {
    t.state = Transfer::State::arrived;
  } else {
    if (!receiver) matcher_.withdraw_send(t.channel, kTransferRef | index);
    release_transfer(index);
  }
  if (sender_waits) finish(sender, outcome);
  if (receiver) finish(*receiver, outcome);
}

}  // namespace trainyard
