#include "scenarios/src/studies/failures/failure_what_ifs.hpp"

#include <fmt/format.h>

#include <functional>

#include "scenarios/src/studies/failures/failure_study.hpp"

namespace trainyard {
namespace {

/// Returns the scenario with the known costs of its checkpoints, and without the search for the best interval.
Scenario with_known_costs(const Scenario& s, const FailureResult& study) {
  Scenario scenario = s;
  scenario.failures.find_best = false;
  if (!scenario.failures.checkpoints) return scenario;
  scenario.failures.store.reset();
  scenario.failures.local = false;
  scenario.failures.write = study.checkpoint.write;
  scenario.failures.load = study.checkpoint.load;
  if (scenario.failures.asynchronous) scenario.failures.snapshot = study.checkpoint.stall;
  return scenario;
}

}  // namespace

std::vector<FailureWhatIf> failure_what_ifs(const Scenario& s, Seconds step, const FailureResult& study,
                                            double factor) {
  const Scenario scenario = with_known_costs(s, study);
  std::vector<FailureWhatIf> table;
  const auto run_again = [&](const std::string& change, const std::function<void(FailureChoice&)>& apply) {
    Scenario changed = scenario;
    apply(changed.failures);
    try {
      const FailureResult again = study_failures(changed, step);
      table.push_back({change, again.goodput, again.effective_step_time()});
    } catch (const UserError& e) {  // for example, the faster training ends before a set failure
      table.push_back({change, 0, Seconds{}, e.what()});
    }
  };
  const FailureChoice& choice = s.failures;
  for (std::size_t i = 0; i < choice.parts.size() && choice.parts.size() > 1; ++i)
    run_again(fmt::format("{} failures {:g} x rarer", choice.parts[i].name, factor),
              [i, factor](FailureChoice& c) { c.parts[i].mtbf = c.parts[i].mtbf * factor; });
  if (!choice.parts.empty())
    run_again(fmt::format("all failures {:g} x rarer", factor), [factor](FailureChoice& c) {
      for (FailingParts& part : c.parts) part.mtbf = part.mtbf * factor;
    });
  if ((choice.recovery.detect + choice.recovery.restart).value > 0)
    run_again(fmt::format("detected and restarted {:g} x faster", factor), [factor](FailureChoice& c) {
      c.recovery.detect = c.recovery.detect / factor;
      c.recovery.restart = c.recovery.restart / factor;
    });
  if (!choice.checkpoints) return table;
  run_again(fmt::format("checkpoints {:g} x faster", factor), [factor](FailureChoice& c) {
    for (std::optional<Seconds>* time : {&c.snapshot, &c.write, &c.load})
      if (*time) *time = **time / factor;
  });
  if (!choice.optimal && study.checkpoint.best.simulated.value > 0)
    run_again(fmt::format("a checkpoint every {}", long_time(step * study.checkpoint.best.steps)),
              [&study](FailureChoice& c) {
                c.interval_steps = study.checkpoint.best.steps;
                c.every_time = Seconds{};
                c.virtual_epochs = 0;
              });
  return table;
}

void add_goodput(std::vector<WhatIf>& table, const Scenario& s, const FailureResult& study) {
  Scenario scenario = with_known_costs(s, study);
  for (WhatIf& change : table) try {
      scenario.prescribed_step.time = change.step_time;
      const FailureResult again = study_failures(scenario, scenario.prescribed_step.time);
      change.goodput = again.goodput;
      change.effective_step_time = again.effective_step_time();
    } catch (const UserError& e) {  // for example, the faster training ends before a set failure
      change.goodput_refused = e.what();
    }
}

}  // namespace trainyard
