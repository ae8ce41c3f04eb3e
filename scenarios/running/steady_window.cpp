#include "scenarios/running/steady_window.hpp"

namespace trainyard {

void SteadyWindow::finished(const OpRun& run) {
  if (run.op->kind != Kind::mark || run.op->name != step_over_) return;
  const auto actor = static_cast<std::size_t>(run.op->actor);
  if (actor >= actors_.size()) actors_.resize(actor + 1);
  State& s = actors_[actor];
  ++s.steps;
  if (s.steps == warm_steps_) {
    s.begin = run.ended.value;
    s.before = breakdown_.parts(run.op->actor);
  }
  if (s.steps == warm_steps_ + steps_) {
    s.end = run.ended.value;
    s.after = breakdown_.parts(run.op->actor);
  }
}

Seconds SteadyWindow::begin(Actor actor) const {
  const auto a = static_cast<std::size_t>(actor);
  return Seconds{a < actors_.size() ? actors_[a].begin : 0};
}

Seconds SteadyWindow::end(Actor actor) const {
  const auto a = static_cast<std::size_t>(actor);
  return a < actors_.size() ? Seconds{actors_[a].end} : breakdown_.end(actor);
}

BreakdownParts SteadyWindow::parts(Actor actor) const {
  const auto a = static_cast<std::size_t>(actor);
  if (a >= actors_.size()) return breakdown_.parts(actor);
  BreakdownParts parts = actors_[a].after;
  const BreakdownParts& before = actors_[a].before;
  parts.total -= before.total;
  parts.bubble -= before.bubble;
  parts.other -= before.other;
  for (const auto& [group, seconds] : before.work) parts.work[group] -= seconds;
  for (const auto& [group, seconds] : before.exposed) parts.exposed[group] -= seconds;
  return parts;
}

}  // namespace trainyard
