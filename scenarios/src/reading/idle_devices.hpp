#pragma once
#include "scenarios/src/reading/plan_choice.hpp"

namespace trainyard {

/// Devices of the cluster without work: neither ranks nor servers are on them, nor on their nodes. They are refused unless
/// the plan says `idle_devices: allowed`.
int idle_devices(const PlanChoice&, const ClusterSpec&);

}  // namespace trainyard
