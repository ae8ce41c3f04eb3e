#include "sim/executor/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sim/error.hpp"
#include "sim/executor/executor_state.hpp"
#include "sim/nearly_sorted.hpp"

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
  const auto count = static_cast<std::size_t>(program->streams());
  for (std::size_t i = 0; i < count; ++i) {
    streams_.emplace_back();
    streams_.back().actor = actor;
    streams_.back().index = static_cast<Stream>(i);
  }
  ActorState& a = actors_.emplace_back();
  a.driving = program->driving() & ~std::uint64_t{0} >> (kMaxStreams - count);
  a.dry = a.driving;
  a.channels = static_cast<std::uint32_t>(channels_.size());
  a.slots = static_cast<std::uint32_t>(program->slots().size());
  channels_.resize(channels_.size() + 2 * a.slots, -1);
  a.dynamic = program->dynamic();
  a.daemon = program->daemon();
  if (!a.daemon) ++running_;
  a.program = std::move(program);
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

Executor::Ref Executor::ref_of(const StreamState& s) const { return static_cast<Ref>(&s - streams_.data()); }
Executor::ActorState& Executor::actor_of(const StreamState& s) { return actors_[static_cast<std::size_t>(s.actor)]; }

void Executor::start() {
  look_ahead_ = look_ahead(actors_.size());
  StreamState* first = streams_.data();
  for (ActorState& a : actors_) {
    a.streams = {first, static_cast<std::size_t>(a.program->streams())};
    first += a.streams.size();
    for (const Actor peer : a.program->slots())
      if (peer < 0 || static_cast<std::size_t>(peer) >= actors_.size())
        throw InternalError(fmt::format("a slot names actor {}, of {} actors", peer, actors_.size()));
  }
  for (std::size_t i = 0; i < changes_.size(); ++i) agenda_.at(changes_[i].at.value, token(Timer::change, i));
  for (std::size_t i = 0; i < actor_changes_.size(); ++i)
    agenda_.at(actor_changes_[i].at.value, token(Timer::change, changes_.size() + i));
  for (std::size_t a = 0; a < actors_.size(); ++a) touch(static_cast<Actor>(a));
  run_touched();
}

void Executor::deliver(const std::vector<Agenda::Token>& timers, const std::vector<FlowToken>& flows, double now) {
  for (const FlowToken f : flows) transfers_pool_[f].state = Transfer::State::landed;
  for (const Agenda::Token t : timers) {  // and the agenda of these
    if (kind_of(t) == Timer::work) streams_[index_of(t)].timed = false;
    if (kind_of(t) == Timer::latency) transfers_pool_[index_of(t)].timed = false;
  }
  if (record_link_rates_) record_rates(now);
  now_ = now;
  for (const Agenda::Token t : timers)
    if (kind_of(t) == Timer::change) apply_change(index_of(t));
  arrive(timers);

  endings_.clear();
  for (const Agenda::Token t : timers)
    if (kind_of(t) == Timer::work) endings_.push_back(ending(index_of(t), kNone));
  for (const FlowToken f : flows) endings_.push_back(ending(transfers_pool_[f].send, f));
  add_instant();
  sort_nearly_sorted(endings_);
  finish_all();
  if (!actors_changing_.empty()) change_actors();
  run_touched();
}

/// Latencies that are over, in the order of (actor, stream).
void Executor::arrive(const std::vector<Agenda::Token>& timers) {
  std::vector<std::uint64_t>& arrivals = endings_;
  arrivals.clear();
  for (const Agenda::Token t : timers)
    if (kind_of(t) == Timer::latency) arrivals.push_back(ending(transfers_pool_[index_of(t)].send, index_of(t)));
  sort_nearly_sorted(arrivals);
  for (const std::uint64_t arrival : arrivals) {
    const std::uint32_t index = static_cast<std::uint32_t>(arrival) - 1;
    // A link of its way may have failed meanwhile. Where no other is left, its bytes leave and stall on the old one; a
    // message without bytes waits for the link.
    Transfer& t = transfers_pool_[index];
    if (crosses_dead_link(t.links) && reroute(index)) continue;
    if (crosses_dead_link(t.links) && t.left.value <= 0) {
      t.state = Transfer::State::parked;
      parked_.push_back(index);
    } else {
      start_flow(index);
    }
  }
}

void Executor::add_instant() {
  for (const std::uint32_t i : instant_) endings_.push_back(ending(transfers_pool_[i].send, i));
  instant_.clear();
}

void Executor::finish_all() {
  for (const std::uint64_t at : endings_) {
    const auto transfer = static_cast<std::uint32_t>(at);
    // What ended before it in this step may have cancelled it.
    if (transfer > 0) {
      if (transfers_pool_[transfer - 1].state != Transfer::State::free) end_transfer(transfer - 1, Outcome::done);
    } else if (streams_[at >> 32].busy) {
      finish(streams_[at >> 32], Outcome::done);
    }
  }
}

void Executor::run_touched() {
  while (!touched_.empty() || !instant_.empty()) {
    round_.swap(touched_);
    touched_.clear();
    sort_nearly_sorted(round_);
    for (const Actor actor : round_) actors_[static_cast<std::size_t>(actor)].touched = false;
    for (const Actor actor : round_) advance(actor);
    if (instant_.empty()) continue;
    endings_.clear();
    add_instant();
    finish_all();
  }
  depart();
  settle();
}

void Executor::touch(Actor actor) {
  ActorState& a = actors_[static_cast<std::size_t>(actor)];
  if (a.touched) return;
  a.touched = true;
  touched_.push_back(actor);
}

void Executor::advance(Actor actor) {
  ActorState& a = actors_[static_cast<std::size_t>(actor)];
  for (bool again = true; again;) {
    again = false;
    pull(a);
    // What is begun may end at once, and make other streams of the actor idle.
    for (std::uint64_t ahead = ~std::uint64_t{0}; (a.idle & ahead) != 0;) {
      const int index = std::countr_zero(a.idle & ahead);
      ahead = index + 1 < kMaxStreams ? ~std::uint64_t{0} << (index + 1) : 0;
      StreamState& s = a.streams[static_cast<std::size_t>(index)];
      if (!ready(a, s.front())) continue;
      begin(s);
      again |= !s.busy;
    }
  }
  if (!a.ended && a.exhausted && a.queued == 0) {
    a.ended = true;
    if (!a.daemon) --running_;
  }
}

void Executor::pull(ActorState& a) {
  while (a.dry != 0 && !a.exhausted && !a.waiting) {
    if (a.queued >= look_ahead_) {
      a.bound_hit = true;
      return;
    }
    const Op* op = nullptr;
    switch (a.program->give(op, pulled_)) {
      case Pull::done:
        a.exhausted = true;
        return;
      case Pull::waiting:
        if (!a.dynamic) throw InternalError("a static program waits for an event");
        a.waiting = true;
        return;
      case Pull::op:
        accept(a, *op);
        break;
    }
  }
}

/// An operation joins the queue of its stream.
void Executor::accept(ActorState& a, const Op& op) {
  const std::size_t count = a.streams.size();
  if (op.stream >= count) throw InternalError(fmt::format("stream {} of a program with {} streams", op.stream, count));
  for (const Dep& dep : op.deps)
    if (dep.count > 0 && dep.stream >= count)
      throw InternalError(fmt::format("a dependency on stream {} of a program with {} streams", dep.stream, count));
  StreamState& s = a.streams[op.stream];
  if (s.closed) throw InternalError(fmt::format("an operation after the last one of stream {}", op.stream));
  const std::uint64_t bit = std::uint64_t{1} << op.stream;
  if (s.empty()) {
    if (a.bound_hit && could_have_started(a, op)) ++late_by_look_ahead_;
    a.dry &= ~bit;
    a.idle |= bit;
  }
  s.push(op);
  s.closed = op.last_of_stream;
  ++a.queued;
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

OpId Executor::cause(const StreamState& of) const {
  const ActorState& a = actors_[static_cast<std::size_t>(of.actor)];
  const auto ended_now = [this, &a](Stream s) { return a.streams[s].last_end == now_ ? a.streams[s].last_id : 0; };
  if (const OpId id = ended_now(of.index)) return id;
  for (const Dep& dep : of.front().deps)
    if (dep.count > 0)
      if (const OpId id = ended_now(dep.stream)) return id;
  for (std::size_t s = 0; s < a.streams.size(); ++s)  // a dynamic program that was woken
    if (const OpId id = ended_now(static_cast<Stream>(s))) return id;
  return 0;
}

void Executor::begin(StreamState& s) {
  ActorState& a = actor_of(s);
  const Op& op = s.front();
  s.busy = true;
  a.idle &= ~(std::uint64_t{1} << s.index);
  s.id = ++next_id_;
  s.cause = operation_observers_.empty() ? 0 : cause(s);
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
      return begin_send(s);
    case Kind::recv:
      return begin_recv(s);
    case Kind::join:
      return begin_join(s);
    case Kind::mark:
      s.remaining = 0;
      break;
    case Kind::compute:
    case Kind::local:
    case Kind::delay:
      s.remaining = machine_.price(op.work, s.actor).duration.value;
      break;
  }
  announce_start(s);
  set_active(s.actor, op.kind, +1);
  if (!(s.remaining >= 0)) throw InternalError(fmt::format("a price of {} s", s.remaining));
  if (s.remaining == 0) return finish(s, Outcome::done);
  a.fresh_work = true;
  settle_later(s.actor);
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

void Executor::finish(StreamState& s, Outcome outcome) {
  ActorState& a = actor_of(s);
  const Op& op = s.front();
  if (s.timed) agenda_.cancel(s.timer);
  s.timed = false;
  set_active(s.actor, op.kind, meets_others(op.kind) ? 0 : -1);
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
    a.program->notify({s.index, op.kind, op.message.tag, s.peer, outcome, Seconds{now_}});
    a.waiting = false;
  }
  s.pop();
  --a.queued;
  const std::uint64_t bit = std::uint64_t{1} << s.index;
  if (!s.empty())
    a.idle |= bit;
  else if (!s.closed)
    a.dry |= bit & a.driving;
  touch(s.actor);
}

bool Executor::cancel(Actor actor, Stream index) {
  const ActorState& a = actors_.at(static_cast<std::size_t>(actor));
  if (index >= a.streams.size())
    throw InternalError(fmt::format("cancel of stream {} of a program with {} streams", index, a.streams.size()));
  StreamState& s = a.streams[index];
  if (!s.busy) return false;
  // Its message is just ending: the other half has been told already.
  if (s.transfer != kNone && transfers_pool_[s.transfer].state == Transfer::State::free) return false;
  const Op& op = s.front();
  if (!meets_others(op.kind)) {
    finish(s, Outcome::cancelled);
  } else if (s.transfer != kNone) {
    end_transfer(s.transfer, Outcome::cancelled);
  } else if (op.kind == Kind::join) {
    withdraw_join(op.message.tag, ref_of(s));
    finish(s, Outcome::cancelled);
  } else {  // waits for its other half
    if (op.kind == Kind::send)
      matcher_.withdraw_send(s.channel, ref_of(s));
    else if (op.message.slot == kAnyPeer)
      matcher_.withdraw_any(actor, ref_of(s));
    else
      matcher_.withdraw_recv(s.channel, ref_of(s));
    finish(s, Outcome::cancelled);
  }
  return true;
}

}  // namespace trainyard
