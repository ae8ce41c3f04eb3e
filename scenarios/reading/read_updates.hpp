#pragma once
#include "scenarios/reading/parallel.hpp"

namespace trainyard {

/// Reads of `plan.data_parallel` what lets replicas go on without the newest gradients of all others: `delay: STEPS`,
/// `local_steps: STEPS`, or `gossip: ring | torus | pairs` (`{topology, seed}`, `{edges: [[0, 1], …]}`). Throws UserError
/// with the place for what does not go together, and for a graph that leaves ranks out.
ReplicaUpdates read_updates(Fields& data_parallel, const ParallelChoice&);

/// What replicas do comes again after so many steps: local steps and an average, or delayed updates that share the wires.
int turns_of(const ReplicaUpdates&);

/// "updates 2 steps late"; "" for none.
std::string in_words(const ReplicaUpdates&);

}  // namespace trainyard
