#include "scenarios/src/running/steady_state.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "scenarios/src/planning/plan.hpp"
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

}  // namespace trainyard
