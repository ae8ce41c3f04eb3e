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

/// Parameter servers reduced to what a lecture draws: workers and servers, each on a device of its own with one link
/// (or where it is said); workers compute so long, push so many bytes, and are answered.
struct ServerCell {
  int workers = 1, servers = 1, keys = 1, steps = 1;
  Bytes gradient;                ///< of all keys, which are of one size
  std::vector<Bytes> key_sizes;  ///< instead of `keys` and `gradient`: keys of unlike sizes, in their order
  KeySharding sharding = KeySharding::balanced;
  std::optional<Network> network;  ///< instead of both: a key a tensor
  Seconds compute;
  Seconds apply;  ///< a server, per push of all its keys (or sum of them); sums take no time
  BytesPerSecond link{1e9};
  std::vector<double> slower;                       ///< by worker: so many times
  bool pulls = true;                                ///< false: weights take no bytes
  std::vector<std::pair<Actor, Seconds>> failures;  ///< who dies when
  bool values = false;
  std::optional<ClusterSpec> cluster;       ///< another than devices of one link each
  std::vector<Actor> places;                ///< on that one: by worker, then by server
  std::function<void(ServerPlan&)> change;  ///< what else is to be said of the plan
};

/// One run of it. The cell is copied.
class ServerCellRun {
 public:
  explicit ServerCellRun(const ServerCell&);
  /// Throws Deadlock once nothing goes on any more but not all has been done.
  void run(const std::vector<Observer*>& = {});

  const ServerPlan& plan() const { return plan_; }
  const ServerBoard& board() const { return *board_; }
  const Names& names() const { return names_; }
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
