#include "sim/observers/memory_use.hpp"

#include <algorithm>

namespace trainyard {
namespace {

bool changes_nothing(const OpRun& run) { return !run.interval && run.op->memory == Memory{}; }

}  // namespace

void MemoryUse::change(State& s, const Op& op, double bytes, double when) {
  if (bytes == 0) return;
  s.now[op.memory_class % kClasses] += bytes;
  s.total += bytes;
  if (s.total > s.peak) {
    s.peak = s.total;
    s.at_peak = s.now;
  }
  if (over_time_) s.samples.push_back({when, s.total});
}

// Allocated at the start and freed at the end: an operation that frees memory needs it until then.
void MemoryUse::begin(State& s, const Op& op, double when) {
  change(s, op, std::max(0.0, op.memory.change) + op.memory.high_water, when);
}
void MemoryUse::end(State& s, const Op& op, double when) {
  change(s, op, std::min(0.0, op.memory.change) - op.memory.high_water, when);
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
