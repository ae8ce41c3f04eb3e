#include "scenarios/src/pictures/run_pictures.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/src/pictures/link_use.hpp"
#include "scenarios/src/pictures/step_timeline.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

ordered_json pictures_of(const StepRun& run, const MemoryUse& memory) {
  ordered_json all;
  if (run.records())
    all["timeline"] = step_timeline(run, memory);
  else
    all["left_out"] = fmt::format("{:.2g} million operations are too many to draw: fewer layers or micro-batches do",
                                  run.operations() * run.simulated_ranks() / run.scenario.ranks() * 1e-6);
  all["machine"] = link_use(run);
  return all;
}

}  // namespace

void draw_run(const Scenario& s, const Plan& laid_out, SimulateOptions& options,
              const std::shared_ptr<ordered_json>& pictures) {
  const auto memory = std::make_shared<std::optional<MemoryUse>>();
  options.observe.emplace_back([memory](const StepRun& run) { return &memory->emplace(run.records()); });
  options.path_pieces = true;
  // Ranks that are out of step have no path for whose sake operations would be kept.
  const bool in_step = s.plan.mechanism->in_step();
  (in_step || estimated_operations(laid_out) > kMostKept ? options.after : options.watch) =
      [memory, pictures](const StepRun& run) { *pictures = pictures_of(run, **memory); };
}

}  // namespace trainyard
