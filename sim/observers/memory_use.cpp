#include "sim/observers/memory_use.hpp"

#include <algorithm>

namespace trainyard {
namespace {

bool changes_nothing(const OpRun& run) { return !run.interval && run.op->memory == Memory{}; }

// Allocated at the start and freed at the end: an operation that frees memory needs it until then.
double change_at_begin(const Memory& memory) { return std::max(0.0, memory.change) + memory.high_water; }
double change_at_end(const Memory& memory) { return std::min(0.0, memory.change) - memory.high_water; }

}  // namespace

void MemoryUse::add(State& s, std::size_t memory_class, double bytes) const {
  s.now[memory_class] += bytes;
  s.total += bytes;
  if (s.total > s.peak) {
    s.peak = s.total;
    s.at_peak = s.now;
  }
}

void MemoryUse::change(State& s, const Op& op, double bytes, double when) {
  if (bytes == 0) return;
  add(s, op.memory_class % kClasses, bytes);
  if (over_time_) s.samples.push_back({when, s.total});
}

void MemoryUse::begin(State& s, const Op& op, double when) { change(s, op, change_at_begin(op.memory), when); }
void MemoryUse::end(State& s, const Op& op, double when) { change(s, op, change_at_end(op.memory), when); }

const std::vector<MemoryUse::Turns>& MemoryUse::turns_of(const SeriesTimes& times) {
  const auto [entry, fresh] = turns_of_whole_.try_emplace(&times);
  std::vector<Turns>& turns = entry->second;
  for (std::size_t i = times.first; fresh && i < times.series->parts.size(); ++i) {
    const Op& part = times.series->parts[i].op;
    if (part.memory == Memory{}) continue;
    const Turns one{part.memory_class % kClasses, change_at_begin(part.memory), change_at_end(part.memory), 1};
    if (!turns.empty() && turns.back().memory_class == one.memory_class && turns.back().begin == one.begin &&
        turns.back().end == one.end)
      ++turns.back().parts;
    else
      turns.push_back(one);
  }
  return turns;
}

/// Books a series whose parts have all ended. If a part leaves the sums unchanged, equal parts after it do so too.
void MemoryUse::book_whole(State& s, const SeriesTimes& times) {
  for (const Turns& turns : turns_of(times))
    for (int part = 0; part < turns.parts; ++part) {
      const double now = s.now[turns.memory_class], total = s.total;
      add(s, turns.memory_class, turns.begin);
      add(s, turns.memory_class, turns.end);
      if (s.now[turns.memory_class] == now && s.total == total) break;
    }
}

/// Books what the parts of an interval have allocated and freed until `until`.
void MemoryUse::catch_up(State& s, double until) {
  for (; s.next < s.interval->last; ++s.next) {
    const Op& part = s.interval->part(s.next);
    if (part.memory == Memory{}) continue;
    if (!s.next_began) {
      if (s.interval->begin(s.next) > until) return;
      begin(s, part, until);
      s.next_began = true;
    }
    if (s.interval->end(s.next) > until) return;
    end(s, part, until);
    s.next_began = false;
  }
}

void MemoryUse::started(const OpRun& run) {
  if (changes_nothing(run)) return;
  State& s = actors_.grown(run.op->actor);
  if (run.interval) {
    s.interval = run.interval;
    s.next = run.interval->times->first;
    s.next_began = false;
    return;
  }
  if (s.interval) catch_up(s, run.started.value);
  begin(s, *run.op, run.started.value);
}
void MemoryUse::finished(const OpRun& run) {
  if (!run.began || changes_nothing(run)) return;
  State& s = actors_.grown(run.op->actor);
  const SeriesTimes* series = over_time_ ? nullptr : run.whole_series();
  if (series && s.next == series->first && !s.next_began) {
    book_whole(s, *series);
    s.interval = nullptr;
    return;
  }
  if (s.interval) catch_up(s, run.interval ? HUGE_VAL : run.ended.value);
  if (!run.interval) return end(s, *run.op, run.ended.value);
  // The interrupted part allocates its memory anew when it continues on its own.
  if (s.next_began) {
    const Op& part = s.interval->part(s.next);
    change(s, part, -std::max(0.0, part.memory.change) - part.memory.high_water, run.ended.value);
  }
  s.interval = nullptr;
}

Actor MemoryUse::highest() const {
  Actor highest = 0;
  for (Actor a = 1; a < actors_.end_id(); ++a)
    if (actors_[a].peak > actors_[highest].peak) highest = a;
  return highest;
}

const MemoryUse::State& MemoryUse::state(Actor actor) const {
  static const State none;
  const State* found = actors_.find(actor);
  return found ? *found : none;
}

}  // namespace trainyard
