#pragma once
#include <string>
#include <vector>

#include "scenarios/planning/plan.hpp"
#include "scenarios/running/result.hpp"
#include "scenarios/running/simulate_options.hpp"

namespace trainyard {

/// Programs, machine and observers put together and run, in this process. One simulation a process: use the next two.
Result simulate_here(const Scenario&, const Plan&, const SimulateOptions&);
Result simulate_here(const Scenario&, const SimulateOptions&);
/// In a forked child; a prescribed step is not simulated. Failures are another study's (see `answer`).
Result simulate(const Scenario&, const Plan&, const SimulateOptions& = {});
/// Laid out, then simulated.
Result simulate(const Scenario&, const SimulateOptions& = {});

/// Each resource class `factor` times faster, simulated again; side by side on the processors there are.
std::vector<WhatIf> what_if(const Scenario&, const Plan&, double factor = 2, TransportKind = kDefaultTransport);

/// One step of the critical path, in words.
struct PathLine {
  double begin = 0, end = 0;
  std::string actor, name, resource;
};
struct Explanation {
  Result result;
  std::vector<PathLine> path;  ///< neighbours with one name, actor and resource joined
  bool in_step = true;         ///< false: workers do not do each step together, and there is no path of one
};
Explanation explain(const Scenario&, const Plan&);

}  // namespace trainyard
