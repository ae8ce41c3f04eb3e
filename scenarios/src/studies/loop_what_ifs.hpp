#pragma once
#include <vector>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/simulate_options.hpp"

namespace trainyard {

/// Simulates the loop again with one change at a time, as `run --set` does: each resource class of `what_if` `factor`
/// times faster (links of hosts only if the plan copies to them), the software of the loop, as many times the nodes of each half (colocated: all
/// nodes), and as many times the staleness that an asynchronous loop may have. Changes that the scenario refuses are
/// added to `refused`. `loop`: the scenario's own loop. Times are those of a step of the loop. `all` false: latencies and software
/// overheads are left out. Uses only transport and folding of the options.
std::vector<WhatIf> loop_what_ifs(const Scenario&, const PostTrainingResult& loop, double factor,
                                  const SimulateOptions&, bool all, std::vector<RefusedWhatIf>& refused);

/// Simulates engines that answer prompts again with one resource class `factor` times faster at a time, as `run --set`
/// does. Times are those until the last answer ends. Resources that change nothing (the host's software, links of hosts,
/// adapters of engines on one node) are left out, and latencies unless `all`. Changes that the scenario refuses are added to
/// `refused`.
std::vector<WhatIf> engine_what_ifs(const Scenario&, const GenerationResult&, double factor, bool all,
                                    std::vector<RefusedWhatIf>& refused);

/// Returns the resource class whose change saves most of the step, without additional nodes of colocated halves. Empty: no
/// change is worth naming.
std::string loop_bottleneck(const std::vector<WhatIf>&, Seconds step);

}  // namespace trainyard
