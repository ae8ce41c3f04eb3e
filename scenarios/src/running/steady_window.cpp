#include "scenarios/src/running/steady_window.hpp"

#include <algorithm>

#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

void SteadyWindow::find(const StepSearch& search, Ends ends) {
  state_.emplace(search, steps_);
  ends_ = std::move(ends);
}

void SteadyWindow::finished(const OpRun& run) {
  if (run.op->kind != Kind::mark || run.op->name != step_over_ || enough_) return;
  const Actor actor = run.op->actor;
  if (position(actor) >= actors_.size()) actors_.resize(position(actor) + 1);
  State& s = actors_[position(actor)];
  s.ends.push_back(run.ended.value);
  s.booked.push_back(breakdown_.booked(actor));
  if (state_ && ends_step(actor, s.ends.size() - 1)) step_over(run);
}

/// Whether step number `step` of this actor completes a step of all.
bool SteadyWindow::ends_step(Actor actor, std::size_t step) {
  if (actor < ends_.first || actor >= ends_.end) return false;
  const int actors = ends_.end - ends_.first;
  if (!ends_.is_joint) return ++ended_ % static_cast<std::uint64_t>(actors) == 0;
  if (step > missing_.size()) missing_.resize(step, actors);
  return --missing_[step - 1] == 0;
}

void SteadyWindow::step_over(const OpRun& run) {
  overs_.push_back(run.ended.value);
  last_ = run.id;
  if (ends_.step_end) ends_.step_end();
  if (simulated_steps() <= warm_steps_) return;
  enough_ = state_->add(overs_.back() - overs_at(simulated_steps() - 1));
}

const SteadyWindow::State* SteadyWindow::find(Actor actor) const {
  return position(actor) < actors_.size() ? &actors_[position(actor)] : nullptr;
}

/// Returns the numbers of an actor's own steps after which the averaged steps begin and end. If the actor ended no step
/// in that time, its last step before counts.
std::pair<std::size_t, std::size_t> SteadyWindow::averaged_steps(const State& s) const {
  const std::size_t done = s.ends.size() - 1;
  if (!state_ || ends_.is_synchronous) {
    const std::size_t warm = std::min(position(warm_steps()), done);
    return {warm, std::min(warm + position(steps()), done)};
  }
  const auto ended_by = [&s](Seconds time) {
    return static_cast<std::size_t>(std::upper_bound(s.ends.begin(), s.ends.end(), time.value) - s.ends.begin()) - 1;
  };
  const std::size_t from = ended_by(begin()), to = ended_by(end());
  return {from == to && from > 0 ? from - 1 : from, to};
}

Seconds SteadyWindow::begin(Actor actor) const {
  const State* s = find(actor);
  return Seconds{s ? s->ends[averaged_steps(*s).first] : 0};
}

Seconds SteadyWindow::end(Actor actor) const {
  const State* s = find(actor);
  return s ? Seconds{s->ends[averaged_steps(*s).second]} : breakdown_.end(actor);
}

double SteadyWindow::own_steps(Actor actor) const {
  const State* s = find(actor);
  if (!s) return steps();
  const auto [from, to] = averaged_steps(*s);
  return static_cast<double>(std::max<std::size_t>(1, to - from));
}

BreakdownParts SteadyWindow::parts(Actor actor) const {
  const State* s = find(actor);
  if (!s) return breakdown_.parts(actor);
  const auto [from, to] = averaged_steps(*s);
  return breakdown_.parts_between(s->booked[from], s->booked[to]);
}

SteadyWindow::Step SteadyWindow::middle_step(Actor actor) const {
  const State* s = find(actor);
  if (!s) return {0, breakdown_.end(actor).value, breakdown_.parts(actor)};
  const auto [first, behind] = averaged_steps(*s);
  const std::size_t steps = std::max<std::size_t>(behind, first + 1) - first, from = first + (steps - 1) / 2;
  return {s->ends[from], s->ends[from + 1], breakdown_.parts_between(s->booked[from], s->booked[from + 1]),
          from - first + 1, steps};
}

}  // namespace trainyard
