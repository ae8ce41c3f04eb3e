#include "scenarios/src/answer/failure_result.hpp"
#include "scenarios/src/answer/json_fields.hpp"

namespace trainyard {
namespace {

using Checkpoint = FailureResult::Checkpoint;

JsonFields<FailureResult::SetFailure> set_failure_fields() {
  using F = FailureResult::SetFailure;
  return JsonFields<F>()
      .value("component", "", &F::component, "what failed, such as gpu 5")
      .value("at_s", "s", &F::at, "when, from the start of the training")
      .value("steps", "", &F::steps, "steps done until then")
      .value("lost_steps", "", &F::lost_steps, "steps lost with it")
      .value("lost_work_s", "s", &F::lost_work, "time spent on the lost steps")
      .value("node_was_away", "", &F::node_was_away, "its node was already out of service: nothing was lost");
}

JsonFields<FailureResult::ReducedReplicas> reduced_replicas_fields() {
  using R = FailureResult::ReducedReplicas;
  return JsonFields<R>()
      .value("replicas", "", &R::replicas, "replicas left")
      .value("step_time_s", "s", &R::step_time, "time of a step with these replicas")
      .value("simulated", "", &R::simulated, "false: scaled from the full step, as if the batch divided evenly");
}

JsonFields<BestInterval> best_interval_fields() {
  return JsonFields<BestInterval>()
      .value("young", "s", &BestInterval::young, "Young 1974")
      .value("daly", "s", &BestInterval::daly, "Daly 2006")
      .value("simulated", "s", &BestInterval::simulated, "the interval at which simulated runs lose least")
      .value("shortest", "s", &BestInterval::shortest,
             "the write of one checkpoint; shorter intervals only wait for it")
      .value("nearly_from", "s", &BestInterval::from, "goodput is within 0.1 % of the best from this interval")
      .value("nearly_until", "s", &BestInterval::until, "to this one")
      .value("goodput", "share", &BestInterval::goodput, "goodput at the simulated best interval");
}

JsonFields<Checkpoint> checkpoint_fields() {
  return JsonFields<Checkpoint>()
      .value("bytes", "bytes", &Checkpoint::bytes, "size of a checkpoint of the whole model and optimizer")
      .value("storage", "", &Checkpoint::storage, "where it is written; empty: only times are given")
      .value("stall_s", "s", &Checkpoint::stall, "how long a checkpoint stops training")
      .value("write_s", "s", &Checkpoint::write, "until it is written")
      .value("load_s", "s", &Checkpoint::load, "to read it again")
      .object("best_interval_s", &Checkpoint::best, best_interval_fields(), "the interval that costs least")
      .when([](const Checkpoint& c) { return c.best.simulated.value > 0; }, "where an optimum was searched");
}

JsonFields<FailureResult> training_fields() {
  using F = FailureResult;
  return JsonFields<F>()
      .value("runs", "", &F::runs, "simulated runs of the training that the figures are means of")
      .value("count", "", &F::failures, "failures of a run")
      .value("by_component", "", &F::failures_of, "failures of a run, by kind of component")
      .value("time_between_s", "s", &F::time_between_failures, "mean time between failures of the whole cluster")
      .value("training_time_s", "s", &F::end, "length of the training, with all that failures cost")
      .value("steps", "", &F::steps, "steps done")
      .value("effective_step_time_s", "s", &F::effective_step_time, "training time over steps done")
      .value("checkpoint_stall_s", "s", &F::stalled, "stopped for checkpoints")
      .value("down_s", "s", &F::down, "detecting failures, restarting, reading checkpoints")
      .value("waiting_for_repair_s", "s", &F::without_node, "stopped until a node is repaired")
      .value("fewer_replicas_s", "s", &F::slower, "lost because an elastic training ran with fewer replicas")
      .list("steps_of_fewer_replicas", &F::reduced_replicas, reduced_replicas_fields(),
            "steps of an elastic training that has lost replicas")
      .when([](const F& f) { return !f.reduced_replicas.empty(); }, "where replicas were lost")
      .list("said", &F::set_failures, set_failure_fields(), "the failures that the scenario sets, in its order")
      .when([](const F& f) { return !f.set_failures.empty(); }, "where it sets any");
}

}  // namespace

JsonFields<FailureResult> failure_fields() {
  using F = FailureResult;
  const auto checkpoints = [](const F& f) { return f.checkpoint.interval > 0; };
  return JsonFields<F>()
      .value("goodput", "share", &F::goodput,
             "useful share of the training time: the rest is lost to failures and "
             "checkpoints")
      .value("goodput_deviation", "share", &F::goodput_deviation, "its standard deviation over the runs")
      .value("lost_work_s", "s", &F::lost_work, "work that failures undid and that was done again")
      .value("lost_work_deviation_s", "s", &F::lost_work_deviation, "its standard deviation over the runs")
      .object("failures", training_fields(), "means over the runs of the training")
      .value(
          "checkpoint_interval_s", "s", [](auto& f) -> auto& { return f.checkpoint.interval; },
          "time between two checkpoints")
      .when(checkpoints, "with checkpoints")
      .object("checkpoint",
              JsonFields<F>()
                  .value("count", "", &F::checkpoints, "checkpoints of a run")
                  .inlined(&F::checkpoint, checkpoint_fields()),
              "a checkpoint")
      .when(checkpoints, "with checkpoints");
}

JsonFields<FailureWhatIf> failure_what_if_fields() {
  using W = FailureWhatIf;
  return JsonFields<W>()
      .value("change", "", &W::change, "what is changed")
      .value("goodput", "share", &W::goodput, "goodput with it")
      .value("effective_step_time_s", "s", &W::effective_step_time, "training time over steps done");
}

}  // namespace trainyard
