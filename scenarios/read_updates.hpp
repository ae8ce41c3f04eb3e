#pragma once
#include "scenarios/parallel.hpp"

namespace trainyard {

/// Reads of `plan.data_parallel` what lets replicas go on without the newest gradients of all others: `delay: STEPS`,
/// `local_steps: STEPS`, or `gossip: ring | torus | pairs` (`{topology, seed}`, `{edges: [[0, 1], …]}`). Throws UserError
/// with the place for what does not go together, and for a graph that leaves ranks out.
ReplicaUpdates read_updates(Fields& data_parallel, const ParallelChoice&);

/// Steps that a simulation takes where the plan does not say: one round of local steps, or enough for delayed updates to
/// come in turns; and those before, that are not looked at.
int steps_of(const ReplicaUpdates&);
int warm_steps_of(const ReplicaUpdates&);

/// "updates 2 steps late"; "" for none.
std::string in_words(const ReplicaUpdates&);

}  // namespace trainyard
