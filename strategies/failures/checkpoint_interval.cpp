#include "strategies/failures/checkpoint_interval.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "sim/error.hpp"

namespace trainyard {
namespace {

constexpr int kTrials = 25;
constexpr double kRange = 3;              ///< intervals from Daly's over this to Daly's times this
constexpr std::size_t kFailures = 10000;  ///< that each run goes through, about; fewer where checkpoints are many …
constexpr double kMostCheckpoints = 1e6;  ///< … of a run
/// From so many checkpoints between two failures on, Daly's interval is the best to some 1e-6: what it leaves out are
/// powers of their ratio.
constexpr double kManyCheckpoints = 300;
constexpr double kFurthest = 100;  ///< times the best interval: as far as one that is nearly as good is sought
constexpr double kIntervalRounding = 1e-9;
constexpr double kSpare = 256;  ///< times the steps between failures that a run may take at most

/// ln of the losses over ln of the interval, as a polynomial: near its bottom the curve is smooth, and the noise of the
/// draws, which moves the bottom of the points themselves, averages out.
double bottom(const std::vector<double>& x, const std::vector<double>& y) {
  constexpr int kDegree = 4;
  // Powers of what runs from -1 to 1 are far enough from parallel for the normal equations.
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
    const double at = 2.0 * i / kFine - 1;
    double value = 0;
    for (int d = kDegree; d >= 0; --d) value = value * at + c(d);
    if (value < least) {
      least = value;
      best = middle + half * at;
    }
  }
  return best;
}

/// Draws whose first `failures` times between failures are spread evenly over their distribution, in a random order:
/// their averages are nearly the exact ones, where those of independent draws are off by 1/sqrt(failures).
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

/// The plan with one interval or another, always through the same failures.
class IntervalTrials {
 public:
  /// checkpoints: between two failures.
  IntervalTrials(const LongRunPlan& plan, Seconds mtbf, double checkpoints) : plan_(plan) {
    const auto failures =
        static_cast<std::size_t>(std::clamp(kMostCheckpoints / checkpoints, 1.0, static_cast<double>(kFailures)));
    plan_.failures.clear();
    plan_.steps = 0;
    plan_.until = static_cast<double>(failures) * mtbf;
    plan_.draws = even_draws(failures);
  }
  double goodput(double every) const {
    LongRunPlan plan = plan_;
    plan.checkpoint.every = every;
    return run_long(plan).goodput();
  }
  /// The last number of steps on the way from `best` to `end` that is nearly as good.
  double last_near(double best, double end, double goodput_there) const {
    if (goodput(end) >= goodput_there - kNearBest) return end;
    double near = best, far = end;
    while (std::abs(far - near) > 1 && std::abs(std::log(far / near)) > kFine) {
      const double middle = std::round(std::sqrt(near * far));
      if (middle == near || middle == far) break;
      (goodput(middle) >= goodput_there - kNearBest ? near : far) = middle;
    }
    return near;
  }

 private:
  static constexpr double kFine = 0.05;
  LongRunPlan plan_;
};

/// Several steps as one.
LongRunPlan in_strides(LongRunPlan plan, double stride) {
  plan.step = plan.step * stride;
  if (plan.step_with)
    plan.step_with = [of_one = plan.step_with, stride](int replicas) { return of_one(replicas) * stride; };
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

BestInterval best_interval(const LongRunPlan& given) {
  const Seconds mtbf = time_between_losses(given.parts, given.recovery), cost = given.checkpoint.stall;
  if (mtbf.value <= 0 || cost.value <= 0)
    throw UserError(mtbf.value <= 0 ? "nothing that fails at random loses work: no interval of checkpoints is the best"
                                    : "a checkpoint stops nothing: the best interval is a step");
  // So many failures may take more steps than can be counted; an interval has a great many of these then.
  if (const double steps = kFailures * mtbf / given.step; steps > kMostSteps / kSpare) {
    const double stride = std::exp2(std::ceil(std::log2(steps * kSpare / kMostSteps)));
    BestInterval best = best_interval(in_strides(given, stride));
    best.steps *= stride;
    return best;
  }
  BestInterval best;
  best.young = young_interval(mtbf, cost);
  best.daly = daly_interval(mtbf, cost);
  best.shortest = given.checkpoint.write - cost;
  const double least = std::max(1.0, std::ceil(best.shortest / given.step * (1 - kIntervalRounding)));
  const Seconds about = std::max(best.daly, best.shortest);
  const double checkpoints = mtbf / about;
  const IntervalTrials tries(given, mtbf, checkpoints);
  std::vector<double> x, y;
  double last = 0;
  const int trials = checkpoints < kManyCheckpoints ? kTrials : 0;
  for (int i = 0; i < trials; ++i) {
    const double share = 2.0 * i / (kTrials - 1) - 1;
    const double steps = std::max(least, std::round(about / given.step * std::pow(kRange, share)));
    if (steps == last) continue;
    last = steps;
    best.trials.push_back({given.step * steps, tries.goodput(steps)});
    x.push_back(std::log(steps));
    y.push_back(std::log(1 / std::max(best.trials.back().goodput, 1e-300) - 1));
  }
  constexpr std::size_t kEnough = 12;  // fewer points are whole steps side by side: the best of them is the answer
  if (trials == 0) {
    const double fewer = std::max(least, std::floor(about / given.step)), more = fewer + 1;
    best.steps = tries.goodput(more) > tries.goodput(fewer) ? more : fewer;
  } else if (x.size() >= kEnough) {
    best.steps = std::exp(bottom(x, y));
  } else {
    best.steps = std::exp(x[std::min_element(y.begin(), y.end()) - y.begin()]);
  }
  best.simulated = given.step * best.steps;
  best.steps = std::max(least, std::round(best.steps));
  best.goodput = tries.goodput(best.steps);
  best.from = given.step * tries.last_near(best.steps, least, best.goodput);
  best.until = given.step * tries.last_near(best.steps, best.steps * kFurthest, best.goodput);
  return best;
}

}  // namespace trainyard
