#include <fmt/format.h>

#include "scenarios/src/answer/json_reference.hpp"
#include "scenarios/src/search/layer_plan.hpp"

namespace trainyard {

namespace {

JsonFields<LayerStage> layer_stage_fields() {
  using S = LayerStage;
  return JsonFields<S>()
      .value("first_layer", "", &S::first, "the first layer of the stage")
      .value("last_layer", "", &S::last, "and the last one")
      .value(
          "layers", "", [](const S& s) { return s.to - s.from; }, "how many")
      .value("ranks", "", &S::ranks, "devices of the cluster")
      .value("tensor_parallel", "", &S::tensor, "ranks that split each layer")
      .value("data_parallel", "", &S::data, "ranks that share the samples of a micro-batch")
      .value(
          "linear_split", "", [](const S& s) { return in_words(s.splits); }, "how each layer of an mlp is split")
      .when([](const S& s) { return !s.splits.empty(); }, "where tensor ranks share an mlp's layers")
      .value("micro_batch_s", "s", &S::micro_batch, "a micro-batch, forward and backward, of its layers alone")
      .value("tail_s", "s", &S::tail, "gradients and update, once a step, of its layers alone")
      .value("busy_s", "s", &S::busy, "of the step: it waits for no other stage")
      .value("peak_bytes", "bytes", &S::peak, "of a device");
}

JsonFields<LayerDivision> layer_division_fields() {
  using D = LayerDivision;
  return JsonFields<D>()
      .value("estimate_s", "s", &D::estimate, "sum of the stages + (micro-batches - 1) x slowest")
      .value("step_time_s", "s", &D::step, "simulated, as run does")
      .list("stages", &D::stages, layer_stage_fields(), "in the order of the layers");
}

}  // namespace

const JsonFields<LayerPlanAnswer>& layer_plan_fields() {
  using A = LayerPlanAnswer;
  static const JsonFields<A> fields =
      JsonFields<A>()
          .value("scenario", "", &A::scenario, "its name")
          .value("gpus", "", &A::gpus, "of the cluster")
          .value("micro_batches", "", &A::micro_batches, "of a step")
          .value("micro_batch", "samples", &A::micro_batch, "over all data-parallel ranks of a stage")
          .value("layers_simulated", "", &A::simulated, "each on one mesh and in one way")
          .value("memory_capacity_bytes", "bytes", &A::capacity, "of a device")
          .value("headroom", "share", &A::headroom, "of it that stays free")
          .value("best_step_time_s", "s", &A::best_step, "the least of all that was simulated and leaves the headroom")
          .value("division_is_best", "", &A::division_is_best, "it is that of the division")
          .object("division", &A::division, layer_division_fields(),
                  "the fastest stages on as many devices as help, of these micro-batches")
          .object("even", &A::even, layer_division_fields(), "the best whose stages have equally many devices")
          .object("plan", &A::plan, plan_row_fields(), "what `trainyard plan` finds, of any micro-batch")
          .when([](const A& a) { return a.plan.has_value(); }, "where it finds one")
          .object("data_parallel", &A::data, plan_row_fields(), "the fastest that is data-parallel alone, without ZeRO")
          .when([](const A& a) { return a.data.has_value(); }, "where one fits")
          .value("own_step_time_s", "s", &A::own_step, "of the scenario's own plan; 0: it does not fit");
  return fields;
}

namespace {

const RegisterJsonReference layer_plan_json{"plan --layers", "stages on unequally many devices",
                                            [] { return layer_plan_fields().rows(); }};

}  // namespace
}  // namespace trainyard
