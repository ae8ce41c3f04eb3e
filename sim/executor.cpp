#include "sim/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "sim/error.hpp"
#include "sim/executor_state.hpp"

namespace trainyard {
Executor::Executor(Machine& machine, Transport& transport, Agenda& agenda)
    : machine_(machine), transport_(transport), agenda_(agenda), interferes_(machine.interferes()) {
  for (const Link& link : machine.links()) capacity_.push_back(link.capacity);
  port_speed_.assign(capacity_.size(), 1);
}
Executor::~Executor() = default;

void Executor::add(Actor actor, std::unique_ptr<Program> program) {
  if (static_cast<std::size_t>(actor) != actors_.size())
    throw InternalError(fmt::format("program of actor {} added where {} comes next", actor, actors_.size()));
  if (program->streams() < 1 || program->streams() > kMaxStreams)
    throw InternalError(
        fmt::format("a program uses {} streams; 1 to {} are possible", program->streams(), kMaxStreams));
  auto state = std::make_unique<ActorState>();
  state->streams.resize(static_cast<std::size_t>(program->streams()));
  state->send_channels.assign(program->slots().size(), -1);
  state->recv_channels.assign(program->slots().size(), -1);
  state->dynamic = program->dynamic();
  state->daemon = program->daemon();
  if (!state->daemon) ++running_;
  state->program = std::move(program);
  actors_.push_back(std::move(state));
}

void Executor::observe(Observer& observer) {
  observers_.push_back(&observer);
  if (observer.sees_operations()) operation_observers_.push_back(&observer);
  if (observer.sees_transfers()) transfer_observers_.push_back(&observer);
  record_limiting_ |= observer.level() >= Level::ops;
  record_link_rates_ |= observer.level() >= Level::links;
}

void Executor::change(const LinkChange& change) {
  if (change.link < 0 || static_cast<std::size_t>(change.link) >= capacity_.size())
    throw InternalError(fmt::format("change of link {}, of {} links", change.link, capacity_.size()));
  changes_.push_back(change);
}

Executor::StreamState& Executor::stream(Ref ref) { return actors_[ref / kMaxStreams]->streams[ref % kMaxStreams]; }

void Executor::start() {
  look_ahead_ = look_ahead(actors_.size());
  for (const auto& actor : actors_)
    for (const Actor peer : actor->program->slots())
      if (peer < 0 || static_cast<std::size_t>(peer) >= actors_.size())
        throw InternalError(fmt::format("a slot names actor {}, of {} actors", peer, actors_.size()));
  for (std::size_t i = 0; i < changes_.size(); ++i) agenda_.at(changes_[i].at.value, token(Timer::change, i));
  for (std::size_t a = 0; a < actors_.size(); ++a) touch(static_cast<Actor>(a));
  run_touched();
}

void Executor::deliver(const std::vector<Agenda::Token>& timers, const std::vector<FlowToken>& flows, double now) {
  for (const FlowToken f : flows) transfers_pool_[f].state = Transfer::State::landed;
  for (const Agenda::Token t : timers) {  // and the agenda of these
    if (kind_of(t) == Timer::work) stream(index_of(t)).timed = false;
    if (kind_of(t) == Timer::latency) transfers_pool_[index_of(t)].timed = false;
  }
  if (record_link_rates_) record_rates(now);
  now_ = now;
  for (const Agenda::Token t : timers)
    if (kind_of(t) == Timer::change) apply(changes_[index_of(t)]);

  std::vector<Ending>& arrivals = endings_;  // first: latencies that are over, in the order of (actor, stream)
  arrivals.clear();
  for (const Agenda::Token t : timers)
    if (kind_of(t) == Timer::latency) {
      const Transfer& transfer = transfers_pool_[index_of(t)];
      arrivals.push_back({transfer.from, transfer.send_stream, true, index_of(t)});
    }
  const auto in_order = [](const Ending& a, const Ending& b) {
    return std::tie(a.actor, a.stream, a.index) < std::tie(b.actor, b.stream, b.index);
  };
  std::sort(arrivals.begin(), arrivals.end(), in_order);
  for (const Ending& arrival : arrivals) {
    // A link of its way may have failed meanwhile. Where no other is left, its bytes leave and stall on the old one; a
    // message without bytes waits for the link.
    Transfer& t = transfers_pool_[arrival.index];
    if (crosses_dead_link(t.route) && reroute(arrival.index)) continue;
    if (crosses_dead_link(t.route) && t.left.value <= 0) {
      t.state = Transfer::State::parked;
      parked_.push_back(arrival.index);
    } else {
      start_flow(arrival.index);
    }
  }

  endings_.clear();
  for (const Agenda::Token t : timers)
    if (kind_of(t) == Timer::work)
      endings_.push_back(
          {static_cast<Actor>(index_of(t) / kMaxStreams), static_cast<Stream>(index_of(t) % kMaxStreams), false, 0});
  const auto add_transfer = [this](std::uint32_t index) {
    endings_.push_back({transfers_pool_[index].from, transfers_pool_[index].send_stream, true, index});
  };
  for (const FlowToken f : flows) add_transfer(f);
  for (const std::uint32_t i : instant_) add_transfer(i);
  instant_.clear();
  if (!std::is_sorted(endings_.begin(), endings_.end(), in_order))
    std::sort(endings_.begin(), endings_.end(), in_order);
  finish_all();
  run_touched();
}

void Executor::finish_all() {
  for (const Ending& ending : endings_) {
    // What ended before it in this step may have cancelled it.
    if (ending.is_transfer) {
      if (transfers_pool_[ending.index].state != Transfer::State::free) end_transfer(ending.index, Outcome::done);
    } else if (actors_[static_cast<std::size_t>(ending.actor)]->streams[ending.stream].busy) {
      finish(ending.actor, ending.stream, Outcome::done);
    }
  }
}

void Executor::run_touched() {
  std::vector<Actor> round;
  while (!touched_.empty() || !instant_.empty()) {
    round.swap(touched_);
    touched_.clear();
    std::sort(round.begin(), round.end());
    for (const Actor actor : round) actors_[static_cast<std::size_t>(actor)]->touched = false;
    for (const Actor actor : round) advance(actor);
    if (instant_.empty()) continue;
    endings_.clear();
    for (const std::uint32_t i : instant_)
      endings_.push_back({transfers_pool_[i].from, transfers_pool_[i].send_stream, true, i});
    instant_.clear();
    finish_all();
  }
  depart();
  settle();
}

void Executor::touch(Actor actor) {
  ActorState& a = *actors_[static_cast<std::size_t>(actor)];
  if (a.touched) return;
  a.touched = true;
  touched_.push_back(actor);
}

void Executor::advance(Actor actor) {
  ActorState& a = *actors_[static_cast<std::size_t>(actor)];
  for (bool again = true; again;) {
    again = false;
    pull(actor);
    for (std::size_t s = 0; s < a.streams.size(); ++s) {
      StreamState& stream = a.streams[s];
      if (stream.busy || stream.empty() || !ready(a, stream.front())) continue;
      begin(actor, static_cast<Stream>(s));
      again |= !stream.busy;  // ended at once
    }
  }
  if (!a.ended && a.exhausted && a.queued == 0) {
    a.ended = true;
    if (!a.daemon) --running_;
  }
}

void Executor::pull(Actor actor) {
  ActorState& a = *actors_[static_cast<std::size_t>(actor)];
  Op& op = pulled_;  // every program gives the whole of it
  while (!a.exhausted && !a.waiting) {
    const bool dry = std::any_of(a.streams.begin(), a.streams.end(),
                                 [](const StreamState& s) { return !s.busy && !s.closed && s.empty(); });
    if (!dry) return;
    if (a.queued >= look_ahead_) {
      a.bound_hit = true;
      return;
    }
    switch (a.program->next(op)) {
      case Pull::done:
        a.exhausted = true;
        return;
      case Pull::waiting:
        if (!a.dynamic) throw InternalError("a static program waits for an event");
        a.waiting = true;
        return;
      case Pull::op:
        break;
    }
    op.actor = actor;
    if (op.stream >= a.streams.size())
      throw InternalError(fmt::format("stream {} of a program with {} streams", op.stream, a.streams.size()));
    StreamState& s = a.streams[op.stream];
    for (const Dep& dep : op.deps)
      if (dep.count > 0 && dep.stream >= a.streams.size())
        throw InternalError(
            fmt::format("a dependency on stream {} of a program with {} streams", dep.stream, a.streams.size()));
    if (s.closed) throw InternalError(fmt::format("an operation after the last one of stream {}", op.stream));
    if (a.bound_hit && s.empty() && !s.busy && could_have_started(a, op)) ++late_by_look_ahead_;
    s.push(op);
    s.closed = op.last_of_stream;
    ++a.queued;
  }
}

bool Executor::ready(const ActorState& a, const Op& op) const {
  return std::all_of(std::begin(op.deps), std::end(op.deps),
                     [&a](const Dep& dep) { return dep.count == 0 || a.streams[dep.stream].done >= dep.count; });
}

bool Executor::could_have_started(const ActorState& a, const Op& op) const {
  const auto before_now = [this, &a](const Dep& dep) {
    const StreamState& s = a.streams[dep.stream];
    return dep.count == 0 || s.done > dep.count || (s.done == dep.count && s.last_end < now_);
  };
  return a.streams[op.stream].last_end < now_ && std::all_of(std::begin(op.deps), std::end(op.deps), before_now);
}

OpId Executor::cause(const ActorState& a, Stream stream) const {
  const auto ended_now = [this, &a](Stream s) { return a.streams[s].last_end == now_ ? a.streams[s].last_id : 0; };
  if (const OpId id = ended_now(stream)) return id;
  for (const Dep& dep : a.streams[stream].front().deps)
    if (dep.count > 0)
      if (const OpId id = ended_now(dep.stream)) return id;
  for (std::size_t s = 0; s < a.streams.size(); ++s)  // a dynamic program that was woken
    if (const OpId id = ended_now(static_cast<Stream>(s))) return id;
  return 0;
}

void Executor::begin(Actor actor, Stream index) {
  ActorState& a = *actors_[static_cast<std::size_t>(actor)];
  StreamState& s = a.streams[index];
  const Op& op = s.front();
  s.busy = true;
  s.id = ++next_id_;
  s.cause = operation_observers_.empty() ? 0 : cause(a, index);
  s.posted = s.started = now_;
  s.peer = -1;
  s.transfer = kNone;
  s.began = false;
  s.bytes = {};
  s.latency = {};
  s.limiting = -1;
  for (Observer* o : operation_observers_) o->posted(run_of(s, now_));
  switch (op.kind) {
    case Kind::send:
      return begin_send(actor, index);
    case Kind::recv:
      return begin_recv(actor, index);
    case Kind::join:
      return begin_join(actor, index);
    case Kind::mark:
      s.remaining = 0;
      break;
    case Kind::compute:
    case Kind::local:
    case Kind::delay:
      s.remaining = machine_.price(op.work, actor).duration.value;
      break;
  }
  announce_start(s);
  set_active(actor, op.kind, +1);
  if (!(s.remaining >= 0)) throw InternalError(fmt::format("a price of {} s", s.remaining));
  if (s.remaining == 0) return finish(actor, index, Outcome::done);
  a.fresh_work = true;
  settle_later(actor);
  s.speed = 0;  // set when the time step settles, with everything that runs beside it
  s.since = now_;
}

OpRun Executor::run_of(const StreamState& s, double ended, Outcome outcome) const {
  OpRun run;
  run.op = &s.front();
  run.id = s.id;
  run.cause = s.cause;
  run.posted = Seconds{s.posted};
  run.started = Seconds{s.started};
  run.ended = Seconds{ended};
  run.peer = s.peer;
  run.outcome = outcome;
  run.began = s.began;
  run.bytes = s.bytes;
  run.latency = s.latency;
  run.limiting = s.limiting;
  return run;
}

void Executor::finish(Actor actor, Stream index, Outcome outcome) {
  ActorState& a = *actors_[static_cast<std::size_t>(actor)];
  StreamState& s = a.streams[index];
  const Op& op = s.front();
  if (s.timed) agenda_.cancel(s.timer);
  s.timed = false;
  set_active(actor, op.kind, meets_others(op.kind) ? 0 : -1);
  if (!operation_observers_.empty()) {
    const OpRun run = run_of(s, now_, outcome);
    for (Observer* o : operation_observers_) o->finished(run);
  }
  if (!a.daemon) end_ = now_;
  s.last_id = s.id;
  s.last_end = now_;
  ++s.done;
  s.busy = false;
  if (a.dynamic) {
    a.program->notify({index, op.kind, op.message.tag, s.peer, outcome, Seconds{now_}});
    a.waiting = false;
  }
  s.pop();
  --a.queued;
  touch(actor);
}

void Executor::set_active(Actor actor, Kind kind, int change) {
  if (!interferes_ || change == 0 || kind == Kind::mark || kind == Kind::delay) return;
  ActorState& a = *actors_[static_cast<std::size_t>(actor)];
  auto& count = a.active[static_cast<std::size_t>(kind)];
  count = static_cast<std::uint16_t>(count + change);
  settle_later(actor);
}

void Executor::settle_later(Actor actor) {
  ActorState& a = *actors_[static_cast<std::size_t>(actor)];
  if (a.settling) return;
  a.settling = true;
  settling_.push_back(actor);
}

void Executor::settle() {
  for (const Actor actor : settling_) {
    ActorState& a = *actors_[static_cast<std::size_t>(actor)];
    a.settling = false;
    KindSet kinds = 0;
    for (const Kind kind : {Kind::compute, Kind::local, Kind::send, Kind::recv})
      if (a.active[static_cast<std::size_t>(kind)] > 0) kinds |= bit(kind);
    if (kinds == a.active_kinds && !a.fresh_work) continue;
    retime(actor, kinds);
    if (kinds != a.active_kinds) slow_ports(actor, kinds);
    a.active_kinds = kinds;
    a.fresh_work = false;
  }
  settling_.clear();
}

/// Sets the timers of work begun in this step, and moves those of work whose speed has changed.
void Executor::retime(Actor actor, KindSet kinds) {
  ActorState& a = *actors_[static_cast<std::size_t>(actor)];
  for (std::size_t i = 0; i < a.streams.size(); ++i) {
    StreamState& s = a.streams[i];
    if (!s.busy) continue;
    const Kind kind = s.front().kind;
    if (kind != Kind::compute && kind != Kind::local && kind != Kind::delay) continue;
    const double speed = kind == Kind::delay || !interferes_ ? 1.0 : machine_.speed(actor, kind, kinds);
    if (s.timed && speed == s.speed) continue;
    if (!(speed > 0)) throw InternalError(fmt::format("a speed of {} by interference", speed));
    if (s.timed) {
      agenda_.cancel(s.timer);
      s.remaining = std::max(0.0, s.remaining - (now_ - s.since) * s.speed);
    }
    s.since = now_;
    s.speed = speed;
    s.timer = agenda_.at(now_ + s.remaining / speed, token(Timer::work, stream_ref(actor, static_cast<Stream>(i))));
    s.timed = true;
  }
}

void Executor::slow_ports(Actor actor, KindSet kinds) {
  ActorState& a = *actors_[static_cast<std::size_t>(actor)];
  const KindSet messages = bit(Kind::send) | bit(Kind::recv);
  const double speed = (kinds & messages) ? machine_.speed(actor, Kind::send, kinds) : 1.0;
  if (speed == a.port_speed) return;
  a.port_speed = speed;
  for (const LinkId link : machine_.ports(actor)) {
    port_speed_[static_cast<std::size_t>(link)] = speed;
    transport_.set_capacity(link, capacity_[static_cast<std::size_t>(link)] * speed);
  }
}

bool Executor::cancel(Actor actor, Stream index) {
  ActorState& a = *actors_.at(static_cast<std::size_t>(actor));
  StreamState& s = a.streams.at(index);
  if (!s.busy) return false;
  // Its message is just ending: the other half has been told already.
  if (s.transfer != kNone && transfers_pool_[s.transfer].state == Transfer::State::free) return false;
  const Op& op = s.front();
  if (!meets_others(op.kind)) {
    finish(actor, index, Outcome::cancelled);
  } else if (op.kind == Kind::join) {
    withdraw_join(op.message.tag, stream_ref(actor, index));
    finish(actor, index, Outcome::cancelled);
  } else if (s.transfer != kNone) {
    end_transfer(s.transfer, Outcome::cancelled);
  } else {  // waits for its other half
    if (op.kind == Kind::send)
      matcher_.withdraw_send(s.channel, stream_ref(actor, index));
    else if (op.message.slot == kAnyPeer)
      matcher_.withdraw_any(actor, stream_ref(actor, index));
    else
      matcher_.withdraw_recv(s.channel, stream_ref(actor, index));
    finish(actor, index, Outcome::cancelled);
  }
  return true;
}

}  // namespace trainyard
