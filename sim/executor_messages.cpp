// Messages: two halves become a transfer, which pays its latency and then its bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/error.hpp"
#include "sim/executor_state.hpp"

namespace trainyard {

ChannelId Executor::channel(Actor actor, bool sending, std::uint16_t slot) {
  ActorState& a = *actors_[static_cast<std::size_t>(actor)];
  auto& channels = sending ? a.send_channels : a.recv_channels;
  if (slot >= channels.size())
    throw InternalError(fmt::format("{} names peer slot {}, of {}", machine_.actor_name(actor), slot, channels.size()));
  if (channels[slot] < 0) {
    const Actor peer = a.program->slots()[slot];
    channels[slot] = sending ? matcher_.channel(actor, peer) : matcher_.channel(peer, actor);
  }
  return channels[slot];
}

std::uint32_t Executor::new_transfer(Actor from, Stream send_stream) {
  std::uint32_t index;
  if (free_transfers_.empty()) {
    index = static_cast<std::uint32_t>(transfers_pool_.size());
    transfers_pool_.emplace_back();
  } else {
    index = free_transfers_.back();
    free_transfers_.pop_back();
  }
  const StreamState& s = actors_[static_cast<std::size_t>(from)]->streams[send_stream];
  Transfer& t = transfers_pool_[index];
  t.mode = s.front().message.mode;
  t.from = from;
  t.to = s.peer;
  t.send_stream = send_stream;
  t.recv = kNone;
  t.message = s.front().message;
  if (t.mode != Mode::rendezvous) t.sent_op = s.front();
  t.send_id = s.id;
  t.cause = s.cause;
  t.send_posted = s.posted;
  t.channel = s.channel;
  t.limiting = -1;
  t.left = t.message.bytes;
  t.by_legs = false;
  t.legs_left = {};
  return index;
}

void Executor::release_transfer(std::uint32_t index) {
  transfers_pool_[index].state = Transfer::State::free;
  free_transfers_.push_back(index);
}

void Executor::begin_send(Actor actor, Stream index) {
  StreamState& s = actors_[static_cast<std::size_t>(actor)]->streams[index];
  const Message& m = s.front().message;
  if (!(m.bytes.value >= 0)) throw InternalError(fmt::format("a message of {} bytes", m.bytes.value));
  s.channel = channel(actor, true, m.slot);
  s.peer = matcher_.receiver(s.channel);
  if (m.mode == Mode::rendezvous) {
    const auto partner = matcher_.send(s.channel, m.tag, stream_ref(actor, index));
    if (!partner) return;
    const std::uint32_t t = new_transfer(actor, index);
    s.transfer = t;
    attach(t, *partner);
    return start_transfer(t);
  }
  const std::uint32_t t = new_transfer(actor, index);
  const bool eager = m.mode == Mode::eager;
  if (!eager) s.transfer = t;
  if (const auto partner = matcher_.send(s.channel, m.tag, kTransferRef | t)) attach(t, *partner);
  start_transfer(t);
  if (eager) finish(actor, index, Outcome::done);
}

void Executor::begin_recv(Actor actor, Stream index) {
  StreamState& s = actors_[static_cast<std::size_t>(actor)]->streams[index];
  const Message& m = s.front().message;
  const Ref me = stream_ref(actor, index);
  const bool any = m.slot == kAnyPeer;
  if (!any) {
    s.channel = channel(actor, false, m.slot);
    s.peer = matcher_.sender(s.channel);
  }
  const auto partner = any ? matcher_.recv_any(actor, m.tag, me) : matcher_.recv(s.channel, m.tag, me);
  if (!partner) return;
  if (*partner & kTransferRef) {
    const std::uint32_t t = *partner & ~kTransferRef;
    attach(t, me);
    if (transfers_pool_[t].state == Transfer::State::arrived) {
      s.started = now_;
      s.bytes = transfers_pool_[t].message.bytes;
      s.latency = transfers_pool_[t].latency;
      s.limiting = transfers_pool_[t].limiting;
      announce_start(s);
      announce_delivery(transfers_pool_[t], s);
      release_transfer(t);
      finish(actor, index, Outcome::done);
    }
    return;
  }
  StreamState& sender = stream(*partner);
  const std::uint32_t t =
      new_transfer(static_cast<Actor>(*partner / kMaxStreams), static_cast<Stream>(*partner % kMaxStreams));
  sender.transfer = t;
  transfers_pool_[t].cause = s.cause;  // this half came last
  attach(t, me);
  start_transfer(t);
}

void Executor::attach(std::uint32_t index, Ref recv) {
  Transfer& t = transfers_pool_[index];
  StreamState& r = stream(recv);
  t.recv = recv;
  r.transfer = index;
  r.peer = t.from;
  if (t.state == Transfer::State::arrived) return;
  if (t.state != Transfer::State::free) {  // on its way already
    r.started = t.started;
    r.cause = t.cause;
    set_active(static_cast<Actor>(recv / kMaxStreams), Kind::recv, +1);
    announce_start(r);
  }
}

Route Executor::find_route(const Transfer& t) {
  const auto path = t.message.path;
  const std::size_t key = static_cast<std::size_t>(t.channel) * kPathClasses + static_cast<std::size_t>(path);
  if (key >= route_cache_.size()) route_cache_.resize(std::max(key + 1, route_cache_.size() * 2));
  CachedRoute& cached = route_cache_[key];
  if (cached.version != route_version_) cached = {machine_.route(t.from, t.to, path), route_version_};
  return cached.route;
}

void Executor::start_transfer(std::uint32_t index) {
  Transfer& t = transfers_pool_[index];
  t.started = now_;
  ++transfers_;
  const auto begun = [this](StreamState& s, Actor actor, OpId cause) {
    s.started = now_;
    s.cause = cause;
    set_active(actor, s.front().kind, +1);
    announce_start(s);
  };
  begun(actors_[static_cast<std::size_t>(t.from)]->streams[t.send_stream], t.from, t.cause);
  if (t.recv != kNone) begun(stream(t.recv), static_cast<Actor>(t.recv / kMaxStreams), t.cause);
  t.leg_started = now_;
  const Route route = find_route(t);
  if (!route.reachable) {
    t.route = route;
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
  t.route = way;
  t.legs_left = {};
  t.by_legs = t.message.steps == 1 && way.store_and_forward(t.left);
  t.latency = Picoseconds{way.latency.count * t.message.steps} + t.message.extra_latency;
  if (!t.by_legs) {
    t.latency += to_picoseconds(way.fill());
    return pay_latency(index, t.latency);
  }
  t.legs_left = way.legs.subspan(1);
  t.leg_bytes = t.left;
  t.route.links = way.legs.front().links;
  pay_latency(index, way.legs.front().latency + t.message.extra_latency);
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
  report(t, t.left, Outcome::done, false, false);
  const Leg& leg = t.legs_left.front();
  t.legs_left = t.legs_left.subspan(1);
  t.route.links = leg.links;
  t.left = t.leg_bytes;
  t.limiting = -1;
  t.leg_started = now_;
  t.state = Transfer::State::latency;  // of this leg nothing has moved yet
  t.timed = false;
  if (crosses_dead_link(t.route) && reroute(index)) return;
  pay_latency(index, leg.latency);
}

void Executor::start_flow(std::uint32_t index) {
  Transfer& t = transfers_pool_[index];
  const BytesPerSecond cap = t.message.rate_cap;
  if (t.left.value <= 0 || (t.route.links.empty() && cap.value <= 0)) {
    t.state = Transfer::State::instant;
    instant_.push_back(index);
    return;
  }
  t.state = Transfer::State::departing;
  departing_.push_back(index);
}

const Op& Executor::sent(const Transfer& t) const {
  if (t.mode != Mode::rendezvous) return t.sent_op;
  return actors_[static_cast<std::size_t>(t.from)]->streams[t.send_stream].front();
}

void Executor::announce_start(StreamState& s) {
  s.began = true;
  if (operation_observers_.empty()) return;
  const OpRun run = run_of(s, s.started);
  for (Observer* o : operation_observers_) o->started(run);
}

void Executor::announce_delivery(const Transfer& t, const StreamState& receiver) {
  if (operation_observers_.empty()) return;
  OpRun send;
  send.op = &sent(t);
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
    t.flow = transport_.send(t.route, t.left, t.message.rate_cap, index);
    t.state = Transfer::State::flowing;
    t.seen = t.left;
  }
  if (record_limiting_) departed_.insert(departed_.end(), departing_.begin(), departing_.end());
  departing_.clear();
}

void Executor::note_limits() {
  for (const std::uint32_t index : departed_) {
    Transfer& t = transfers_pool_[index];
    if (t.state != Transfer::State::flowing) continue;
    double most = 1 - 1e-6;  // a link below its capacity limits nobody: then it is the rate cap
    for (const LinkUse& use : t.route.links) {
      const double used = transport_.used_share(use.link);
      if (used <= most) continue;
      most = used;
      t.limiting = use.link;
    }
  }
  departed_.clear();
}

void Executor::report(const Transfer& t, Bytes moved, Outcome outcome, bool last, bool last_leg) {
  TransferRun run;
  run.from = t.from;
  run.to = t.to;
  run.send = &sent(t);
  run.recv = t.recv == kNone ? nullptr : &stream(t.recv).front();
  run.send_id = t.send_id;
  run.recv_id = t.recv == kNone ? 0 : stream(t.recv).id;
  run.bytes = moved;
  run.route = t.route;
  run.started = Seconds{t.leg_started};
  run.ended = Seconds{now_};
  run.latency = t.leg_latency;
  run.limiting = t.limiting;
  run.outcome = outcome;
  run.last = last;
  run.last_leg = last_leg;
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
  report(t, moved, outcome, true, t.legs_left.empty());

  const Actor from = t.from;
  const Stream send_stream = t.send_stream;
  const Ref recv = t.recv;
  set_active(from, Kind::send, -1);
  if (recv != kNone) {
    StreamState& r = stream(recv);
    r.bytes = t.message.bytes;
    r.latency = t.latency;
    r.limiting = t.limiting;
    set_active(static_cast<Actor>(recv / kMaxStreams), Kind::recv, -1);
    if (outcome == Outcome::done) announce_delivery(t, r);
  }
  if (t.mode != Mode::eager) {
    StreamState& s = actors_[static_cast<std::size_t>(from)]->streams[send_stream];
    s.bytes = t.message.bytes;
    s.latency = t.latency;
    s.limiting = t.limiting;
  }
  const bool sender_waits = t.mode != Mode::eager;
  if (recv == kNone && outcome == Outcome::done) {
    t.state = Transfer::State::arrived;
  } else {
    if (recv == kNone) matcher_.withdraw_send(t.channel, kTransferRef | index);
    release_transfer(index);
  }
  if (sender_waits) finish(from, send_stream, outcome);
  if (recv != kNone) finish(static_cast<Actor>(recv / kMaxStreams), static_cast<Stream>(recv % kMaxStreams), outcome);
}

}  // namespace trainyard
