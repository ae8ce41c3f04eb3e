#include "scenarios/steady_window.hpp"

namespace trainyard {

void SteadyWindow::finished(const OpRun& run) {
  if (run.op->kind != Kind::mark || run.op->name != step_over_) return;
  const auto actor = static_cast<std::size_t>(run.op->actor);
  if (actor >= actors_.size()) actors_.resize(actor + 1);
  State& s = actors_[actor];
  if (++s.steps != warm_steps_) return;
  s.begin = run.ended.value;
  s.before = breakdown_.parts(run.op->actor);
}

Seconds SteadyWindow::begin(Actor actor) const {
  const auto a = static_cast<std::size_t>(actor);
  return Seconds{a < actors_.size() ? actors_[a].begin : 0};
}

BreakdownParts SteadyWindow::parts(Actor actor) const {
  BreakdownParts parts = breakdown_.parts(actor);
  const auto a = static_cast<std::size_t>(actor);
  if (a >= actors_.size()) return parts;
  const BreakdownParts& before = actors_[a].before;
  parts.total -= before.total;
  parts.bubble -= before.bubble;
  parts.other -= before.other;
  for (const auto& [group, seconds] : before.work) parts.work[group] -= seconds;
  for (const auto& [group, seconds] : before.exposed) parts.exposed[group] -= seconds;
  return parts;
}

}  // namespace trainyard
