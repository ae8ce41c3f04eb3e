#pragma once
#include "scenarios/reading/scenario.hpp"

namespace trainyard {

/// The plan of a mesh without its groups: layers on stages, tasks, buckets, memory. Throws UserError.
TrainingPlan plan_of_mesh(const Scenario&, const BucketChoice&);

/// Everything that the programs of a scenario's step need, for its cluster and stack, or (what-if) for others. The
/// scenario must outlive it.
TrainingPlan prepared_plan(const Scenario&, const ClusterSpec&, const SoftwareStack&);
TrainingPlan prepared_plan(const Scenario&);

}  // namespace trainyard
