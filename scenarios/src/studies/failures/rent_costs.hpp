#pragma once
#include <functional>

#include "scenarios/src/answer/failure_result.hpp"
#include "sim/units.hpp"

namespace trainyard {

struct Scenario;
struct Result;

/// Simulates the failures of a training whose steps take this time.
using FailureStudy = std::function<FailureResult(const Scenario&, Seconds)>;

/// Adds the cost of the whole training by each kind of rent that the prices have: on demand, by each reserved term, and on
/// spot nodes. Interruptions of spot nodes are failures of nodes, in addition to those of the scenario, and each costs the
/// work since the last checkpoint. Adds nothing if the training has no length or the prices have no such rents.
void book_rents(const Scenario&, Result&, const FailureStudy&);

}  // namespace trainyard
