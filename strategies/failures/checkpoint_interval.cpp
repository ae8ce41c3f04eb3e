#include "strategies/failures/checkpoint_interval.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "sim/error.hpp"

namespace trainyard {
namespace {

constexpr int kTrials = 25;
constexpr double kRange = 3;  ///< intervals range from Daly's divided by this to Daly's times this
/// Approximate number of failures in each run; fewer if there are many checkpoints.
constexpr std::size_t kFailures = 10000;
constexpr double kMostCheckpoints = 1e6;  ///< largest number of checkpoints in a run
/// If there are at least this many checkpoints between two failures, Daly's interval is the best within about 1e-6:
/// the terms that it neglects are powers of their ratio.
constexpr double kManyCheckpoints = 300;
constexpr double kFurthest = 100;  ///< intervals that are nearly as good are searched up to the best one times this
constexpr double kIntervalRounding = 1e-9;
constexpr double kSpare = 256;  ///< a run may take at most this many times the steps between failures

/// Fits a polynomial to y, the logarithm of the losses, over x, the logarithm of the interval, and returns its
/// minimum. Near the minimum the curve is smooth, and the fit averages out the noise of the draws, which shifts the
/// minimum of the points themselves.
double bottom(const std::vector<double>& x, const std::vector<double>& y) {
  constexpr int kDegree = 4;
  // With x scaled to -1 … 1, powers are far enough from parallel for the normal equations.
  const double middle = (x.front() + x.back()) / 2, half = (x.back() - x.front()) / 2;
  Eigen::Matrix<double, kDegree + 1, kDegree + 1> squares = decltype(squares)::Zero();
  Eigen::Matrix<double, kDegree + 1, 1> products = decltype(products)::Zero(), powers;
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (int d = 0; d <= kDegree; ++d) powers(d) = std::pow((x[i] - middle) / half, d);
    squares.noalias() += powers * powers.transpose();
    products += powers * y[i];
  }
  const Eigen::Matrix<double, kDegree + 1, 1> c = squares.llt().solve(products);
  double best = x.front(), least = HUGE_VAL;
  constexpr int kFine = 2000;
  for (int i = 0; i <= kFine; ++i) {
    const double scaled = 2.0 * i / kFine - 1;
    double value = 0;
    for (int d = kDegree; d >= 0; --d) value = value * scaled + c(d);
    if (value < least) {
      least = value;
      best = middle + half * scaled;
    }
  }
  return best;
}

/// Draws whose first `failures` times between failures are spread evenly over their distribution, in random order.
/// Their averages are nearly exact, whereas those of independent draws are off by 1/sqrt(failures).
UniformDraws even_draws(std::size_t failures) {
  const UniformDraws draw = seeded_draws(1);
  std::vector<double> times(failures);
  for (std::size_t i = 0; i < failures; ++i) {
    const auto other = static_cast<std::size_t>(draw(2 * i) * static_cast<double>(i + 1));  // Fisher-Yates
    times[i] = times[other];
    times[other] = (static_cast<double>(i) + 0.5) / static_cast<double>(failures);
  }
  return [draw, times = std::move(times)](std::uint64_t counter) {
    return counter % 2 == 0 ? times[counter / 2 % times.size()] : draw(counter);
  };
}

/// Runs the plan with different intervals, always through the same failures.
class IntervalTrials {
 public:
  /// `checkpoints` is the expected number of checkpoints between two failures.
  IntervalTrials(const LongRunPlan& plan, Seconds mtbf, double checkpoints) : plan_(plan) {
    failures_ =
        static_cast<std::size_t>(std::clamp(kMostCheckpoints / checkpoints, 1.0, static_cast<double>(kFailures)));
    plan_.failures.clear();
    plan_.steps = 0;
    plan_.end_limit = static_cast<double>(failures_) * mtbf;
    plan_.draws = even_draws(failures_);
  }
  std::size_t failures() const { return failures_; }
  double goodput(double every) const {
    LongRunPlan plan = plan_;
    plan.checkpoint.interval_steps = every;
    return run_long(plan).goodput();
  }
  /// Returns the last number of steps between `best` and `end` whose goodput is nearly the best.
  double last_near(double best, double end, double best_goodput) const {
    if (goodput(end) >= best_goodput - kNearBest) return end;
    double near = best, far = end;
    while (std::abs(far - near) > 1 && std::abs(std::log(far / near)) > kFine) {
      const double middle = std::round(std::sqrt(near * far));
      if (middle == near || middle == far) break;
      (goodput(middle) >= best_goodput - kNearBest ? near : far) = middle;
    }
    return near;
  }

 private:
  static constexpr double kFine = 0.05;
  LongRunPlan plan_;
  std::size_t failures_ = 1;
};

/// Returns the plan with `stride` steps merged into one.
LongRunPlan in_strides(LongRunPlan plan, double stride) {
  plan.step = plan.step * stride;
  if (plan.step_with)
    plan.step_with = [step_time = plan.step_with, stride](int replicas) { return step_time(replicas) * stride; };
  return plan;
}

}  // namespace

Seconds young_interval(Seconds mtbf, Seconds cost) { return Seconds{std::sqrt(2 * mtbf.value * cost.value)}; }

Seconds daly_interval(Seconds mtbf, Seconds cost) {
  if (cost >= 2 * mtbf) return mtbf;
  const double ratio = cost.value / (2 * mtbf.value);
  return young_interval(mtbf, cost) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost;
}

Seconds time_between_losses(const std::vector<FailingParts>& parts, const Recovery& recovery) {
  std::vector<FailingParts> losing;
  for (const FailingParts& part : parts)
    if (part.workers == 0 && !part.survived && !(recovery.elastic && recovery.state_survives && part.takes_node))
      losing.push_back(part);
  return time_between_failures(losing);
}

BestInterval best_interval(const LongRunPlan& plan) {
  const Seconds mtbf = time_between_losses(plan.parts, plan.recovery), cost = plan.checkpoint.stall;
  if (mtbf.value <= 0 || cost.value <= 0)
    throw UserError(mtbf.value <= 0 ? "nothing that fails at random loses work: no interval of checkpoints is the best"
                                    : "a checkpoint stops nothing: the best interval is a step");
  // The failures may take more steps than a double can count. An interval then has very many steps, so steps are
  // merged.
  if (const double steps = kFailures * mtbf / plan.step; steps > kMostSteps / kSpare) {
    const double stride = std::exp2(std::ceil(std::log2(steps * kSpare / kMostSteps)));
    BestInterval best = best_interval(in_strides(plan, stride));
    best.steps *= stride;
    return best;
  }
  BestInterval best;
  best.young = young_interval(mtbf, cost);
  best.daly = daly_interval(mtbf, cost);
  best.shortest = plan.checkpoint.write - cost;
  const double least = std::max(1.0, std::ceil(best.shortest / plan.step * (1 - kIntervalRounding)));
  const Seconds about = std::max(best.daly, best.shortest);
  const double checkpoints = mtbf / about;
  const IntervalTrials interval_trials(plan, mtbf, checkpoints);
  std::vector<double> x, y;
  double last = 0;
  const int trials = checkpoints < kManyCheckpoints ? kTrials : 0;
  for (int i = 0; i < trials; ++i) {
    const double share = 2.0 * i / (kTrials - 1) - 1;
    const double steps = std::max(least, std::round(about / plan.step * std::pow(kRange, share)));
    if (steps == last) continue;
    last = steps;
    best.trials.push_back({plan.step * steps, interval_trials.goodput(steps)});
    x.push_back(std::log(steps));
    y.push_back(std::log(1 / std::max(best.trials.back().goodput, 1e-300) - 1));
  }
  constexpr std::size_t kEnough = 12;  // fewer points are adjacent whole steps: the best of them is the answer
  if (trials == 0) {
    const double fewer = std::max(least, std::floor(about / plan.step)), more = fewer + 1;
    best.steps = interval_trials.goodput(more) > interval_trials.goodput(fewer) ? more : fewer;
  } else if (x.size() >= kEnough) {
    best.steps = std::exp(bottom(x, y));
  } else {
    best.steps = std::exp(x[std::ranges::min_element(y) - y.begin()]);
  }
  best.simulated = plan.step * best.steps;
  best.steps = std::max(least, std::round(best.steps));
  best.goodput = interval_trials.goodput(best.steps);
  best.failures = static_cast<int>(interval_trials.failures());
  best.range_begin = plan.step * interval_trials.last_near(best.steps, least, best.goodput);
  best.range_end = plan.step * interval_trials.last_near(best.steps, best.steps * kFurthest, best.goodput);
  return best;
}

}  // namespace trainyard
