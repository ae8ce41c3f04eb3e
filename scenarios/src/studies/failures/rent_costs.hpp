#pragma once

namespace trainyard {

struct Scenario;
struct Result;

/// Adds the cost of the whole training by each kind of rent that the prices have: on demand, by each reserved term, and on
/// spot nodes. Interruptions of spot nodes are failures of nodes, in addition to those of the scenario, and each costs the
/// work since the last checkpoint. Adds nothing if the training has no length or the prices have no such rents.
void book_rents(const Scenario&, Result&);

}  // namespace trainyard
