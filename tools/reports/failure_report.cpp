#include "sim/stable_sort.hpp"
#include "tools/reports/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "scenarios/src/reading/training_length.hpp"
#include "tools/reports/report_lines.hpp"

namespace trainyard {
namespace {

/// Explains why the simulated interval differs from Daly's; "" if it does not.
std::string disagreement(const BestInterval& best) {
  constexpr double kAgrees = 0.05;
  if (std::abs(best.simulated / best.daly - 1) <= kAgrees) return "";
  const Seconds step = best.simulated / best.steps;
  if (best.shortest > best.daly * (1 - kAgrees))
    return fmt::format("; a shorter one would wait {} for the write of the last", show(best.shortest));
  if (step > best.daly * kAgrees) return fmt::format("; it is a multiple of the step, {}", show(step));
  return "; Daly's formula knows nothing of spares, repairs and missing replicas";
}

/// Says why this goodput differs from that of the simulated trainings.
std::string other_draws(const BestInterval& best) {
  return best.failures == 1 ? " between two failures of other draws"
                            : fmt::format(" through about {} failures of other draws", counted(best.failures));
}

std::string best_interval_line(const FailureResult& study) {
  const BestInterval& best = study.checkpoint.best;
  std::string text = fmt::format("best interval: {} simulated (formulas: Young {}, Daly {}{}): goodput {:.2f} %{}",
                                 long_time(best.simulated), long_time(best.young), long_time(best.daly),
                                 disagreement(best), best.goodput * 100, other_draws(best));
  return text + fmt::format("; goodput is at most {:.1f} percentage points lower with intervals from {} to {}",
                            kNearBest * 100, long_time(best.range_begin), long_time(best.range_end));
}

/// A line for each failure that the scenario prescribes.
std::string set_failure_lines(const FailureResult& study) {
  constexpr std::size_t kShown = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, study.set_failures.size()); ++i) {
    const FailureResult::SetFailure& f = study.set_failures[i];
    text += fmt::format("{}{} after {}, {} done: ", report_label(""), f.component, long_time(f.time),
                        counted_noun(std::llround(f.steps), "step"));
    if (f.node_was_away)
      text += "its node was out of service already\n";
    else
      text += fmt::format("{} lost, {} of work\n", counted_noun(std::llround(f.lost_steps), "step"),
                          long_time(f.lost_work));
  }
  if (study.set_failures.size() > kShown)
    text += fmt::format("{}… and {} more (--json has all)\n", report_label(""), study.set_failures.size() - kShown);
  return text;
}

/// The step times of an elastic training without some of its replicas, simulated or estimated.
std::string reduced_replicas_line(const FailureResult& study) {
  constexpr std::size_t kShown = 4;
  if (study.reduced_replicas.empty()) return "";
  std::vector<std::string> steps;
  const auto simulated = std::ranges::count_if(study.reduced_replicas, [](const auto& f) { return f.simulated; });
  for (auto f = study.reduced_replicas.rbegin(); f != study.reduced_replicas.rend() && steps.size() < kShown; ++f)
    steps.push_back(fmt::format("{} with {} replicas{}", show(f->step_time), f->replicas, f->simulated ? "" : "*"));
  if (study.reduced_replicas.size() > kShown) steps.push_back("…");
  std::string text = fmt::format("{}a step takes {}", report_label("elastic"), fmt::join(steps, ", "));
  if (simulated < static_cast<std::ptrdiff_t>(study.reduced_replicas.size()))
    text += simulated > 0 ? "; * estimated as if the batch divided evenly"
                          : "; * estimated as if the batch divided evenly (the step time is given, the step is too "
                            "large, or the batch or the machine does not divide)";
  return text + "\n";
}

/// The failures and lost times of the pools of a loop.
std::string pool_line(const FailureResult& study) {
  if (study.pools.empty()) return "";
  std::vector<std::string> words;
  for (const FailureResult::Pool& pool : study.pools)
    words.push_back(fmt::format("{} ({} GPUs) {:.4g} failure{}, {} of the time lost", pool.name, pool.gpus,
                                pool.failures, pool.failures == 1 ? "" : "s",
                                percent(pool.lost.value / study.end.value, 2)));
  return report_label("pools") + fmt::format("{}", fmt::join(words, " · ")) + "\n";
}

}  // namespace

std::string failure_lines(const FailureResult& study) {
  const auto time = [](double seconds) { return long_time(Seconds{seconds}); };
  const auto share = [&study](double seconds) { return percent(seconds / study.end.value, 2); };
  std::string text = fmt::format("{}{:.2f} %", report_label("goodput"), study.goodput * 100);
  if (study.runs > 1)
    text += fmt::format(" ± {:.2f} points (standard deviation of {} simulated trainings)",
                        study.goodput_deviation * 100, study.runs);
  text += fmt::format(": {:.0f} steps in {}, {} each\n", study.steps, time(study.end.value),
                      show(study.effective_step_time()));
  text +=
      fmt::format("{}lost: repeated work {} · stops for checkpoints {} · detecting failures and restarting {}",
                  report_label(""), share(study.lost_work.value), share(study.stalled.value), share(study.down.value));
  if (study.without_node.value > 0) text += fmt::format(" · waiting for repair {}", share(study.without_node.value));
  constexpr double kShown = 5e-5;  // smallest share of the time that shows with two digits of a percentage
  if (study.slower.value > kShown * study.end.value)
    text += fmt::format(" · fewer {} {}", study.pools.empty() ? "replicas" : "engines", share(study.slower.value));
  if (study.without_engines.value > 0)
    text += fmt::format(" · waiting for engines {}", share(study.without_engines.value));
  text += "\n";
  // Counts have the same last digit. Only a mean below 0.05 has more digits.
  const auto mean_count = [&study](double count) {
    if (study.runs == 1 || count >= 999.95) return fmt::format("{:.0f}", count);
    return count < 0.05 ? fmt::format("{:.1g}", count) : fmt::format("{:.1f}", count);
  };
  std::vector<std::string> kinds;
  for (const auto& [kind, count] : study.failures_of) kinds.push_back(fmt::format("{} × {}", mean_count(count), kind));
  text += report_label("failures") + mean_count(study.failures);
  if (study.failures > 0)
    text +=
        fmt::format(", one every {}{}", time(study.end.value / study.failures), study.runs > 1 ? " on average" : "");
  else if (study.time_between_failures.value > 0)
    text += fmt::format("; the stated rates expect one every {}", time(study.time_between_failures.value));
  if (!kinds.empty()) text += fmt::format(" ({})", fmt::join(kinds, ", "));
  text += fmt::format("; {} work repeated",
                      study.lost_work.value > 0 ? time(study.lost_work.value) + " of" : std::string("no"));
  if (study.lost_minibatches > 0)
    text += fmt::format(", {} mini-batch{} of workers lost", mean_count(study.lost_minibatches),
                        study.lost_minibatches == 1 ? "" : "es");
  text += "\n";
  if (study.effective_epochs > 0)
    text += fmt::format("{}{:.4g} of the {:.4g} that training alone has in this time\n", report_label("epochs"),
                        study.effective_epochs, study.planned_epochs);
  text += pool_line(study) + set_failure_lines(study) + reduced_replicas_line(study);
  if (study.checkpoint.interval.value <= 0) return text;
  const bool behind = study.checkpoint.stall < study.checkpoint.write;
  text += fmt::format("{}every {}: {} {}; a write takes {}, of which training stops for {}{}; read back in {}\n",
                      report_label("checkpoint"), time(study.checkpoint.interval.value), show(study.checkpoint.bytes),
                      study.checkpoint.storage.empty() ? "in the given times" : "to " + study.checkpoint.storage,
                      show(study.checkpoint.write), show(study.checkpoint.stall),
                      behind ? ", the rest of the write is assumed not to slow it" : "", show(study.checkpoint.load));
  if (study.checkpoint.best.simulated.value > 0) text += report_label("") + best_interval_line(study) + "\n";
  return text;
}

std::string failure_what_if_table(const FailureResult& study, std::vector<FailureWhatIf> table) {
  const auto refused = std::ranges::stable_partition(table, &std::string::empty, &FailureWhatIf::refused);
  const std::vector<FailureWhatIf> impossible(refused.begin(), refused.end());
  table.erase(refused.begin(), refused.end());
  sort_stably(table, [](const auto& a, const auto& b) { return a.effective_step_time < b.effective_step_time; });
  std::string text = fmt::format("{:<38} {:>9} {:>18} {:>9}\n", "change", "goodput", "with failures", "saves");
  for (const FailureWhatIf& w : table)
    text +=
        fmt::format("{:<38} {:>7.2f} % {:>11} a step {:>9}\n", w.change, w.goodput * 100, show(w.effective_step_time),
                    percent(1 - w.effective_step_time.value / study.effective_step_time().value, 2));
  for (const FailureWhatIf& w : impossible) text += fmt::format("{} is not possible: {}\n", w.change, w.refused);
  return text;
}

}  // namespace trainyard
