
#include "scenarios/src/answer/json_reference.hpp"
#include "scenarios/src/search/layer_plan.hpp"

namespace trainyard {

namespace {

JsonFields<LayerStage> layer_stage_fields() {
  using S = LayerStage;
  return JsonFields<S>()
      .value("first_layer", "", &S::first, "name of the first layer of the stage")
      .value("last_layer", "", &S::last, "name of its last layer")
      .value(
          "layers", "", [](const S& s) { return s.to - s.from; }, "number of layers")
      .value("ranks", "", &S::ranks, "numbers of its devices in the cluster")
      .value("tensor_parallel", "", &S::tensor, "ranks that split each layer")
      .value("data_parallel", "", &S::data, "ranks that share the samples of a micro-batch")
      .value(
          "linear_split", "", [](const S& s) { return in_words(s.splits); }, "how each layer of an mlp is split")
      .when([](const S& s) { return !s.splits.empty(); }, "if tensor ranks share an mlp's layers")
      .value("micro_batch_s", "s", &S::micro_batch, "time of a micro-batch, forward and backward, for its layers alone")
      .value("tail_s", "s", &S::tail, "time of gradient exchange and update, once per step, for its layers alone")
      .value("busy_s", "s", &S::busy, "part of the step in which it does not wait for other stages")
      .value("peak_bytes", "bytes", &S::peak, "peak memory of a device");
}

JsonFields<LayerDivision> layer_division_fields() {
  using D = LayerDivision;
  return JsonFields<D>()
      .value("estimate_s", "s", &D::estimate,
             "estimated step time: sum of the stages + (micro-batches - 1) x slowest stage")
      .value("step_time_s", "s", &D::step, "step time, simulated as by run")
      .list("stages", &D::stages, layer_stage_fields(), "stages in the order of the layers");
}

}  // namespace

const JsonFields<LayerPlanAnswer>& layer_plan_fields() {
  using A = LayerPlanAnswer;
  static const JsonFields<A> fields =
      JsonFields<A>()
          .value("scenario", "", &A::scenario, "name of the scenario")
          .value("gpus", "", &A::gpus, "number of devices of the cluster")
          .value("micro_batches", "", &A::micro_batches, "micro-batches of a step")
          .value("micro_batch", "samples", &A::micro_batch,
                 "size of a micro-batch over all data-parallel ranks of a stage")
          .value("layers_simulated", "", &A::simulated, "number of simulated layers, each on one mesh with one split")
          .value("memory_capacity_bytes", "bytes", &A::capacity, "memory of a device")
          .value("headroom", "share", &A::headroom, "share of the memory that stays free")
          .value("best_step_time_s", "s", &A::best_step,
                 "least step time of all simulated plans that leave the headroom")
          .value("division_is_best", "", &A::division_is_best, "the division has the best step time")
          .object("division", &A::division, layer_division_fields(),
                  "the fastest division into stages with these micro-batches")
          .object("even", &A::even, layer_division_fields(), "the best division whose stages have equally many devices")
          .object("plan", &A::plan, plan_row_fields(),
                  "the best plan that `trainyard plan` finds, with any micro-batch")
          .when([](const A& a) { return a.plan.has_value(); }, "if it finds one")
          .object("data_parallel", &A::data, plan_row_fields(),
                  "the fastest plan with data parallelism only, without ZeRO")
          .when([](const A& a) { return a.data.has_value(); }, "if one fits")
          .value("own_step_time_s", "s", &A::own_step, "step time of the scenario's own plan; 0: it does not fit");
  return fields;
}

namespace {

const RegisterJsonReference layer_plan_json{"plan --layers", "stages on unequally many devices",
                                            [] { return layer_plan_fields().rows(); }};

}  // namespace
}  // namespace trainyard
