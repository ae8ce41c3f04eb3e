#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/observer.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/placed_machine.hpp"
#include "topologies/machines/straggler_machine.hpp"

namespace trainyard {

/// Parameter servers as a lecture draws them. Workers and servers are each on a device of their own with one link (or
/// on a given cluster). Workers compute for a given time, push a given number of bytes, and get an answer.
struct ServerCell {
  int workers = 1, servers = 1, keys = 1, steps = 1;
  Bytes gradient;                ///< size of all keys together, which have one size
  std::vector<Bytes> key_sizes;  ///< instead of `keys` and `gradient`: the size of each key, in order
  KeySharding sharding = KeySharding::balanced;
  std::optional<Network> network;  ///< instead of both: a network with one key for each tensor
  Seconds compute;
  Seconds apply;  ///< time of a server per push of all its keys (or per sum of pushes); sums take no time
  BytesPerSecond link{1e9};
  std::vector<double> slower;                       ///< indexed by worker: factor on its compute time
  bool pulls = true;                                ///< false: weights take no bytes
  std::vector<std::pair<Actor, Seconds>> failures;  ///< actors that fail, and the times of their failures
  bool values = false;                              ///< whether messages carry values
  std::optional<ClusterSpec> cluster;               ///< No value: a star of devices with one link each
  std::vector<Actor> places;                        ///< device of each worker, then of each server, on `cluster`
  std::function<void(ServerPlan&)> change;          ///< makes further changes to the plan
};

/// A run of a copy of a server cell.
class ServerCellRun {
 public:
  explicit ServerCellRun(const ServerCell&);
  /// Throws Deadlock if nothing can go on although work is left.
  void run(const std::vector<Observer*>& = {});

  const ServerPlan& plan() const { return plan_; }
  const ServerBoard& board() const { return *board_; }
  Seconds end() const { return end_; }

 private:
  ServerPlan plan_;
  std::vector<std::pair<Actor, Seconds>> failures_;
  Names names_;
  ClusterMachine cluster_;
  PlacedMachine placed_;
  StragglerMachine machine_;
  std::unique_ptr<ServerBoard> board_;
  Seconds end_;
};

}  // namespace trainyard
