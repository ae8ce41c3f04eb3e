#pragma once
#include <vector>

#include "strategies/mechanisms/servers/server_values.hpp"

namespace trainyard::test {

/// Replays a training with parameter servers and plain SGD from the order of its events, without programs and time.
/// Each gradient is computed from all the weights that the worker had pulled. Returns all weights at the end.
Eigen::VectorXd replay_servers(const TrainingTask&, const ServerPlan&, const std::vector<ServerEvent>&);

}  // namespace trainyard::test
