#pragma once
#include <vector>

#include "strategies/mechanisms/servers/server_values.hpp"

namespace trainyard::test {

/// A training with parameter servers step by step, by plain SGD and by whoever knows nothing of programs and time: only
/// the order of events. Each gradient is computed from the weights that were pulled, whole. All weights at the end.
Eigen::VectorXd replay_servers(const TrainingTask&, const ServerPlan&, const std::vector<ServerEvent>&);

}  // namespace trainyard::test
