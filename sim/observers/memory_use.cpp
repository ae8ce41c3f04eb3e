#include "sim/observers/memory_use.hpp"

#include <algorithm>

namespace trainyard {

void MemoryUse::change(const OpRun& run, double bytes, Seconds when) {
  if (bytes == 0) return;
  State& s = actors_.grown(run.op->actor);
  s.now[run.op->memory_class % kClasses] += bytes;
  s.total += bytes;
  if (s.total > s.peak) {
    s.peak = s.total;
    s.at_peak = s.now;
  }
  if (over_time_) s.samples.push_back({when.value, s.total});
}

// Taken at the start and given back at the end: an operation that frees memory needed it until then.
void MemoryUse::started(const OpRun& run) {
  const Memory& m = run.op->memory;
  change(run, std::max(0.0, m.change) + m.high_water, run.started);
}
void MemoryUse::finished(const OpRun& run) {
  if (!run.began) return;
  const Memory& m = run.op->memory;
  change(run, std::min(0.0, m.change) - m.high_water, run.ended);
}

Actor MemoryUse::highest() const {
  Actor highest = 0;
  for (Actor a = 1; a < actors_.end_id(); ++a)
    if (actors_[a].peak > actors_[highest].peak) highest = a;
  return highest;
}
Bytes MemoryUse::peak(Actor actor) const {
  const State* s = actors_.find(actor);
  return Bytes{s ? s->peak : 0};
}
Bytes MemoryUse::left(Actor actor) const {
  const State* s = actors_.find(actor);
  return Bytes{s ? s->total : 0};
}
MemoryUse::ByClass MemoryUse::parts_at_peak(Actor actor) const {
  const State* s = actors_.find(actor);
  return s ? s->at_peak : ByClass{};
}
const std::vector<MemoryUse::Sample>& MemoryUse::samples(Actor actor) const {
  static const std::vector<Sample> none;
  const State* s = actors_.find(actor);
  return s ? s->samples : none;
}

}  // namespace trainyard
