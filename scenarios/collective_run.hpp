#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "strategies/collective_program.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// One collective on a cluster, on ranks 0 … ranks−1, with its values.
struct CollectiveRunOptions {
  int ranks = 2;
  std::string algorithm = "ring";
  CollectiveOptions options;
  /// Values of buffer 0 of every rank at the start; empty: times only.
  std::vector<std::vector<double>> values;
  /// The actors of the group, in order; empty: ranks 0 … ranks−1.
  std::vector<Actor> members;
};

struct CollectiveRun {
  double time = 0;                          ///< s
  std::vector<double> sent, received;       ///< bytes, by rank
  double total = 0;                         ///< bytes of all messages
  std::vector<std::vector<double>> values;  ///< at the end, by rank
  /// steps[k][rank]: the buffer after the rank's k-th receive (and the work that belongs to it).
  std::vector<std::vector<std::vector<double>>> steps;
  std::vector<std::string> hazards;
  std::uint64_t messages = 0;
  std::string busiest_device;  ///< an end of the link that carried most bytes
};

/// Runs in this process; see `Simulation`.
CollectiveRun run_collective_here(const ClusterSpec&, const CollectiveRunOptions&);
/// In a forked child.
CollectiveRun run_collective(const ClusterSpec&, const CollectiveRunOptions&);

}  // namespace trainyard
