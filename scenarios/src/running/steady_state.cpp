#include "scenarios/src/running/steady_state.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "sim/index.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kBatches = 20;      // batches of the batch means
constexpr std::size_t kFewestToCut = 10;  // fewest batches for MSER-5
constexpr std::size_t kFewestLeft = 5;    // fewest batches after a cut: the spread of fewer may be small by accident

/// Returns the 97.5 % quantile of Student's t: exact for one and two degrees of freedom; else the expansion about the
/// normal quantile, Abramowitz & Stegun 26.7.5, within 0.5 %.
double student_t(std::size_t degrees) {
  constexpr double p = 0.975, z = 1.959963985;
  if (degrees == 1) return std::tan(std::numbers::pi * (p - 0.5));
  if (degrees == 2) return (2 * p - 1) / std::sqrt(2 * p * (1 - p));
  const double n = static_cast<double>(degrees), z2 = z * z;
  return z * (1 + (z2 + 1) / (4 * n) + ((5 * z2 + 16) * z2 + 3) / (96 * n * n) +
              (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * n * n * n));
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double half_width(std::span<const double> values, std::size_t unit) {
  const std::size_t units = values.size() / unit, batches = std::min(units, kBatches);
  if (batches < 2) return HUGE_VAL;
  const double mean = mean_of(values);
  double squares = 0;
  for (std::size_t b = 0; b < batches; ++b) {
    const std::size_t from = b * units / batches * unit, to = (b + 1) * units / batches * unit;
    const double off = mean_of(values.subspan(from, to - from)) - mean;
    squares += off * off;
  }
  const auto n = static_cast<double>(batches);
  return student_t(batches - 1) * std::sqrt(squares / (n - 1) / n);
}

std::size_t warm_up(std::span<const double> values, std::size_t batch) {
  const std::size_t batches = values.size() / batch;
  if (batches < kFewestToCut) return 0;
  std::vector<double> means;
  for (std::size_t b = 0; b < batches; ++b) means.push_back(mean_of(values.subspan(b * batch, batch)));
  // Goes backwards, and updates mean and squared error of the rest by each batch (Welford 1962).
  double mean = 0, squares = 0, least = HUGE_VAL;
  std::size_t cut = 0;
  for (std::size_t b = batches; b-- > 0;) {
    const auto n = static_cast<double>(batches - b);
    const double off = means[b] - mean;
    mean += off / n;
    squares += off * (means[b] - mean);
    // If cuts are equal except for rounding, the first one counts.
    if (const double error = squares / (n * n); batches - b >= kFewestLeft && error <= least + 1e-20 * mean * mean) {
      least = std::min(least, error);
      cut = b;
    }
  }
  return cut * batch;
}

SteadyState::SteadyState(const StepSearch& search, int steps)
    : search_(search),
      steps_(steps),
      most_(most(search, steps)),
      check_(static_cast<std::size_t>(std::min(search.fewest, most_))) {}

int SteadyState::most(const StepSearch& search, int steps) {
  return search.is_given && search.finds_warm_up ? std::max(2 * steps, search.fewest) : steps;
}

bool SteadyState::add(double seconds) {
  seconds_.push_back(seconds);
  if (seconds_.size() < check_) return false;
  const std::size_t all = seconds_.size();
  const bool last = all >= static_cast<std::size_t>(most_);
  const std::size_t half = all / 2 / position(search_.batch) * position(search_.batch);
  const std::size_t cut = search_.finds_warm_up ? warm_up(seconds_, position(search_.batch)) : 0;
  warm_ = static_cast<int>(std::min(cut, half));
  if (search_.is_given) warm_ = std::max(warm_, static_cast<int>(all) - steps_);
  half_width_ = trainyard::half_width(std::span(seconds_).subspan(position(warm_)), position(search_.unit));
  const double mean = mean_of(std::span(seconds_).subspan(position(warm_)));
  const bool enough = search_.is_given ? steps() == steps_ : cut <= half && half_width_ <= kPrecision * mean;
  if (enough || last) return true;
  const std::size_t unit = position(search_.unit);
  check_ = search_.is_given ? position(warm_ + steps_) : (all + std::max(unit, all / 5)) / unit * unit;
  check_ = std::min(check_, static_cast<std::size_t>(most_));
  return false;
}

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

/// Returns true if step number `step` of this actor completes a step of all.
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
    return static_cast<std::size_t>(std::ranges::upper_bound(s.ends, time.value) - s.ends.begin()) - 1;
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
