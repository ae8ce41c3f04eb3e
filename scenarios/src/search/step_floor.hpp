#pragma once
#include "scenarios/src/search/pass_floors.hpp"

namespace trainyard {

/// A lower bound of a step's simulated time, s.
///
/// It is the same schedule with less to wait for, so that every event of the simulation comes no earlier than here:
/// - A rank runs the tasks of its stage in their order. A task begins after the one before, and after the task of the
///   neighbouring virtual stage whose message it needs; messages themselves take no time here.
/// - A task takes at least the sum of its layers' passes (`PassFloors`). At ZeRO stage 3 a layer's pass also waits for the
///   gather of its parameters, which is posted when an earlier pass begins and goes one after the other with others on
///   one stream (those that are posted before a task's first pass count as there), and for the exchange of gradients before the last.
/// - What is gathered ahead (stages 1 and 2) goes bucket by bucket from the step's beginning; the first passes of a stage
///   wait for it. Buckets of gradients leave one after the other, none before the backward pass of the layer that
///   completes it begins for the last time (without overlap: none before all tasks are over), and the optimizer comes
///   after all.
/// - Collectives take at least what the library's model says of an idle machine; nothing where there is no such model, or
///   where groups of ranks lie on nodes in different ways.
/// - A host that runs ahead of its GPU launches one kernel after the other, all of them before the optimizer's.
/// - The step ends when its last stage does.
///
/// `plan`: its stages are laid out. Of training by all-reduce, in one step, without samples to wait for.
double step_floor(const Scenario&, const TrainingPlan& plan, const PassFloors&);

/// Do all groups of each axis and of replicas lie on nodes in the same way?
bool groups_lie_alike(const Scenario&);

}  // namespace trainyard
