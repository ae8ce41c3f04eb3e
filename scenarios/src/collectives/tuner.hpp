#pragma once
#include <string>
#include <vector>

#include "models/software/stack.hpp"
#include "strategies/collectives/collective.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// The candidates of `algorithm: auto`, with their times.
struct Tuning {
  struct Candidate {
    const Collective* algorithm = nullptr;
    int channels = 1;
    double seconds = 0;  ///< time of one collective that runs alone
  };
  Operation operation = Operation::all_reduce;
  Bytes size;
  std::vector<Candidate> candidates;  ///< fastest first; equals by name
  const Candidate& best() const { return candidates.front(); }
};

/// Simulates one collective of this size, alone on the cluster's ranks 0 … ranks−1, with every algorithm that can run
/// it. It leaves out algorithms for teaching, algorithms that send 4 million messages or more, and algorithms in which
/// switches of the network take part. `switches`: it also tries algorithms in which NVSwitches take part. On several
/// nodes rings also run with one channel for each rank of a node. If the settings ask for flows, all candidates are
/// simulated as flows. Otherwise groups of more than 256 ranks are, if their algorithm allows it, and all others are
/// simulated message by message. Throws UserError if there is no candidate.
Tuning tune(Operation, Bytes, const ClusterSpec&, int ranks, const CollectiveSettings&, const SoftwareStack&,
            bool switches);

/// Describes the result: "all-reduce of 25 MiB: ring of 8 channels 1.2 ms, then hierarchical 1.3 ms (9 tried, each
/// alone)".
std::string in_words(const Tuning&);

}  // namespace trainyard
