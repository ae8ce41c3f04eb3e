#include "tools/reports/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/steady_state.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "tools/reports/report_lines.hpp"

namespace trainyard {
namespace {

/// The mean with its interval, "327.1 ± 2.9 ms": two digits of the interval, at most four of the mean.
std::string with_interval(const Result& r, Seconds mean_time, Seconds half_width) {
  const PartUnit unit = part_unit(r);
  const double mean = mean_time.value / unit.seconds, width = half_width.value / unit.seconds;
  const auto places = [](double v, int digits) { return digits - 1 - static_cast<int>(std::floor(std::log10(v))); };
  const int most = std::max(0, places(mean, 4)), decimals = width > 0 ? std::clamp(places(width, 2), 0, most) : most;
  return fmt::format("{:.{}f} ± {:.{}f} {}", mean, decimals, width, decimals, unit.name);
}

/// The steps of further draws, which a recurrence estimates.
std::string further_draws(const Result& r) {
  const PartUnit unit = part_unit(r);
  const DrawnSteps& drawn = *r.drawn_steps;
  return fmt::format("over {} further draws of a recurrence {} in the mean, {:.4g} to {:.4g} {} in 90 % of them",
                     drawn.draws, with_interval(r, drawn.mean, drawn.half_width), drawn.low.value / unit.seconds,
                     drawn.high.value / unit.seconds, unit.name);
}

std::string mean_in_words(const Scenario& s, const Plan& plan, const Result& r) {
  if (!r.step_time_interval && r.drawn_steps)
    return fmt::format("1 step is simulated: one draw; {}; plan.steps simulates more", further_draws(r));
  if (!r.step_time_interval)
    return fmt::format(
        "1 step is simulated: one draw, no mean; it has some {:.2g} operations, plan.steps simulates more",
        plan.operations.all);
  std::string text =
      fmt::format("{} (95 % confidence, {} steps{}", with_interval(r, r.step_time, *r.step_time_interval), r.steps,
                  s.plan.mechanism->is_synchronous() ? "" : " of each worker");
  text += r.warm_steps > 0 ? fmt::format(" after {} of warm-up)", r.warm_steps) : ")";
  if (!plan.search->is_given && *r.step_time_interval > kPrecision * r.step_time)
    text += fmt::format("; ± {} is not reached in the default number of steps: plan.steps simulates more",
                        percent(kPrecision, 0));
  if (r.drawn_steps) text += "; " + further_draws(r);
  return text;
}

}  // namespace

std::string steps_in_words(const Scenario& s, const Plan& plan, const Result& r) {
  if (r.steps == 1 && r.warm_steps == 0 && !plan.search) return "";
  std::string text =
      plan.search ? mean_in_words(s, plan, r) : fmt::format("averaged over {}", counted_noun(r.steps, "step"));
  if (!plan.search && s.plan.steps.value_or(0) > plan.training.steps)
    text += fmt::format(", since the {} that plan.steps says are alike", *s.plan.steps);
  if (!plan.search && r.warm_steps > 0) text += fmt::format(", after {} that are left out", r.warm_steps);
  if (const double wanted = steps_to_steady_state(s, plan.training); plan.warm_steps < wanted)
    text += fmt::format(" ({:.0f} would be sure to reach the staleness bound)", wanted);
  return text;
}

}  // namespace trainyard
