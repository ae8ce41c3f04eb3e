#include "scenarios/src/answer/failure_result.hpp"
#include "scenarios/src/answer/json_fields.hpp"

namespace trainyard {
namespace {

using Checkpoint = FailureResult::Checkpoint;

JsonFields<FailureResult::SetFailure> set_failure_fields() {
  using F = FailureResult::SetFailure;
  return JsonFields<F>()
      .value("component", "", &F::component, "component that failed, for example gpu 5")
      .value("at_s", "s", &F::time, "time of the failure, from the start of the training")
      .value("steps", "", &F::steps, "number of steps completed until then")
      .value("lost_steps", "", &F::lost_steps, "number of steps that the failure undid")
      .value("lost_work_s", "s", &F::lost_work, "time spent on the lost steps")
      .value("node_was_away", "", &F::node_was_away, "true: its node was already out of service, and nothing was lost");
}

JsonFields<FailureResult::Pool> pool_fields() {
  using P = FailureResult::Pool;
  return JsonFields<P>()
      .value("pool", "", &P::name, "training, generation, or all (all GPUs do both)")
      .value("gpus", "", &P::gpus, "number of its GPUs")
      .value("failures", "", &P::failures, "number of its failures in a loop")
      .value("lost_s", "s", &P::lost,
             "time of the loop lost to its failures and checkpoints; with the useful time and unfinished_step_s, these "
             "sum to training_time_s");
}

JsonFields<FailureResult::ReducedReplicas> reduced_replicas_fields() {
  using R = FailureResult::ReducedReplicas;
  return JsonFields<R>()
      .value("replicas", "", &R::replicas, "number of remaining replicas")
      .value("step_time_s", "s", &R::step_time, "step time with these replicas")
      .value("simulated", "", &R::simulated,
             "true: this step was simulated; false: it is scaled from the full step, as if the batch divided evenly");
}

JsonFields<BestInterval> best_interval_fields() {
  return JsonFields<BestInterval>()
      .value("young", "s", &BestInterval::young, "best interval by the formula of Young 1974")
      .value("daly", "s", &BestInterval::daly, "best interval by the formula of Daly 2006")
      .value("simulated", "s", &BestInterval::simulated, "interval at which simulated runs lose least")
      .value("shortest", "s", &BestInterval::shortest,
             "time to write one checkpoint: a shorter interval only waits for the write")
      .value("nearly_from", "s", &BestInterval::range_begin,
             "shortest interval with a goodput within 0.1 % of the best")
      .value("nearly_until", "s", &BestInterval::range_end, "longest interval with a goodput within 0.1 % of the best")
      .value("goodput", "share", &BestInterval::goodput, "goodput at the simulated best interval");
}

JsonFields<Checkpoint> checkpoint_fields() {
  return JsonFields<Checkpoint>()
      .value("bytes", "bytes", &Checkpoint::bytes, "size of a checkpoint of the whole model and optimizer")
      .value("storage", "", &Checkpoint::storage, "storage of checkpoints; empty: only times are given")
      .value("snapshot_s", "s", &Checkpoint::snapshot, "time of the copy from the GPUs to the memory of their hosts")
      .when([](const Checkpoint& c) { return c.snapshot.value > 0; }, "if it is given, or a storage is")
      .value("stall_s", "s", &Checkpoint::stall, "time for which a checkpoint stops training")
      .value("write_s", "s", &Checkpoint::write, "time until a checkpoint is written")
      .value("load_s", "s", &Checkpoint::load, "time to read a checkpoint")
      .object("best_interval_s", &Checkpoint::best, best_interval_fields(),
              "interval between checkpoints that costs least time")
      .when([](const Checkpoint& c) { return c.best.simulated.value > 0; }, "if an optimum was searched");
}

JsonFields<FailureResult> training_fields() {
  using F = FailureResult;
  return JsonFields<F>()
      .value("runs", "", &F::runs, "number of simulated trainings over which the figures are averaged")
      .value("count", "", &F::failures, "number of failures in a training")
      .value("by_component", "", &F::failures_of, "number of failures in a training, by kind of component")
      .value("time_between_s", "s", &F::time_between_failures, "mean time between failures of the whole cluster")
      .value("training_time_s", "s", &F::end,
             "length of all steps, including the cost of failures, without training_phases")
      .value("steps", "", &F::steps, "number of completed steps")
      .value("minibatches", "", &F::minibatches, "number of mini-batches of single replicas in the completed steps")
      .value("lost_minibatches", "", &F::lost_minibatches,
             "number of mini-batches that failures undid, including unfinished ones: each asynchronous worker that "
             "fails loses one")
      .value("effective_epochs", "", &F::effective_epochs, "passes over the data by the completed steps")
      .when([](const F& f) { return f.effective_epochs > 0; }, "if plan.training has epochs")
      .value("planned_epochs", "", &F::planned_epochs,
             "passes over the data that the same time allows without failures and checkpoints")
      .when([](const F& f) { return f.effective_epochs > 0; }, "if plan.training has epochs")
      .value("effective_step_time_s", "s", &F::effective_step_time,
             "training_time_s divided by the number of completed steps")
      .value("checkpoint_stall_s", "s", &F::stalled, "time for which training is stopped for checkpoints")
      .value("down_s", "s", &F::down, "time to detect failures, restart and read checkpoints")
      .value("waiting_for_repair_s", "s", &F::without_node,
             "time for which training is stopped until a node is repaired")
      .value("fewer_replicas_s", "s", &F::slower,
             "time that an elastic training loses because it runs with fewer replicas, and a post-training loop with "
             "fewer engines")
      .list("steps_of_fewer_replicas", &F::reduced_replicas, reduced_replicas_fields(),
            "step times of an elastic training that has lost replicas")
      .when([](const F& f) { return !f.reduced_replicas.empty(); }, "if replicas were lost")
      .list("pools", &F::pools, pool_fields(), "pools of GPUs of a post-training loop")
      .when([](const F& f) { return !f.pools.empty(); }, "with post_training")
      .value("waiting_for_engines_s", "s", &F::without_engines,
             "time for which training is stopped because no engine is left, with the step that this cuts short")
      .when([](const F& f) { return !f.pools.empty(); }, "with post_training")
      .value("unfinished_step_s", "s", &F::unfinished,
             "time of the unfinished step at the end: part of fewer_replicas_s")
      .when([](const F& f) { return !f.pools.empty(); }, "with post_training")
      .list("said", &F::set_failures, set_failure_fields(), "failures that the scenario lists, in its order")
      .when([](const F& f) { return !f.set_failures.empty(); }, "if it lists any");
}

}  // namespace

JsonFields<FailureResult> failure_fields() {
  using F = FailureResult;
  const auto checkpoints = [](const F& f) { return f.checkpoint.interval.value > 0; };
  return JsonFields<F>()
      .value("goodput", "share", &F::goodput,
             "useful share of the training time; the rest is lost to failures and checkpoints")
      .value("goodput_deviation", "share", &F::goodput_deviation, "standard deviation over the simulated trainings")
      .value("lost_work_s", "s", &F::lost_work, "time of work that failures undid and that was repeated")
      .value("lost_work_deviation_s", "s", &F::lost_work_deviation, "standard deviation over the simulated trainings")
      .object("failures", training_fields(), "failures of the training: means over the simulated trainings")
      .value(
          "checkpoint_interval_s", "s", [](auto& f) -> auto& { return f.checkpoint.interval; },
          "time between two checkpoints")
      .when(checkpoints, "with checkpoints")
      .object("checkpoint",
              JsonFields<F>()
                  .value("count", "", &F::checkpoints, "number of checkpoints in a training")
                  .inlined(&F::checkpoint, checkpoint_fields()),
              "size, times and best interval of checkpoints")
      .when(checkpoints, "with checkpoints");
}

JsonFields<FailureWhatIf> failure_what_if_fields() {
  using W = FailureWhatIf;
  return JsonFields<W>()
      .value("change", "", &W::change, "change in words")
      .value("goodput", "share", &W::goodput, "goodput with the change")
      .value("effective_step_time_s", "s", &W::effective_step_time,
             "training time divided by the number of completed steps");
}

}  // namespace trainyard
