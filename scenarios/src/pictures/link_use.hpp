#pragma once
#include <nlohmann/json_fwd.hpp>

namespace trainyard {

class StepRun;

/// What links carry in a step: a drawing of one node with the share of time that each cable is busy, and a row for each
/// class of equal links (`kind`, `from`, `to`, `count`, `rate_Bps`, `bytes` a step of all, `busy_mean`, `busy_max`).
nlohmann::ordered_json link_use(const StepRun&);

}  // namespace trainyard
