#include "sim/observers/breakdown.hpp"

#include "sim/error.hpp"

namespace trainyard {
namespace {
bool waits(const OpRun& run) { return waits_for_others(run.op->kind); }
}  // namespace

void Breakdown::book(State& s, double until) {
  if (s.interval) return book_interval(s, until);
  if (s.since < s.host_until && until > s.since && waits_for_host(s)) {
    const double waited = std::min(until, s.host_until);
    s.host_wait += waited - s.since;
    s.since = waited;
  }
  book_span(s, until - s.since);
  s.since = until;
}

/// Returns true if no other work runs beside the work that waits.
bool Breakdown::waits_for_host(const State& s) const {
  int running = 0;
  const std::vector<Group>& groups = names_.groups();
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (groups[g].role == Role::work) running += s.running[g];
  return running == 1;
}

/// Nothing else begins or ends during the interval; therefore the order of its groups does not matter.
void Breakdown::book_interval(State& s, double until) {
  for (const SeriesTimes::Share& share : s.interval->times->shares) {
    ++s.running[share.group];
    book_span(s, s.interval->spent(share, until) - s.interval->spent(share, s.since));
    --s.running[share.group];
  }
  s.since = until;
}

void Breakdown::book_span(State& s, double span) {
  if (span <= 0) return;
  const std::vector<Group>& groups = names_.groups();
  if (groups.size() > kGroups) throw InternalError("too many groups in one breakdown");
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (groups[g].role == Role::work && s.running[g] > 0) {
      s.booked[g] += span;
      return;
    }
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (groups[g].role != Role::work && groups[g].role != Role::prefetch &&
        (s.running[g] > 0 || (groups[g].role == Role::collective && s.waiting[g] > 0))) {
      s.booked[g] += span;
      return;
    }
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (groups[g].role != Role::prefetch && s.waiting[g] > 0) {
      s.bubble += span;
      return;
    }
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (groups[g].role == Role::prefetch && (s.running[g] > 0 || s.waiting[g] > 0)) {
      s.booked[g] += span;
      return;
    }
  s.other += span;
}

Breakdown::State& Breakdown::state_at(Actor actor, Seconds now) {
  State& s = actors_.grown(actor);
  book(s, std::max(now.value, s.since));  // the parts of an interrupted interval began before
  return s;
}

void Breakdown::posted(const OpRun& run) {
  if (waits(run)) ++state_at(run.op->actor, run.posted).waiting[run.op->group];
}

void Breakdown::started(const OpRun& run) {
  // A receive may join a transfer under way: for its actor the time of joining counts, not the transfer's start.
  State& s = state_at(run.op->actor, std::max(run.started, run.posted));
  if (waits(run)) --s.waiting[run.op->group];
  if (run.interval)
    s.interval = run.interval;
  else
    ++s.running[run.op->group];
  if (run.launch.wait.value > 0) s.host_until = s.since + run.launch.wait.value;
}

void Breakdown::finished(const OpRun& run) {
  State& s = state_at(run.op->actor, run.ended);
  if (run.interval)
    s.interval = nullptr;
  else
    --(run.began ? s.running : s.waiting)[run.op->group];
  s.end = run.ended.value;
}

Seconds Breakdown::end(Actor actor) const {
  const State* found = actors_.find(actor);
  return Seconds{found ? found->end : 0};
}

Actor Breakdown::last(std::size_t actors) const {
  Actor last = 0;
  for (Actor a = 1; position(a) < std::min(actors, actors_.size()); ++a)
    if (actors_[a].end > actors_[last].end) last = a;
  return last;
}

BreakdownParts Breakdown::parts(Actor actor) const {
  const std::vector<double> to = booked(actor);
  return to.empty() ? BreakdownParts{} : parts_between({}, to);
}

std::vector<double> Breakdown::booked(Actor actor) const {
  const State* s = actors_.find(actor);
  if (!s) return {};
  std::vector<double> numbers{s->end, s->host_wait, s->bubble, s->other};
  numbers.insert(numbers.end(), s->booked, s->booked + names_.groups().size());
  return numbers;
}

BreakdownParts Breakdown::parts_between(const std::vector<double>& from, const std::vector<double>& to) const {
  const auto part = [&](std::size_t i) { return Seconds{i < from.size() ? to[i] - from[i] : to[i]}; };
  BreakdownParts result{part(0), {}, {}, part(1), part(2), part(3)};
  const std::vector<Group>& groups = names_.groups();
  constexpr std::size_t kBeforeGroups = 4;
  for (std::size_t i = kBeforeGroups; i < to.size(); ++i) {
    const Group& group = groups[i - kBeforeGroups];
    (group.role == Role::work ? result.work : result.exposed)[group.name] = part(i);
  }
  return result;
}

}  // namespace trainyard
