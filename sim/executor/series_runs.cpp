#include "sim/executor/series_runs.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/error.hpp"
#include "sim/executor/series_timing.hpp"

namespace trainyard::execution {

const SeriesRuns::Known& SeriesRuns::known(Actor actor, const Series& series, std::size_t first) {
  const auto [at, fresh] = known_.try_emplace({actor, &series, first});
  Known& known = at->second;
  if (fresh) known.lone = time_series(known.times, series, first, actor, context_.machine, joins_, transfers_);
  return known;
}

void SeriesRuns::begin(StreamState& s) {
  ActorState& a = table_.actor_of(s);
  if (a.dynamic) throw InternalError("a program that decides as it goes yields a series");
  s.busy = true;
  a.idle &= ~(std::uint64_t{1} << s.index);
  running_.resize(table_.actors.size());
  Running& r = running_[s.actor];
  r = {&a.program->series(s.front().message.tag), s.front(), table_.id_of(s), {}, 0, false, {}};
  waiting_.push_back(r.main);
}

bool SeriesRuns::settle() {
  streams_.take_next_parts(waiting_);
  interference_.take_interrupted(interrupted_);
  if (waiting_.empty() && interrupted_.empty()) return false;
  for (const Actor actor : std::exchange(interrupted_, {}))
    if (const ActorState& a = table_.actors[actor]; a.stretch && !alone(a)) interrupt(actor);
  for (const StreamId stream : std::exchange(waiting_, {})) part_ended(stream);
  return true;
}

bool SeriesRuns::alone(const ActorState& a) const {
  return std::all_of(std::begin(a.active), std::end(a.active), [](std::uint16_t running) { return running == 0; });
}

/// Or the series has begun.
void SeriesRuns::part_ended(StreamId stream) {
  StreamState& s = table_.streams[stream];
  Running& r = running_[s.actor];
  if (r.side == stream) {
    r.side = {};
    streams_.free_side(s);
    if (r.main_runs) return;
  }
  r.main_runs = false;
  go_on(r);
}

void SeriesRuns::go_on(Running& r) {
  StreamState& main = table_.streams[r.main];
  ActorState& a = table_.actor_of(main);
  const std::vector<Series::Part>& parts = r.series->parts;
  if (allowed_ && !r.side && r.next < parts.size() && alone(a))
    if (const Known& of = known(main.actor, *r.series, r.next); of.lone) return begin_stretch(a, r, of.times);
  while (r.next < parts.size()) {
    const Series::Part& part = parts[r.next];
    if (r.side && (part.waits || part.op.kind == Kind::join)) return;
    ++r.next;
    begin_part(a, stream_of(a, r, part));
    if (!part.beside) return;
  }
  if (!r.side) streams_.end_series(main);
}

/// Where a part runs; it is noted to run there.
StreamState& SeriesRuns::stream_of(ActorState& a, Running& r, const Series::Part& part) {
  StreamState& s = part.beside ? a.streams[part.op.stream] : table_.streams[r.main];
  if (!part.beside) {
    r.main_runs = true;
  } else {
    if (!s.empty() || s.busy) throw InternalError("a join beside a series finds its stream in use");
    r.side = table_.id_of(s);
  }
  streams_.put_part(s, part.op, r.whole);
  return s;
}

void SeriesRuns::begin_part(ActorState& a, StreamState& s) {
  streams_.post(a, s);
  if (s.front().kind == Kind::join)
    joins_.begin(s);
  else
    streams_.begin_work(s);
}

void SeriesRuns::begin_stretch(ActorState& a, Running& r, const SeriesTimes& times) {
  StreamState& s = table_.streams[r.main];
  r.stretch = {&times, context_.now, r.series->parts.size(), -1};
  s.head = r.whole;
  s.series = nullptr;
  a.stretch = &r.stretch;
  streams_.post(a, s);
  streams_.announce_start(s);
  s.timer = context_.set_timer(context_.now + times.length, TimerToken::Kind::work, r.main.number());
  s.timed = true;
}

void SeriesRuns::end(StreamState& s) {
  ActorState& a = table_.actor_of(s);
  report(s, *a.stretch, a.stretch->times->phases.size() - 1);
  streams_.finish(s, Outcome::done);
  a.stretch = nullptr;
}

/// The parts that are under way become operations that began when they did.
void SeriesRuns::interrupt(Actor actor) {
  ActorState& a = table_.actors[actor];
  Running& r = running_[actor];
  SeriesStretch& stretch = r.stretch;
  const SeriesTimes& times = *stretch.times;
  StreamState& main = table_.streams[r.main];
  const std::size_t number = times.phase_at(context_.now - stretch.began);
  const SeriesTimes::Phase& phase = times.phases[number];
  r.next = phase.next;
  stretch.last = phase.main >= 0 ? static_cast<std::size_t>(phase.main) : phase.next;
  stretch.open = phase.beside;
  report(main, stretch, number);
  const OpId id = streams_.break_stretch(main);
  std::array<StreamState*, 2> going{};
  for (const int part : {phase.beside, phase.main}) {
    if (part < 0) continue;
    StreamState& s = stream_of(a, r, r.series->parts[static_cast<std::size_t>(part)]);
    streams_.post_part(s, id, stretch, part);
    going[part == phase.main ? 1 : 0] = &s;
  }
  streams_.announce_break(main, id, r.whole);
  a.stretch = nullptr;
  const double since = context_.now - stretch.began - phase.begin;
  for (StreamState* s : going) {
    if (!s) continue;
    const SeriesTimes::PartTimes& of = times.parts[static_cast<std::size_t>(s == going[1] ? phase.main : phase.beside)];
    if (s->front().kind != Kind::join)
      streams_.take_up_work(*s, std::max(0.0, phase.left - since * phase.speed), phase.speed);
    else if (phase.latency > 0)
      joins_.take_up(*s, {std::max(0.0, phase.latency - since), Bytes{0}, of.limiting});
    else
      joins_.take_up(*s, {0, s->front().message.bytes - Bytes{phase.bytes - since * phase.rate}, of.limiting});
  }
}

/// To those who see messages: of each group all joins at once that had ended before a phase.
void SeriesRuns::report(const StreamState& s, const SeriesStretch& stretch, std::size_t phase) {
  for (const SeriesTimes::Moved& moved : stretch.times->moved) {
    if (moved.joins[phase] == 0) continue;
    TransferRun run;
    run.from = run.to = s.actor;
    run.send = &s.front();
    run.send_id = s.id;
    run.bytes = Bytes{moved.bytes[phase]};
    run.route = *moved.route;
    run.started = Seconds{stretch.began};
    run.ended = Seconds{context_.now};
    run.group = moved.group;
    run.joins = moved.joins[phase];
    transfers_.report(run);
  }
}

}  // namespace trainyard::execution
