#pragma once
#include <nlohmann/json_fwd.hpp>

#include "sim/observers/memory_use.hpp"

namespace trainyard {

class StepRun;

/// Simulated ranks over time, for a page that zooms: of a run that recorded every operation, whose `memory` was kept over
/// time. Of many ranks those are taken that end last, hold most, or begin a pipeline stage; bars too short to be seen are
/// joined until some 100,000 are left.
nlohmann::ordered_json step_timeline(const StepRun&, const MemoryUse& memory);

}  // namespace trainyard
