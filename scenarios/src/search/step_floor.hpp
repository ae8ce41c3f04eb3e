#pragma once
#include "scenarios/src/search/pass_floors.hpp"

namespace trainyard {

/// Returns a lower bound of a step's simulated time, s.
///
/// The bound is the time of the same schedule with fewer dependencies, so every event of the simulation comes no
/// earlier:
/// - A rank runs the tasks of its stage in order. A task begins after the task before it, and after the task of the
///   neighbouring virtual stage whose message it needs. Messages take no time here.
/// - A task takes at least the sum of its layers' passes (`PassFloors`). At ZeRO stage 3, a layer's pass also waits for
///   the gather of its parameters and for the previous exchange of gradients. A gather is posted when an earlier pass
///   begins; gathers run one after the other on one stream. Gathers that are posted before a task's first pass take no
///   time here.
/// - At ZeRO stages 1 and 2, parameters are gathered bucket by bucket from the beginning of the step. The first passes
///   of a stage wait for them. Gradient buckets are sent one after the other. A bucket is sent no earlier than the
///   begin of the last backward pass of the layer that completes it (without overlap: after all tasks). The optimizer
///   comes after all buckets.
/// - A collective takes at least the time of the library's model on an idle machine. It takes no time here if there is
///   no such model, or if groups of ranks lie on nodes in different ways.
/// - A host that runs ahead of its GPU launches kernels one after the other, those of a pass before the pass ends. Its
///   own work for a micro-batch comes before the passes that wait for no message. If it waits for messages, it launches
///   a pass that receives one no earlier than the pass can begin.
/// - The step ends when its last stage ends.
///
/// `plan` must have its stages laid out. It must train by all-reduce, in one step, without waiting for samples.
double step_floor(const Scenario&, const TrainingPlan& plan, const PassFloors&);

/// Returns true if all groups of each axis, and of replicas, lie on nodes in the same way.
bool groups_lie_alike(const Scenario&);

}  // namespace trainyard
