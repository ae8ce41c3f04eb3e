#pragma once
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// Throws UserError for keys that a post-training loop does not have.
void require_loop(Fields& root, Fields& plan);

/// Returns the machine of the loop: the nodes that train, those of a critic, and after them those that generate.
ClusterSpec loop_machine(const Scenario&);

/// Reads the failures, checkpoints and restarts of a loop. Components are counted on the whole machine. Throws UserError
/// for what is not modelled with a loop.
FailureChoice read_loop_failures(Fields& faults, const Scenario&, const Catalog&);

}  // namespace trainyard
