#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "models/software/stack.hpp"
#include "scenarios/src/reading/slow_parts.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/folding/fold.hpp"
#include "strategies/collectives/collective_program.hpp"
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

class ClusterMachine;
class Observer;
class Values;

/// One collective on a cluster, by default on ranks 0 … ranks−1, with or without values.
struct CollectiveRunOptions {
  int ranks = 2;
  Operation operation = Operation::all_reduce;
  std::string algorithm = "ring";
  CollectiveOptions options;
  /// Input of each rank: its block for an all-gather or gather; for a broadcast or scatter only the root's input is
  /// used. Empty: only times. Needs the fidelity messages.
  std::vector<std::vector<double>> values;
  /// Actors of the group, in order; empty: ranks 0 … ranks−1.
  std::vector<Actor> members;
  /// Several groups of `ranks` actors that run the collective at the same time, instead of `members`. Values are those
  /// of the first group.
  std::vector<std::vector<Actor>> groups;
  bool keep_steps = true;  ///< with values: whether to keep the buffers after every step
  /// Without values, equivalent members may be simulated once.
  Folding folding = Folding::automatic;
  SoftwareStack software;  ///< default: no software costs
  TransportKind transport = kDefaultTransport;
  Bytes port_buffer = {};  ///< with packets: see PacketNetwork
  SlowParts slow = {};     ///< links with a lower rate for a time; not beside background traffic
  /// The run calls this function first, to add observers. If `values` is empty, the function may also fill the buffers
  /// and add them as an observer; then the run reports hazards.
  std::function<void(std::vector<Observer*>&, Values&, const ClusterMachine&)> watch;
};

struct CollectiveRun {
  double time = 0;                          ///< s
  std::vector<double> sent, received;       ///< bytes, by rank of the first group
  double total = 0;                         ///< bytes of all messages
  double crossings = 0;                     ///< bytes over cables between nodes, counted each time that they cross one
  std::vector<std::vector<double>> values;  ///< result of each rank; empty: the rank has none
  std::vector<std::vector<double>> inputs;  ///< out of place: the input buffer of each rank after the run
  /// steps[k][rank]: data buffer after the rank's k-th receive and the work that belongs to it.
  std::vector<std::vector<std::vector<double>>> steps;
  std::vector<std::string> hazards;
  std::uint64_t messages = 0;
  std::map<std::string, double> links;  ///< bytes by name of link; links without traffic are absent
  std::string busiest_device;           ///< device at an end of the link that carried most bytes
};

/// Runs a collective. Throws UserError for impossible groups.
CollectiveRun run_collective_here(const ClusterSpec&, const CollectiveRunOptions&);
/// Does the same. If a folded run ends in a deadlock, it runs again without folding, so that the error names real
/// ranks.
CollectiveRun run_collective(const ClusterSpec&, const CollectiveRunOptions&);

/// Times of a modelled collective on an otherwise idle machine. They equal those of run_collective, but routes are
/// found once for all sizes. Not for all-to-all, which has many pairs and is simulated folded.
class ModelledTimes {
 public:
  /// The collective runs on ranks 0 … ranks−1.
  ModelledTimes(const ClusterSpec&, const SoftwareStack&, Operation, const CollectiveSettings&, int ranks);

  Seconds time(Bytes size) const;

 private:
  Operation operation_;
  CollectiveSettings settings_;
  int ranks_;
  double seconds_per_byte_ = 0;  ///< time of a byte over an edge of weight 1, on the links with the highest load
};

}  // namespace trainyard
