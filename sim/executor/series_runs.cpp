#include "sim/executor/series_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "sim/error.hpp"
#include "sim/executor/links.hpp"

namespace trainyard::execution {
namespace {

class Timing {
 public:
  Timing(SeriesTimes& times, Actor actor, const Machine& machine, const Joins& joins, Transfers& transfers)
      : times_(times),
        parts_(times.series->parts),
        actor_(actor),
        machine_(machine),
        joins_(joins),
        transfers_(transfers) {
    now_.next = times.first;
  }

  bool run() {
    times_.parts.resize(parts_.size());
    while (begin_parts()) {
      find_speeds();
      note_phase();
      end_parts(span());
    }
    note_phase();
    times_.length = now_.begin;
    return is_undisturbed_;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  SeriesTimes& times_;
  const std::vector<Series::Part>& parts_;
  Actor actor_;
  const Machine& machine_;
  const Joins& joins_;
  Transfers& transfers_;
  SeriesTimes::Phase now_;
  const Route* route_ = nullptr;  // route of the join under way
  bool is_undisturbed_ = true;
  int last_ended_ = -1;
  double host_ = 0;  // s that the host has needed to launch the parts begun so far

  const Op& op(int part) const { return parts_[static_cast<std::size_t>(part)].op; }
  SeriesTimes::PartTimes& part(int number) { return times_.parts[static_cast<std::size_t>(number)]; }
  bool moves(int part) const { return part >= 0 && op(part).kind == Kind::join; }
  int join() const { return now_.beside >= 0 ? now_.beside : moves(now_.main) ? now_.main : -1; }

  /// Begins all parts that can begin now. Returns false if the series is over.
  bool begin_parts() {
    while (now_.main < 0 && now_.next < parts_.size()) {
      const Series::Part& next = parts_[now_.next];
      if (now_.beside >= 0 && (next.waits || next.op.kind == Kind::join)) break;
      const auto number = static_cast<int>(now_.next++);
      part(number).begin = part(number).end = now_.begin;
      part(number).cause = last_ended_;
      (next.beside ? now_.beside : now_.main) = number;
      if (next.op.kind == Kind::join && Joins::flows(next.op.message)) {
        begin_join(number);
      } else if (next.op.kind == Kind::join || next.op.kind == Kind::mark) {
        end(number);
      } else {
        now_.left = work_duration(machine_.price(next.op.work, actor_), part(number));
        if (!(now_.left >= 0)) throw InternalError(fmt::format("a part of a series takes {} s", now_.left));
        if (now_.left == 0) end(number);
      }
    }
    return now_.main >= 0 || now_.beside >= 0;
  }

  /// Undisturbed duration of work whose host is ahead. Records how far ahead the host must be.
  double work_duration(const Cost& cost, SeriesTimes::PartTimes& part) {
    if (cost.host.value > 0) {
      times_.lead = std::max(times_.lead, host_ + cost.launched.value - (now_.begin + cost.duration.value));
      part.host = cost.host.value;
      host_ += part.host;
    }
    return cost.duration.value;
  }

  void begin_join(int number) {
    const Message& m = op(number).message;
    const GroupFlow& group = joins_.group_flow(actor_, m);
    route_ = &transfers_.find_route(group);
    part(number).latency = route_->latency + m.extra_latency;
    now_.latency = part(number).latency.seconds().value;
    now_.bytes = m.bytes.value;
    now_.rate = 0;
    is_undisturbed_ = is_undisturbed_ && route_->reachable && !group.by_engines && owns_links(group);
    auto& moved = times_.moved;
    const GroupId joins_of = op(number).group;
    const auto is_known = [&](const auto& other) { return other.group == &group && other.joins_of == joins_of; };
    if (std::ranges::any_of(moved, is_known)) return;
    const std::vector<double> before(times_.phases.size(), 0);
    moved.push_back({&group, joins_of, route_, before, before});
  }

  bool owns_links(const GroupFlow& group) const {
    if (!group.known_group) return false;
    const std::vector<Actor>& owners = group.known_group->owners;
    return std::ranges::find(owners, actor_) != owners.end();
  }

  /// Finds the speed of the main part and the rate of the join, which slow each other.
  void find_speeds() {
    const bool works = now_.main >= 0 && !moves(now_.main) && op(now_.main).kind != Kind::delay;
    KindSet kinds = works ? bit(op(now_.main).kind) : KindSet{0};
    if (join() >= 0 && !route_->slow) kinds |= bit(Kind::send);
    if (join() >= 0 && route_->slow && now_.latency <= 0) kinds |= kSlowMessages;
    now_.speed = works ? machine_.contention()->speed(actor_, op(now_.main).kind, kinds) : 1;
    now_.group = op(now_.main >= 0 ? now_.main : now_.beside).group;
    if (join() < 0 || now_.latency > 0) return;
    const double slow = machine_.contention()->speed(actor_, Kind::send, kinds);
    const bool leaves = now_.rate == 0;
    const auto capacity = [&](LinkId link) {
      const std::span<const LinkId> ports = machine_.contention()->ports(actor_);
      const bool port = slow != 1 && std::ranges::find(ports, link) != ports.end();
      return machine_.links()[position(link)].capacity.value * (port ? slow : 1);
    };
    now_.rate = op(join()).message.rate_cap.value;
    for (const LinkUse& use : route_->links)
      if (const double most = capacity(use.link) / use.weight; now_.rate <= 0 || most < now_.rate) now_.rate = most;
    if (now_.rate <= 0) now_.rate = kNever;
    LinkId& limiting = part(join()).limiting;
    for (const LinkUse& use : route_->links)
      if (leaves && limits(use.link, now_.rate * use.weight / capacity(use.link), limiting, machine_.links()))
        limiting = use.link;
  }

  double work_time() const { return now_.main >= 0 && !moves(now_.main) ? now_.left / now_.speed : kNever; }
  double join_time() const {
    if (join() < 0) return kNever;
    return now_.latency > 0 ? now_.latency : now_.bytes > 0 ? now_.bytes / now_.rate : 0;
  }
  double span() const { return std::min(work_time(), join_time()); }

  void end_parts(double span) {
    const bool work_ends = work_time() <= span, join_ends = join_time() <= span;
    now_.begin += span;
    now_.left = std::max(0.0, now_.left - span * now_.speed);
    const int joined = join();
    if (joined >= 0 && now_.latency > 0) {
      now_.latency = join_ends ? 0 : now_.latency - span;
      if (join_ends && now_.bytes <= 0) end(joined);
    } else if (joined >= 0) {
      now_.bytes = join_ends ? 0 : now_.bytes - span * now_.rate;
      if (join_ends) end(joined);
    }
    if (work_ends) end(now_.main);  // the main part ends last: it is the cause of whatever follows both
  }

  void end(int number) {
    part(number).end = now_.begin;
    (number == now_.beside ? now_.beside : now_.main) = -1;
    last_ended_ = times_.last = number;
    if (!moves(number) || !Joins::flows(op(number).message)) return;
    for (SeriesTimes::MovedBytes& moved : times_.moved) {
      if (moved.group != &joins_.group_flow(actor_, op(number).message) || moved.joins_of != op(number).group) continue;
      ended_.push_back({&moved - times_.moved.data(), op(number).message.bytes.value});
    }
  }
  struct EndedJoin {
    std::ptrdiff_t moved;
    double bytes;
  };
  std::vector<EndedJoin> ended_;  // since the last phase was recorded

  void note_phase() {
    if (now_.main >= 0 || now_.beside >= 0) add_share(now_.group);
    const double span = times_.phases.empty() ? 0 : now_.begin - times_.phases.back().begin;
    for (SeriesTimes::Share& share : times_.shares) {
      const double before = share.before.empty() ? 0 : share.before.back();
      const bool continues = !times_.phases.empty() && times_.phases.back().group == share.group;
      share.before.push_back(before + (continues ? span : 0));
    }
    for (SeriesTimes::MovedBytes& moved : times_.moved) {
      moved.bytes.push_back(moved.bytes.empty() ? 0 : moved.bytes.back());
      moved.joins.push_back(moved.joins.empty() ? 0 : moved.joins.back());
    }
    for (const EndedJoin& ended : ended_) {
      times_.moved[static_cast<std::size_t>(ended.moved)].bytes.back() += ended.bytes;
      times_.moved[static_cast<std::size_t>(ended.moved)].joins.back() += 1;
    }
    ended_.clear();
    times_.phases.push_back(now_);
  }

  void add_share(GroupId group) {
    const auto is_of_group = [group](const SeriesTimes::Share& share) { return share.group == group; };
    if (std::ranges::any_of(times_.shares, is_of_group)) return;
    times_.shares.push_back({group, std::vector<double>(times_.phases.size(), 0)});
  }
};

/// Returns true if two series differ at most in names of their work and joins.
bool differ_only_in_names(const Series& one, const Series& other) {
  return std::equal(one.parts.begin(), one.parts.end(), other.parts.begin(), other.parts.end(),
                    [](const Series::Part& a, const Series::Part& b) {
                      if (a.beside != b.beside || a.waits != b.waits) return false;
                      if (a.op.kind == Kind::mark) return a.op == b.op;
                      Op renamed = b.op;
                      renamed.name = a.op.name;
                      return a.op == renamed;
                    });
}

}  // namespace

bool time_series(SeriesTimes& times, const Series& series, std::size_t first, Actor actor, const Machine& machine,
                 const Joins& joins, Transfers& transfers) {
  times.series = &series;
  times.first = first;
  return Timing(times, actor, machine, joins, transfers).run();
}

const SeriesRuns::CachedTimes& SeriesRuns::cached_times(Actor actor, const Series& series, std::size_t first) {
  const CachedTimes*& entry = cached_times_[{actor, &series, first}];
  if (entry) return *entry;
  std::vector<const CachedTimes*>& of_actor = times_of_actor_.grown(actor);
  const auto same = std::ranges::find_if(of_actor, [&](const CachedTimes* other) {
    return other->times.first == first && differ_only_in_names(*other->times.series, series);
  });
  if (same != of_actor.end()) return *(entry = *same);
  CachedTimes& cached = times_.emplace_back();
  cached.lone = time_series(cached.times, series, first, actor, context_.machine, joins_, transfers_);
  of_actor.push_back(&cached);
  return *(entry = &cached);
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
    if (const ActorState& a = table_.actors[actor]; a.interval && !a.is_alone()) interrupt(actor);
  for (const StreamId stream : std::exchange(waiting_, {})) part_ended(stream);
  return true;
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
  if (allowed_ && !r.side && r.next < parts.size() && a.is_alone())
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
    run.joins_of = moved.joins_of;
    run.joins = moved.joins[phase];
    transfers_.report(run);
  }
}

}  // namespace trainyard::execution
