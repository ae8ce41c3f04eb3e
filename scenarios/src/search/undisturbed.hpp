#pragma once
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

struct TrainingPlan;

/// Lower bounds of simulated times: a plan's own programs, on a machine on which nothing disturbs them.
///
/// One rank of each stage runs its program. A kernel takes what the fastest type of node takes. A collective takes what the
/// library's model says of idle links, and no rank waits for the others of its group; one that is not modelled takes no
/// time, and neither do messages between stages, to hosts and to drives. So whatever an operation waits for comes no
/// later than in the simulation.

/// No step is shorter, s. `plan`: its stages are laid out. Of training by all-reduce, in one step, without samples to wait
/// for.
double undisturbed_step(const Scenario&, TrainingPlan plan);

/// What the passes of rank 0 take, of kernels that have been launched, s: no rank of that plan ends its passes earlier after
/// it could begin them, and passes of several micro-batches add up. `plan`: of one stage; exchanges on lanes that are
/// not made take no time.
double undisturbed_passes(const Scenario&, TrainingPlan plan);

}  // namespace trainyard
