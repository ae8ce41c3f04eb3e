#include "scenarios/studies/answer.hpp"

#include "scenarios/studies/failure_study.hpp"

namespace trainyard {
namespace {

Result with_failures(Result r, const Scenario& s) {
  if (s.failures.given()) r.failures = study_failures(s, Seconds{r.step_time});
  return r;
}

}  // namespace

Result answer(const Scenario& s, const Plan& plan, const SimulateOptions& options) {
  return with_failures(simulate(s, plan, options), s);
}

Result answer(const Scenario& s, const SimulateOptions& options) { return with_failures(simulate(s, options), s); }

}  // namespace trainyard
