#include "sim/executor/streams.hpp"

#include <fmt/format.h>

#include "sim/error.hpp"
#include "sim/same_moment.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard::execution {
namespace {

constexpr std::uint32_t kLongRun = 64;  // rounds

}  // namespace

void Streams::add(Actor actor, std::unique_ptr<Program> program) {
  if (actor != table_.actors.end_id())
    throw InternalError(fmt::format("program of actor {} added where {} comes next", actor, table_.actors.size()));
  const int count = program->streams();
  if (count < 1 || count > kMaxStreams)
    throw InternalError(fmt::format("a program uses {} streams; 1 to {} are possible", count, kMaxStreams));
  for (int i = 0; i < count; ++i) {
    StreamState& s = table_.streams.emplace_back();
    s.actor = actor;
    s.index = static_cast<Stream>(i);
  }
  expect(*program);
  take_over(table_.actors.emplace_back(), std::move(program));
}

void Streams::take_over(ActorState& a, std::unique_ptr<Program> program) {
  a.driving = program->driving() & ~std::uint64_t{0} >> (kMaxStreams - program->streams());
  a.dry = a.driving;
  a.idle = 0;
  a.dynamic = program->dynamic();
  a.daemon = program->daemon();
  a.program = std::move(program);
}

void Streams::check_slots(const Program& program) const {
  for (const Actor peer : program.slots())
    if (!table_.actors.contains(peer))
      throw InternalError(fmt::format("a slot names actor {}, of {} actors", peer, table_.actors.size()));
}

void Streams::start() {
  look_ahead_ = trainyard::look_ahead(table_.actors.size());
  StreamState* first = table_.streams.data();
  for (ActorState& a : table_.actors) {
    a.streams = {first, position(a.program->streams())};
    first += a.streams.size();
    check_slots(*a.program);
  }
  for (Actor actor = 0; actor < table_.actors.end_id(); ++actor) touch(actor);
}

void Streams::fail(Actor actor) {
  ActorState& a = table_.actors[actor];
  for (StreamState& s : a.streams) {
    if (s.busy) finish(s, Outcome::cancelled);
    while (!s.empty()) s.pop();
    s.closed = true;
  }
  a.queued = a.at_once = 0;
  a.idle = a.dry = 0;
  a.exhausted = true;
  a.waiting = false;
  note_end(a);
}

void Streams::restart(Actor actor, std::unique_ptr<Program> program) {
  ActorState& a = table_.actors[actor];
  const int count = program->streams();
  if (count < 1 || position(count) > a.streams.size())
    throw InternalError(fmt::format("{} comes back with {} streams, of {}", context_.machine.actor_name(actor), count,
                                    a.streams.size()));
  check_slots(*program);
  for (StreamState& s : a.streams) {
    s.closed = false;
    s.done = 0;
    s.last_id = 0;
    s.last_end = -1;
  }
  a.failed = a.exhausted = a.ended = a.waiting = a.bound_hit = false;
  take_over(a, std::move(program));
  touch(actor);
}

void Streams::take_touched(std::vector<Actor>& actors) {
  actors.swap(touched_);
  touched_.clear();
  sort_nearly_sorted(actors);
  for (const Actor actor : actors) table_.actors[actor].touched = false;
}

void Streams::pull(ActorState& a) {
  while (a.dry != 0 && !a.exhausted && !a.waiting) {
    if (a.queued - a.at_once >= look_ahead_) {
      a.bound_hit = true;
      return;
    }
    const Op* op = nullptr;
    const Repeat* repeat = nullptr;
    switch (a.program->next(op, repeat)) {
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
      case Pull::repeat:
        accept(a, *repeat);
        break;
    }
    ++pulls_;
  }
}

/// The stream that an operation is for. It is no longer dry.
StreamState& Streams::stream_for(ActorState& a, const Op& op) {
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
  s.closed = op.last_of_stream;
  return s;
}

void Streams::accept(ActorState& a, const Op& op) {
  StreamState& s = stream_for(a, op);
  if (keeps_effects_ || s.empty()) {
    s.push(op);
    if (!keeps_effects_) s.head.effect = {};
  } else {
    Op stored = op;
    stored.effect = {};
    s.push(stored);
  }
  ++a.queued;
}

void Streams::accept(ActorState& a, const Repeat& repeat) {
  for (int i = 0; i < repeat.operations(); ++i) {
    const Repeat::RoundOp& operation = repeat.operation(i);
    StreamState& s = stream_for(a, operation.first);
    const auto push = [&](std::uint32_t round, std::uint32_t rounds) {
      Op first = operation.of_round(round);
      Stride stride = operation.stride;
      if (!keeps_effects_) {
        first.effect = {};
        stride.read = stride.write = 0;
      }
      a.at_once += s.push(first, stride, rounds);
    };
    // Without effects, chunk numbers do not matter: no jump is needed.
    const std::uint32_t until = keeps_effects_ ? std::min(operation.until_jump, repeat.rounds()) : repeat.rounds();
    if (until > 0) push(0, until);
    if (until < repeat.rounds()) push(until, repeat.rounds() - until);
    a.queued += repeat.rounds();
    if (repeat.rounds() >= kLongRun) long_run_ = table_.id_of(s);
  }
}

bool Streams::could_have_started(const ActorState& a, const Op& op) const {
  const double now = context_.now;
  const auto before_now = [now, &a](const Dep& dep) {
    const StreamState& s = a.streams[dep.stream];
    return dep.count == 0 || s.done > dep.count || (s.done == dep.count && s.last_end < now);
  };
  return a.streams[op.stream].last_end < now && std::all_of(std::begin(op.deps), std::end(op.deps), before_now);
}

/// Returns the operation whose end allowed the head of the stream to begin; 0: none. If several ended at the same
/// moment, it is the one of the stream itself, otherwise the first in the order of the dependencies. So rounding does
/// not decide.
OpId Streams::cause(const StreamState& waiting) const {
  const ActorState& a = table_.actors[waiting.actor];
  const auto ended_now = [now = context_.now](const StreamState& s) {
    return same_moment(s.last_end, now) ? s.last_id : 0;
  };
  if (const OpId id = ended_now(waiting)) return id;
  for (const Dep& dep : waiting.front().deps)
    if (dep.count > 0)
      if (const OpId id = ended_now(a.streams[dep.stream])) return id;
  for (const StreamState& s : a.streams)  // a dynamic program that was woken
    if (const OpId id = ended_now(s)) return id;
  return 0;
}

void Streams::announce_post(StreamState& s) {
  s.cause = cause(s);
  const OpRun run = run_of(s, context_.now);
  for (Observer* o : context_.observers.operation_observers()) o->posted(run);
}

/// Returns the time until work that begins now ends.
double Streams::launch(const StreamState& s, const Cost& cost) {
  if (cost.host.value == 0 && !cost.host_waits) return cost.duration.value;
  ActorState& a = table_.actor_of(s);
  if (cost.host_waits && a.host <= context_.now) {
    a.host = context_.now;
    a.launch = {{}, Seconds{context_.now}, s.cause};
  }
  const double remaining = std::max(cost.duration.value, a.host + cost.launched.value - context_.now);
  a.host += cost.host.value;
  return remaining;
}

void Streams::begin_work(StreamState& s) {
  const Op& op = s.front();
  Cost cost;
  if (op.kind != Kind::mark) cost = context_.machine.price(op.work, s.actor);
  s.remaining = launch(s, cost);
  announce_start(s, Seconds{s.remaining} - cost.duration, cost.tail);
  interference_.change_active(s.actor, op.kind, +1);
  if (!(s.remaining >= 0)) throw InternalError(fmt::format("a price of {} s", s.remaining));
  if (s.remaining == 0) return finish(s, Outcome::done);
  table_.actor_of(s).working |= std::uint64_t{1} << s.index;
  interference_.add_work(s.actor);
  s.speed = 0;  // not set yet
  s.since = context_.now;
  s.launched_by = context_.now + s.remaining - cost.duration.value;
}

void Streams::announce_start(StreamState& s, Seconds host_wait, Seconds tail) {
  s.began = true;
  const std::vector<Observer*>& observers = context_.observers.operation_observers();
  if (observers.empty()) return;
  OpRun run = run_of(s, s.started);
  run.launch = table_.actor_of(s).launch;
  run.launch.wait = host_wait;
  run.launch.tail = tail;
  for (Observer* o : observers) o->started(run);
}

OpRun Streams::run_of(const StreamState& s, double ended, Outcome outcome) const {
  OpRun run;
  run.op = &s.front();
  run.id = s.id;
  run.cause = s.cause;
  run.posted = Seconds{s.posted};
  run.started = Seconds{s.started};
  run.ended = Seconds{ended};
  run.peer = s.peer;
  run.outcome = outcome;
  if (run.op->kind == Kind::series) run.interval = table_.actors[s.actor].interval;
  run.began = s.began;
  run.bytes = s.bytes;
  run.latency = s.latency;
  run.extra_latency = s.extra_latency;
  run.latencies = s.latencies;
  run.limiting = s.limiting;
  return run;
}

void Streams::finish(StreamState& s, Outcome outcome) {
  ActorState& a = table_.actor_of(s);
  const Op& op = s.front();
  if (s.timed) context_.timers.cancel(s.timer);
  s.timed = false;
  if (!waits_for_others(op.kind)) interference_.change_active(s.actor, op.kind, -1);
  if (const std::vector<Observer*>& observers = context_.observers.operation_observers(); !observers.empty()) {
    const OpRun run = run_of(s, context_.now, outcome);
    for (Observer* o : observers) o->finished(run);
  }
  if (!a.daemon) end_ = context_.now;
  s.last_id = s.id;
  s.last_end = context_.now;
  if (s.series) {
    if (outcome != Outcome::done) throw InternalError("a part of a series was cancelled");
    a.working &= ~(std::uint64_t{1} << s.index);
    next_parts_.push_back(table_.id_of(s));
    return;
  }
  if (a.dynamic) {
    a.program->notify({s.index, op.kind, op.message.tag, s.peer, outcome, Seconds{context_.now}});
    a.waiting = false;
  }
  leave(a, s);
}

/// Removes the ended operation from its stream.
void Streams::leave(ActorState& a, StreamState& s) {
  ++s.done;
  s.busy = false;
  a.at_once -= s.pop();
  --a.queued;
  const std::uint64_t bit = std::uint64_t{1} << s.index;
  a.working &= ~bit;
  if (!s.empty())
    a.idle |= bit;
  else if (!s.closed)
    a.dry |= bit & a.driving;
  touch(a, s.actor);
}

void Streams::put_part(StreamState& s, const Op& part, const Op& series_op) {
  s.head = part;
  s.head.actor = s.actor;
  s.head.stream = s.index;
  s.series = &series_op;
}

void Streams::free_side(StreamState& s) {
  s.series = nullptr;
  s.busy = false;
}

void Streams::end_series(StreamState& s) {
  s.head = *std::exchange(s.series, nullptr);  // the queue continues from it
  leave(table_.actor_of(s), s);
}

OpId Streams::break_interval(StreamState& s) {
  context_.timers.cancel(s.timer);
  s.timed = false;
  s.last_id = s.id;
  s.last_end = -1;  // nothing that begins now has it as its cause
  return s.id;
}

void Streams::post_part(StreamState& s, OpId interval_id, const SeriesInterval& interval, int part) {
  const double began = interval.begin(static_cast<std::size_t>(part));
  s.busy = true;
  number(s, began);
  s.cause = interval_id;
  OpRun run = run_of(s, began);
  run.interval = &interval;
  run.part = part;
  for (Observer* o : context_.observers.operation_observers()) o->posted(run);
}

void Streams::announce_break(const StreamState& s, OpId interval_id, const Op& series_op) {
  OpRun run;
  run.op = &series_op;
  run.id = interval_id;
  run.interval = table_.actors[s.actor].interval;
  run.posted = run.started = Seconds{run.interval->began};
  run.ended = Seconds{context_.now};
  for (Observer* o : context_.observers.operation_observers()) o->finished(run);
}

void Streams::resume_work(StreamState& s, double remaining, double speed) {
  announce_start(s);
  interference_.change_active(s.actor, s.front().kind, +1);
  table_.actor_of(s).working |= std::uint64_t{1} << s.index;
  interference_.add_work(s.actor);
  s.remaining = remaining;
  s.speed = speed;
  s.since = s.launched_by = context_.now;
  s.timer = context_.set_timer(context_.now + remaining / speed, TimerToken::Kind::work, table_.id_of(s).number());
  s.timed = true;
}

}  // namespace trainyard::execution
