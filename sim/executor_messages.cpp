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
  if (t.mode != Mode::rendezvous) t.eager_op = s.front();
  t.send_id = s.id;
  t.cause = s.cause;
  t.send_posted = s.posted;
  t.channel = s.channel;
  t.flow = -1;
  t.left = t.message.bytes;
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
      announce_start(s);
      const OpRun send{&sent(transfers_pool_[t]),
                       transfers_pool_[t].send_id,
                       0,
                       Seconds{transfers_pool_[t].send_posted},
                       Seconds{transfers_pool_[t].started},
                       Seconds{transfers_pool_[t].ended},
                       actor,
                       Outcome::done};
      const OpRun recv{&s.front(),    s.id,          s.cause, Seconds{s.posted},
                       Seconds{now_}, Seconds{now_}, s.peer,  Outcome::done};
      for (Observer* o : operation_observers_) o->delivered(send, recv);
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
  const std::size_t key = static_cast<std::size_t>(t.channel) * 4 + static_cast<std::size_t>(path);
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
  t.route = find_route(t);
  if (!t.route.reachable) {
    if (route_version_ == 1 && changes_.empty())
      throw UserError(fmt::format("{} cannot reach {}: no path between them", machine_.actor_name(t.from),
                                  machine_.actor_name(t.to)));
    t.state = Transfer::State::parked;  // a link may come back
    parked_.push_back(index);
    return;
  }
  t.latency = t.route.latency + t.message.extra_latency;
  t.state = Transfer::State::latency;
  if (t.latency.count > 0)
    t.timer = agenda_.at(now_ + t.latency.seconds().value, token(Timer::latency, index));
  else
    start_flow(index);
}

void Executor::start_flow(std::uint32_t index) {
  Transfer& t = transfers_pool_[index];
  const BytesPerSecond cap = t.message.rate_cap;
  if (t.left.value <= 0 || (t.route.links.empty() && cap.value <= 0)) {
    t.state = Transfer::State::instant;
    instant_.push_back(index);
    return;
  }
  t.state = Transfer::State::flowing;
  t.seen = t.left;
  load(t, +1);
  t.limiting = -1;
  t.flow = -1;
  departing_.push_back(index);
}

const Op& Executor::sent(const Transfer& t) const {
  if (t.mode != Mode::rendezvous) return t.eager_op;
  return actors_[static_cast<std::size_t>(t.from)]->streams[t.send_stream].front();
}

void Executor::announce_start(const StreamState& s) {
  if (operation_observers_.empty()) return;
  const OpRun run{&s.front(),         s.id,   s.cause,      Seconds{s.posted}, Seconds{s.started},
                  Seconds{s.started}, s.peer, Outcome::done};
  for (Observer* o : operation_observers_) o->started(run);
}

/// All flows of a time step leave together, at its end: SimGrid's code and data then stay in the caches.
void Executor::depart() {
  for (const std::uint32_t index : departing_) {
    Transfer& t = transfers_pool_[index];
    t.flow = transport_.send(t.route, t.left, t.message.rate_cap, index);
  }
  departing_.clear();
}

void Executor::load(const Transfer& t, int sign) {
  for (const LinkUse& use : t.route.links) load_[static_cast<std::size_t>(use.link)] += sign * use.weight;
}

LinkId Executor::limiting(const Transfer& t) const {
  LinkId best = -1;
  const double cap = t.message.rate_cap.value;
  double least = cap > 0 ? cap : HUGE_VAL;
  for (const LinkUse& use : t.route.links) {
    const double share = capacity_[static_cast<std::size_t>(use.link)].value *
                         port_speed_[static_cast<std::size_t>(use.link)] / load_[static_cast<std::size_t>(use.link)];
    if (share < least) {
      least = share;
      best = use.link;
    }
  }
  return best;
}

void Executor::end_transfer(std::uint32_t index, Outcome outcome) {
  Transfer& t = transfers_pool_[index];
  const bool had_bytes = t.state == Transfer::State::flowing;
  TransferRun run{t.from,
                  t.to,
                  &sent(t),
                  nullptr,
                  t.send_id,
                  t.message.bytes,
                  t.route,
                  Seconds{t.started},
                  Seconds{now_},
                  t.latency,
                  had_bytes ? t.limiting : -1,
                  outcome};
  if (outcome == Outcome::cancelled) {
    if (t.state == Transfer::State::latency) agenda_.cancel(t.timer);
    if (had_bytes && t.flow < 0) {  // about to leave in this time step
      run.bytes = Bytes{0};
      std::erase(departing_, index);
    } else if (had_bytes) {
      run.bytes = t.message.bytes - transport_.remaining(t.flow);
      transport_.cancel(t.flow);
    }
    std::erase(parked_, index);
    std::erase(instant_, index);
  }
  if (had_bytes) load(t, -1);
  t.ended = now_;
  const bool received = t.recv != kNone;
  if (received) run.recv = &stream(t.recv).front();
  for (Observer* o : transfer_observers_) o->transferred(run);

  set_active(t.from, Kind::send, -1);
  if (received) set_active(static_cast<Actor>(t.recv / kMaxStreams), Kind::recv, -1);
  if (received || outcome == Outcome::cancelled) {
    if (!received) matcher_.withdraw_send(t.channel, kTransferRef | index);
    release_transfer(index);
  } else {
    t.state = Transfer::State::arrived;
  }
  if (received && outcome == Outcome::done && !operation_observers_.empty()) {
    const StreamState& r = stream(t.recv);
    const OpRun send{&sent(t),           t.send_id,     t.cause, Seconds{t.send_posted},
                     Seconds{t.started}, Seconds{now_}, t.to,    outcome};
    const OpRun recv{&r.front(), r.id, r.cause, Seconds{r.posted}, Seconds{r.started}, Seconds{now_}, t.from, outcome};
    for (Observer* o : operation_observers_) o->delivered(send, recv);
  }
  if (t.mode != Mode::eager) finish(t.from, t.send_stream, outcome);
  if (received) finish(static_cast<Actor>(t.recv / kMaxStreams), static_cast<Stream>(t.recv % kMaxStreams), outcome);
}

void Executor::apply(const LinkChange& change) {
  const auto link = static_cast<std::size_t>(change.link);
  const bool was_up = capacity_[link].value > 0;
  const bool is_up = change.capacity.value > 0;
  capacity_[link] = change.capacity;
  transport_.set_capacity(change.link, change.capacity * port_speed_[link]);
  if (was_up == is_up) return;
  machine_.link_state(change.link, is_up);
  ++route_version_;
  const std::vector<std::uint32_t> parked = std::exchange(parked_, {});
  for (const std::uint32_t index : parked) reroute(index);
  for (std::uint32_t index = 0; index < transfers_pool_.size(); ++index) {
    const Transfer& t = transfers_pool_[index];
    const bool moving = t.state == Transfer::State::flowing || t.state == Transfer::State::latency;
    const bool dead = std::any_of(t.route.links.begin(), t.route.links.end(), [this](const LinkUse& use) {
      return capacity_[static_cast<std::size_t>(use.link)].value <= 0;
    });
    if (moving && dead) reroute(index);
  }
}

void Executor::reroute(std::uint32_t index) {
  Transfer& t = transfers_pool_[index];
  const Route way = find_route(t);
  if (!way.reachable) {
    if (t.state == Transfer::State::parked) parked_.push_back(index);
    return;  // stalls on its old way until the link is back
  }
  if (t.state == Transfer::State::latency) agenda_.cancel(t.timer);
  if (t.state == Transfer::State::flowing) {
    t.left = transport_.remaining(t.flow);
    transport_.cancel(t.flow);
    load(t, -1);
  }
  t.route = way;
  const Picoseconds again = way.latency + t.message.extra_latency;  // of what is sent anew
  t.latency = again;
  t.state = Transfer::State::latency;
  t.timer = agenda_.at(now_ + again.seconds().value, token(Timer::latency, index));
}

void Executor::record_rates(double until) {
  const double span = until - rates_since_;
  if (span <= 0) return;
  rates_.assign(capacity_.size(), BytesPerSecond{0});
  for (Transfer& t : transfers_pool_) {
    if (t.state != Transfer::State::flowing) continue;
    const Bytes left = t.flow < 0 ? Bytes{0} : transport_.remaining(t.flow);
    const BytesPerSecond rate = (t.seen - left) / Seconds{span};
    t.seen = left;
    for (const LinkUse& use : t.route.links) rates_[static_cast<std::size_t>(use.link)] += rate * use.weight;
  }
  for (Observer* o : observers_) o->link_rates(Seconds{rates_since_}, Seconds{until}, rates_);
  rates_since_ = until;
}

}  // namespace trainyard
