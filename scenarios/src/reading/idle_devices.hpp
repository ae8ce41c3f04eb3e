#pragma once
#include "scenarios/src/reading/plan_choice.hpp"

namespace trainyard {

/// Counts the devices of the cluster that have no work. Devices of a node with servers do not count. Idle devices are
/// an error unless the plan has `idle_devices: allowed`.
int idle_devices(const PlanChoice&, const ClusterSpec&);

}  // namespace trainyard
