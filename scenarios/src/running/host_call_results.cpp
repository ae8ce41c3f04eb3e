#include "scenarios/src/running/step_result.hpp"
#include "scenarios/src/running/step_run.hpp"

namespace trainyard {

void book_host_calls(const StepRun& run, Result& r) {
  if (!run.host_calls) return;
  const Actor rank = r.breakdown.rank;
  const HostCallCount::Calls& calls = run.host_calls->calls(run.actor_of_rank(rank));
  const double steps = run.plan.steps;
  Result::HostCalls& host = r.host_calls.emplace();
  host.rank = rank;
  host.compiled = run.scenario.cluster.type_of_gpu(rank).gpu.kind == ChipKind::tpu;
  host.kernels = calls.kernels / steps;
  host.exchanges = calls.exchanges / steps;
  host.copies = calls.copies / steps;
  host.all = host.compiled ? 1 + calls.through_adapters / steps + host.copies
                           : calls.launches / steps + host.exchanges + host.copies;
}

}  // namespace trainyard
