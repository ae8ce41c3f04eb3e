#pragma once
#include <string>
#include <vector>

#include "models/software/stack.hpp"
#include "strategies/collectives/collective.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// What `algorithm: auto` tried.
struct Tuning {
  struct Candidate {
    const Collective* algorithm = nullptr;
    int channels = 1;
    double seconds = 0;  ///< of one collective alone
  };
  Operation operation = Operation::all_reduce;
  Bytes size;
  std::vector<Candidate> candidates;  ///< the fastest first; of equals, by name
  const Candidate& best() const { return candidates.front(); }
};

/// Simulates one collective of that size on the cluster's ranks 0 … ranks−1 with every algorithm that can do it (rings
/// also with a channel for each rank of a node), alone and message by message; groups over 256 ranks as flows where the
/// algorithm can be. `switches`: those in which switches take part too. Throws UserError where none can.
Tuning tune(Operation, Bytes, const ClusterSpec&, int ranks, const CollectiveSettings&, const SoftwareStack&,
            bool switches);

/// "auto: ring of 8 channels 1.2 ms (next: hierarchical 1.3 ms)".
std::string in_words(const Tuning&);

}  // namespace trainyard
