#pragma once
#include <nlohmann/json.hpp>
#include <vector>

#include "strategies/mechanisms/servers/server_plan.hpp"

namespace trainyard::test {

/// A small training by parameter servers, with numbers.
struct ServerTraining {
  int workers = 3, servers = 1, steps = 4, micro_batches = 1;
  Consistency consistency = Consistency::synchronous;
  int staleness = 0, backups = 0;
  bool overlap = true;
  double bucket = 40;  ///< bytes
  double jitter = 0;   ///< sigma of every worker's time
  std::uint64_t seed = 1;
  std::vector<double> lambdas = {};
  bool colocated = false;  ///< servers on the workers' devices
  Actor dies = -1;         ///< a worker that does
  double dies_s = 0;
  KeySharding sharding = KeySharding::balanced;
  KeySplit split = {};
  std::string rule = "optimizer";
  std::vector<int> nodes = {};  ///< workers by node, that aggregate there; empty: none do
  bool aggregator_on_cpu = true;
  std::string reduce = "binomial-tree", broadcast = "binomial-tree";
  int copies = 1;
  Replication::Forward forward = Replication::Forward::chain;
};

/// [difference to one device, difference to the replay, hazards, staleness, dropped pushes, end, finite, steps applied,
/// largest difference between a key and its copies]. A replay knows weights that servers update, for single workers.
nlohmann::json train_servers(const ServerTraining&);

/// In step: what one device learns, to 1e-12.
void check_equal(const ServerTraining&);
/// Out of step: what a replay of the events learns, bit for bit.
nlohmann::json check_replay(const ServerTraining&);

}  // namespace trainyard::test
