#include "sim/executor/series_runs.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "sim/error.hpp"
#include "sim/executor/series_timing.hpp"

namespace trainyard::execution {

const SeriesRuns::CachedTimes& SeriesRuns::cached_times(Actor actor, const Series& series, std::size_t first) {
  const auto [entry, fresh] = cached_times_.try_emplace({actor, &series, first});
  CachedTimes& cached = entry->second;
  if (fresh) cached.lone = time_series(cached.times, series, first, actor, context_.machine, joins_, transfers_);
  return cached;
}

void SeriesRuns::begin(StreamState& s) {
  ActorState& a = table_.actor_of(s);
  if (a.dynamic) throw InternalError("a dynamic program yields a series");
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
    if (const ActorState& a = table_.actors[actor]; a.interval && !is_alone(a)) interrupt(actor);
  for (const StreamId stream : std::exchange(waiting_, {})) part_ended(stream);
  return true;
}

bool SeriesRuns::is_alone(const ActorState& a) const {
  return std::all_of(std::begin(a.active), std::end(a.active), [](std::uint16_t running) { return running == 0; });
}

/// Starts the next part when a part has ended or the series has begun.
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
  if (allowed_ && !r.side && r.next < parts.size() && is_alone(a))
    if (const CachedTimes& cached = cached_times(main.actor, *r.series, r.next);
        cached.lone && a.host + cached.times.lead <= context_.now)
      return begin_interval(a, r, cached.times);
  while (r.next < parts.size()) {
    const Series::Part& part = parts[r.next];
    if (r.side && (part.waits || part.op.kind == Kind::join)) return;
    ++r.next;
    begin_part(a, stream_of(a, r, part));
    if (!part.beside) return;
  }
  if (!r.side) streams_.end_series(main);
}

/// Returns the stream on which a part runs, and marks it as running.
StreamState& SeriesRuns::stream_of(ActorState& a, Running& r, const Series::Part& part) {
  StreamState& s = part.beside ? a.streams[part.op.stream] : table_.streams[r.main];
  if (!part.beside) {
    r.main_runs = true;
  } else {
    if (!s.empty() || s.busy) throw InternalError("a join beside a series finds its stream in use");
    r.side = table_.id_of(s);
  }
  streams_.put_part(s, part.op, r.series_op);
  return s;
}

void SeriesRuns::begin_part(ActorState& a, StreamState& s) {
  streams_.post(a, s);
  if (s.front().kind == Kind::join)
    joins_.begin(s);
  else
    streams_.begin_work(s);
}

void SeriesRuns::begin_interval(ActorState& a, Running& r, const SeriesTimes& times) {
  StreamState& s = table_.streams[r.main];
  r.interval = {&times, context_.now, r.series->parts.size(), -1};
  s.head = r.series_op;
  s.series = nullptr;
  a.interval = &r.interval;
  streams_.post(a, s);
  streams_.announce_start(s);
  s.timer = context_.set_timer(context_.now + times.length, TimerToken::Kind::work, r.main.number());
  s.timed = true;
}

void SeriesRuns::end(StreamState& s) {
  ActorState& a = table_.actor_of(s);
  report(s, *a.interval, a.interval->times->phases.size() - 1);
  a.host += a.interval->times->host_until(a.interval->times->parts.size());
  streams_.finish(s, Outcome::done);
  a.interval = nullptr;
}

/// Turns the parts under way into operations that began when they did.
void SeriesRuns::interrupt(Actor actor) {
  ActorState& a = table_.actors[actor];
  Running& r = running_[actor];
  SeriesInterval& interval = r.interval;
  const SeriesTimes& times = *interval.times;
  StreamState& main = table_.streams[r.main];
  const std::size_t number = times.phase_at(context_.now - interval.began);
  const SeriesTimes::Phase& phase = times.phases[number];
  r.next = phase.next;
  a.host += times.host_until(r.next);
  interval.last = phase.main >= 0 ? static_cast<std::size_t>(phase.main) : phase.next;
  interval.open = phase.beside;
  report(main, interval, number);
  const OpId id = streams_.break_interval(main);
  std::array<StreamState*, 2> going{};
  for (const int part : {phase.beside, phase.main}) {
    if (part < 0) continue;
    StreamState& s = stream_of(a, r, r.series->parts[static_cast<std::size_t>(part)]);
    streams_.post_part(s, id, interval, part);
    going[part == phase.main ? 1 : 0] = &s;
  }
  streams_.announce_break(main, id, r.series_op);
  a.interval = nullptr;
  const double since = context_.now - interval.began - phase.begin;
  for (StreamState* s : going) {
    if (!s) continue;
    const SeriesTimes::PartTimes& part_times =
        times.parts[static_cast<std::size_t>(s == going[1] ? phase.main : phase.beside)];
    if (s->front().kind != Kind::join)
      streams_.resume_work(*s, std::max(0.0, phase.left - since * phase.speed), phase.speed);
    else if (phase.latency > 0)
      joins_.resume(*s, {std::max(0.0, phase.latency - since), Bytes{0}, part_times.limiting});
    else
      joins_.resume(*s, {0, s->front().message.bytes - Bytes{phase.bytes - since * phase.rate}, part_times.limiting});
  }
}

/// Reports to observers of messages: for each group, all joins that ended before a phase at once.
void SeriesRuns::report(const StreamState& s, const SeriesInterval& interval, std::size_t phase) {
  for (const SeriesTimes::MovedBytes& moved : interval.times->moved) {
    if (moved.joins[phase] == 0) continue;
    TransferRun run;
    run.from = run.to = s.actor;
    run.send = &s.front();
    run.send_id = s.id;
    run.bytes = Bytes{moved.bytes[phase]};
    run.route = *moved.route;
    run.started = Seconds{interval.began};
    run.ended = Seconds{context_.now};
    run.group = moved.group;
    run.joins = moved.joins[phase];
    transfers_.report(run);
  }
}

}  // namespace trainyard::execution
