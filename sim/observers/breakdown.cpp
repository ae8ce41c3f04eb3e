#include "sim/observers/breakdown.hpp"

#include <bit>

#include "sim/error.hpp"

namespace trainyard {
namespace {
bool waits(const OpRun& run) { return waits_for_others(run.op->kind); }
}  // namespace

Seconds BreakdownParts::all_joining() const {
  Seconds sum;
  for (const auto& [group, seconds] : joining) sum += seconds;
  return sum;
}

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
    change(s.running, s.runs, share.group, +1);
    book_span(s, s.interval->spent(share, until) - s.interval->spent(share, s.since));
    change(s.running, s.runs, share.group, -1);
  }
  s.since = until;
}

void Breakdown::find_roles() {
  const std::vector<Group>& groups = names_.groups();
  if (groups.size() > kGroups) throw InternalError("too many groups in one breakdown");
  for (; roles_.groups < groups.size(); ++roles_.groups) {
    const std::uint32_t bit = std::uint32_t{1} << roles_.groups;
    const Role role = groups[roles_.groups].role;
    if (role == Role::work) roles_.work |= bit;
    if (role == Role::collective) roles_.collective |= bit;
    if (role == Role::prefetch) roles_.prefetch |= bit;
  }
}

void Breakdown::book_span(State& s, double span) {
  if (span <= 0) return;
  if (roles_.groups < names_.groups().size()) find_roles();
  const auto book_first_of = [&s, span](std::uint32_t groups) {
    if (groups != 0) s.booked[std::countr_zero(groups)] += span;
    return groups != 0;
  };
  if (book_first_of(s.runs & roles_.work)) return;
  const std::uint32_t moving = s.runs & ~roles_.work & ~roles_.prefetch;
  if (book_first_of(moving | (s.waits & roles_.collective))) return;
  if (s.joins != 0) s.joined[std::countr_zero(s.joins)] += span;
  if (s.joins != 0 || (s.waits & ~roles_.prefetch) != 0) {
    s.bubble += span;
    return;
  }
  if (!book_first_of((s.runs | s.waits) & roles_.prefetch)) s.other += span;
}

void Breakdown::change(std::uint16_t (&numbers)[kGroups], std::uint32_t& bits, GroupId group, int by) {
  numbers[group] = static_cast<std::uint16_t>(numbers[group] + by);
  const std::uint32_t bit = std::uint32_t{1} << group;
  bits = numbers[group] > 0 ? bits | bit : bits & ~bit;
}

/// A collective that others have not begun is a wait for them. A message without its other half may belong to a
/// collective that all have begun, and a prefetch waits for nobody yet.
void Breakdown::change_waiting(State& s, const Op& op, int by) {
  if (op.kind == Kind::join && names_.groups()[op.group].role == Role::collective)
    change(s.joining, s.joins, op.group, by);
  else
    change(s.waiting, s.waits, op.group, by);
}

Breakdown::State& Breakdown::state_at(Actor actor, Seconds now) {
  State& s = actors_.grown(actor);
  if (now.value > s.since) book(s, now.value);  // the parts of an interrupted interval began before
  return s;
}

void Breakdown::posted(const OpRun& run) {
  if (!waits(run)) return;
  State& s = state_at(run.op->actor, run.posted);
  change_waiting(s, *run.op, +1);
}

void Breakdown::started(const OpRun& run) {
  // A receive may join a transfer under way: for its actor the time of joining counts, not the transfer's start.
  State& s = state_at(run.op->actor, std::max(run.started, run.posted));
  if (waits(run)) change_waiting(s, *run.op, -1);
  if (run.interval)
    s.interval = run.interval;
  else
    change(s.running, s.runs, run.op->group, +1);
  if (run.launch.wait.value > 0) s.host_until = s.since + run.launch.wait.value;
}

void Breakdown::finished(const OpRun& run) {
  State& s = state_at(run.op->actor, run.ended);
  if (run.interval)
    s.interval = nullptr;
  else if (run.began)
    change(s.running, s.runs, run.op->group, -1);
  else
    change_waiting(s, *run.op, -1);
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
  for (std::size_t g = 0; g < names_.groups().size(); ++g) {
    numbers.push_back(s->booked[g]);
    numbers.push_back(s->joined[g]);
  }
  return numbers;
}

BreakdownParts Breakdown::parts_between(const std::vector<double>& from, const std::vector<double>& to) const {
  const auto part = [&](std::size_t i) { return Seconds{i < from.size() ? to[i] - from[i] : to[i]}; };
  BreakdownParts result{part(0), {}, {}, part(1), part(2), part(3), {}};
  constexpr std::size_t kBeforeGroups = 4;
  for (std::size_t i = kBeforeGroups; i + 1 < to.size(); i += 2) {
    const Group& group = names_.groups()[(i - kBeforeGroups) / 2];
    (group.role == Role::work ? result.work : result.exposed)[group.name] = part(i);
    if (part(i + 1).value > 0) result.joining[group.name] = part(i + 1);
  }
  return result;
}

}  // namespace trainyard
