#pragma once
#include <map>
#include <vector>

#include "strategies/mechanisms/servers/server_plan.hpp"

namespace trainyard::test {

/// A small training with parameter servers, on values.
struct ServerTraining {
  int workers = 3, servers = 1, steps = 4, micro_batches = 1;
  Consistency consistency = Consistency::synchronous;
  int staleness = 0, backups = 0;
  bool overlap = true;
  double bucket = 40;  ///< size of a bucket in bytes
  double jitter = 0;   ///< sigma of the random slowdown of every worker's steps
  std::uint64_t seed = 1;
  std::vector<double> lambdas = {};
  bool colocated = false;  ///< servers are on the workers' devices
  Actor dies = -1;         ///< the worker that fails; −1: none
  double dies_s = 0;
  KeySharding sharding = KeySharding::balanced;
  KeySplit split = {};
  std::string rule = "optimizer";
  std::vector<int> nodes = {};  ///< number of workers of each node; empty: nodes do not aggregate locally
  bool aggregator_on_cpu = true;
  std::string reduce = "binomial-tree", broadcast = "binomial-tree";
  int copies = 1;
  Replication::Forward forward = Replication::Forward::chain;
};

struct ServerOutcome {
  double to_one_device = 0;  ///< largest difference of a parameter from the training on one device
  /// Largest difference of a parameter from the replay. There is a replay if servers update, workers push alone, and a
  /// step is one micro-batch; else 0.
  double to_replay = 0;
  bool has_hazards = false, is_finite = true;
  std::map<std::uint32_t, std::uint64_t> staleness;  ///< number of pushes by number of updates that they missed
  std::uint64_t dropped_pushes = 0;
  double end = 0;                  ///< in seconds
  std::vector<int> steps_applied;  ///< indexed by worker
  double between_copies = 0;       ///< largest difference between a key and its copies
};
ServerOutcome train_servers(const ServerTraining&);

/// Checks that a synchronous training learns the same as one device, to 1e-12.
void check_equal(const ServerTraining&);
/// Checks that a training with stale weights learns the same as a replay of its events, bit for bit.
ServerOutcome check_replay(const ServerTraining&);

}  // namespace trainyard::test
