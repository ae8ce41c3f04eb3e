#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/software/stack.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/folding/fold.hpp"
#include "strategies/collectives/collective_program.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

class ClusterMachine;
class Observer;
class Values;

/// One collective on a cluster, on ranks 0 … ranks−1, with its values.
struct CollectiveRunOptions {
  int ranks = 2;
  Operation operation = Operation::all_reduce;
  std::string algorithm = "ring";
  CollectiveOptions options;
  /// What each rank puts in: of an all-gather or gather its block, of a broadcast or scatter only the root's counts.
  /// Empty: times only. Not with fidelities other than messages.
  std::vector<std::vector<double>> values;
  /// The actors of the group, in order; empty: ranks 0 … ranks−1.
  std::vector<Actor> members;
  /// Several groups of `ranks` actors that do it at the same time, instead of `members`. Values are of the first.
  std::vector<std::vector<Actor>> groups;
  bool keep_steps = true;  ///< with values: buffers after every step
  /// Of times only: members that are alike are simulated once.
  Folding folding = Folding::automatic;
  SoftwareStack software;  ///< default: none
  TransportKind transport = kDefaultTransport;
  Bytes port_buffer = {};  ///< by packets: see PacketNetwork
  /// Called before the run with its parts, by whoever wants to see more of it: adds observers. Where `values` is empty,
  /// it may fill the buffers and have them observe too; hazards are reported then.
  std::function<void(std::vector<Observer*>&, Values&, const ClusterMachine&)> watch;
};

struct CollectiveRun {
  double time = 0;                     ///< s
  std::vector<double> sent, received;  ///< bytes, by rank (of the first group)
  double total = 0;                    ///< bytes of all messages
  double crossings = 0;                ///< bytes over all cables between nodes: of each message as often as it crosses
  std::vector<std::vector<double>> values;  ///< what each rank gets; empty where it gets nothing
  std::vector<std::vector<double>> inputs;  ///< out of place: what each rank put in, afterwards
  /// steps[k][rank]: the data buffer after the rank's k-th receive (and the work that belongs to it).
  std::vector<std::vector<std::vector<double>>> steps;
  std::vector<std::string> hazards;
  std::uint64_t messages = 0;
  std::map<std::string, double> links;  ///< bytes by link, of those that carried any
  std::string busiest_device;           ///< an end of the link that carried most bytes
};

/// As it is asked for. Throws UserError for groups that cannot be.
CollectiveRun run_collective_here(const ClusterSpec&, const CollectiveRunOptions&);
/// The same; a deadlock is told rank by rank.
CollectiveRun run_collective(const ClusterSpec&, const CollectiveRunOptions&);

}  // namespace trainyard
