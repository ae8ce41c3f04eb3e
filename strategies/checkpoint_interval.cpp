#include "strategies/checkpoint_interval.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "sim/error.hpp"

namespace trainyard {
namespace {

constexpr int kTried = 25;
constexpr double kRange = 3;                                  ///< intervals from Daly's over this to Daly's times this
constexpr double kMostFailures = 4000, kLeastFailures = 400;  ///< that each run goes through, about
constexpr double kEvents = 2e5;                               ///< of each run, as far as the failures allow

/// ln of the losses over ln of the interval, as a polynomial: near its bottom the curve is smooth, and the noise of the
/// draws, which moves the bottom of the points themselves, averages out.
double bottom(const std::vector<double>& x, const std::vector<double>& y) {
  constexpr int kDegree = 4;
  const auto n = static_cast<Eigen::Index>(x.size());
  Eigen::MatrixXd powers(n, kDegree + 1);
  Eigen::VectorXd losses(n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (int d = 0; d <= kDegree; ++d) powers(i, d) = std::pow(x[static_cast<std::size_t>(i)], d);
    losses(i) = y[static_cast<std::size_t>(i)];
  }
  const Eigen::VectorXd c = powers.colPivHouseholderQr().solve(losses);
  double best = x.front(), least = HUGE_VAL;
  constexpr int kFine = 2000;
  for (int i = 0; i <= kFine; ++i) {
    const double at = x.front() + (x.back() - x.front()) * i / kFine;
    double value = 0;
    for (int d = kDegree; d >= 0; --d) value = value * at + c(d);
    if (value < least) {
      least = value;
      best = at;
    }
  }
  return best;
}

LongRunResult run_with(LongRunPlan plan, double every) {
  plan.checkpoint.every = every;
  return run_long(plan);
}

}  // namespace

Seconds young_interval(Seconds mtbf, Seconds cost) { return Seconds{std::sqrt(2 * mtbf.value * cost.value)}; }

Seconds daly_interval(Seconds mtbf, Seconds cost) {
  if (cost >= 2 * mtbf) return mtbf;
  const double ratio = cost.value / (2 * mtbf.value);
  return young_interval(mtbf, cost) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - cost;
}

BestInterval best_interval(const LongRunPlan& given) {
  const Seconds mtbf = time_between_failures(given.parts), cost = given.checkpoint.stall;
  if (mtbf.value <= 0 || cost.value <= 0)
    throw UserError(mtbf.value <= 0 ? "nothing fails at random: no interval of checkpoints is the best"
                                    : "a checkpoint stops nothing: the best interval is a step");
  BestInterval best;
  best.young = young_interval(mtbf, cost);
  best.daly = daly_interval(mtbf, cost);
  LongRunPlan plan = given;
  plan.failures.clear();
  plan.steps = 0;
  const double events = 2 * (mtbf / best.daly) + 2;  // from one failure to the next
  plan.until = std::clamp(kEvents / events, kLeastFailures, kMostFailures) * mtbf;
  std::vector<double> x, y;
  double last = 0;
  for (int i = 0; i < kTried; ++i) {
    const double share = 2.0 * i / (kTried - 1) - 1;
    const double steps = std::max(1.0, std::round(best.daly / plan.step * std::pow(kRange, share)));
    if (steps == last) continue;
    last = steps;
    const LongRunResult run = run_with(plan, steps);
    best.tried.push_back({plan.step * steps, run.goodput()});
    x.push_back(std::log(steps));
    y.push_back(std::log(1 / std::max(run.goodput(), 1e-300) - 1));
  }
  constexpr std::size_t kEnough = 12;  // fewer points are whole steps side by side: the best of them is the answer
  if (x.size() >= kEnough)
    best.steps = std::exp(bottom(x, y));
  else
    best.steps = std::exp(x[static_cast<std::size_t>(std::min_element(y.begin(), y.end()) - y.begin())]);
  best.simulated = plan.step * best.steps;
  best.steps = std::max(1.0, std::round(best.steps));
  best.goodput = run_with(plan, best.steps).goodput();
  return best;
}

}  // namespace trainyard
