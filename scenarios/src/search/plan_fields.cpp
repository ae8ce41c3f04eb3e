// JSON fields of `trainyard plan`.

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/search/layer_plan.hpp"
#include "scenarios/src/search/plan_answer.hpp"

namespace trainyard {
namespace {

JsonFields<PlanOutcome> plan_outcome_fields() {
  using O = PlanOutcome;
  const auto is_simulated = [](const O& o) { return o.step_time > 0; };
  const char* if_simulated = "if it was simulated";
  return JsonFields<O>()
      .value("fits", "", &O::fits,
             "whether the plan fits into the memory of the devices (and with offload of the hosts), without headroom")
      .value("memory_peak_bytes", "bytes", &O::peak, "peak memory of the fullest device")
      .when([](const O& o) { return o.peak > 0; }, "if it was simulated, or is known without")
      .value(
          "memory_interval_bytes", "bytes", &O::memory_interval,
          "lower and upper end of the interval that holds the memory of the fullest device with a probability of 80 %")
      .when(&O::memory_interval, "if it was simulated")
      .value("out_of_memory_probability", "share", &O::risk, "probability that a device runs out of memory")
      .value("step_time_s", "s", &O::step_time, "simulated time of a step")
      .when_since("out_of_memory_probability", is_simulated, if_simulated)
      .value(
          "step_time_interval_s", "s",
          [](auto& o) { return o.good() ? likely_step_times(o.step_time, o.doubt) : std::nullopt; },
          "lower and upper end of the interval that holds the step time of the real machine with a probability of 80 %")
      .when([](const O& o) { return o.good() && o.doubt.exists(); }, "if the stack is one that can be measured")
      .value(
          "announced_step_times_s", "s", [](auto& o) { return o.doubt.announced(o.step_time); },
          "step times at the fast and the slow end of the ranges of hardware that is only announced; the interval "
          "reaches from the one to the other")
      .when([](const O& o) { return o.doubt.announced(1).has_value(); }, "if the ends of these ranges differ")
      .value("mfu", "share", &O::mfu, "model FLOPs over the dense peak")
      .value("samples_per_s", "1/s", &O::samples_per_s, "samples per second of all devices")
      .when_since("mfu", is_simulated, if_simulated)
      .value("tokens_per_s", "1/s", &O::tokens_per_s, "tokens per second of all devices")
      .when(&O::tokens_per_s, "if the network has tokens")
      .value(
          "tokens_per_J", "1/J", [](auto& o) { return o.per_joule; },
          "tokens a joule of the whole site (samples if the network has no tokens)")
      .when(&O::per_joule, "if the power of the devices is stated")
      .value(
          "money_per_million", "money", [](auto& o) { return o.per_million; },
          "rent and electricity of a million tokens (samples if the network has no tokens)")
      .when(&O::per_million, "with prices of rents")
      .value(
          "ownership_per_million", "money", [](auto& o) { return o.owned_per_million; },
          "cost of a million of them on bought nodes that are always in use")
      .when(&O::owned_per_million, "with prices of a purchase")
      .value(
          "ownership_total", "money", [](auto& o) { return o.total; },
          "cost of owning the cluster for the years of depreciation, always in use")
      .when(&O::total, "with prices of a purchase");
}

JsonFields<PlanRow> changed_row_fields(const char* words) {
  return JsonFields<PlanRow>().value("change", "", &PlanRow::change, words).inlined(std::identity{}, plan_row_fields());
}

JsonFields<PlanAnswer::Flatness> flatness_fields() {
  using F = PlanAnswer::Flatness;
  return JsonFields<F>()
      .value("share", "share", &F::share, "plans that are slower than the best plan by at most this share")
      .value("at_least", "", &F::at_least, "number of such plans that were simulated")
      .value("at_most", "", &F::at_most,
             "number of such plans with those that were not simulated but may be as fast by their lower bounds");
}

template <class Member>
auto count_of(Member member) {
  return [member](auto& a) { return static_cast<std::int64_t>(a.search.*member); };
}

const RegisterJsonReference plan_reference{"plan", "the best plan of a scenario, compared with other plans",
                                           plan_fields};

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
      .when(&S::splits, "if tensor ranks share an mlp's layers")
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

const RegisterJsonReference layer_plan_json{"plan --layers", "stages on unequally many devices", layer_plan_fields};

}  // namespace

JsonFields<PlanRow> plan_row_fields() {
  return JsonFields<PlanRow>()
      .value("plan", "", &PlanRow::plan, "the plan in words")
      .inlined(&PlanRow::outcome, plan_outcome_fields())
      .value("leaves_headroom", "", &PlanRow::leaves_headroom,
             "whether the plan fits into the memory of the devices and leaves the headroom free")
      .value("floor_s", "s", &PlanRow::floor, "lower bound of the step time, computed before it was simulated")
      .when(&PlanRow::floor, "if it was computed")
      .value("slower_probability", "share", &PlanRow::slower,
             "probability that the plan is in truth slower than the best; errors that both share cancel")
      .when(&PlanRow::slower, "if the stack is one that can be measured");
}

const JsonFields<PlanAnswer>& plan_fields() {
  using A = PlanAnswer;
  static const JsonFields<A> fields =
      JsonFields<A>()
          .value("scenario", "", &A::scenario, "name of the scenario")
          .value("gpus", "", &A::gpus, "number of devices of the cluster")
          .value("memory_capacity_bytes", "bytes", &A::capacity, "memory of a device")
          .value("headroom", "share", &A::headroom, "share of the memory that plans leave free")
          .value("plans", "", count_of(&PlanSearch::plans), "number of plans in the searched space")
          .value("judged", "", count_of(&PlanSearch::judged),
                 "plans that were judged by their memory and a lower bound of their time")
          .value("refused", "", count_of(&PlanSearch::refused), "judged plans that are no legal plans of the scenario")
          .value("too_large", "", count_of(&PlanSearch::too_large),
                 "judged plans that need more memory than the devices have")
          .value("too_tight", "", count_of(&PlanSearch::too_tight),
                 "judged plans that fit, but leave less than the headroom free")
          .value("simulated", "", count_of(&PlanSearch::runs), "plans that were simulated")
          .value("simulated_outside", "", count_of(&PlanSearch::outside),
                 "simulated plans that are not in the searched space: the scenario's own, if it is not")
          .value(
              "dropped", "", [](auto& a) { return static_cast<std::int64_t>(a.search.dropped()); },
              "plans that were not simulated, because a lower bound of their time or their memory left them out; with "
              "the simulated, refused and too large ones they are all plans")
          .value(
              "operations", "", [](auto& a) { return static_cast<std::int64_t>(a.search.work); },
              "work of the search in simulated operations; each judged plan counts as its tasks plus 500, each group "
              "of plans as 4000")
          .value(
              "ended", "", [](auto& a) { return std::string(name_of(a.ended)); },
              "why the search ended: proved, work (its limit; simulations that have begun are finished), time (wall "
              "time: not repeatable) or interrupted (a "
              "signal)")
          .value(
              "proved", "", [](auto& a) { return a.search.proved; },
              "no other combination of the searched fields that leaves the headroom is faster than the best; further "
              "fields of the plan are as in the scenario")
          .value("open", "", count_of(&PlanSearch::open),
                 "plans that may be faster than the best, because a limit ended the search")
          .value(
              "open_floor_s", "s", [](auto& a) { return a.search.open_floor; },
              "lower bound of the step times of the open plans")
          .when([](const A& a) { return a.search.open > 0; }, "if plans are open")
          .list("best", &A::best, plan_row_fields(), "the fastest plans that were simulated")
          .object("own", &A::own, plan_row_fields(), "the scenario's own plan")
          .when(&A::own, "if it has one on all devices")
          .object("without_headroom", &A::without_headroom, plan_row_fields(),
                  "the fastest simulated plan that fits, whatever it leaves free")
          .value(
              "without_headroom_proved", "", [](auto& a) { return a.search.proved_without; },
              "no combination of the searched fields that fits is faster than this one")
          .when_since("without_headroom", &A::without_headroom, "if it leaves less than the headroom")
          .list("pareto", &A::pareto, plan_row_fields(),
                "Pareto front of time and memory of all simulated plans that leave the headroom")
          .list("neighbours", &A::neighbours, changed_row_fields("the choice in which it differs from the best plan"),
                "plans that differ from the best in one choice")
          .list("flatness", &A::flatness, flatness_fields(), "numbers of plans that are nearly as good as the best")
          .value(
              "equal", "", [](auto& a) { return static_cast<std::int64_t>(a.equals); },
              "number of simulated plans, with the best, that are slower than it with a probability below 80 %")
          .when(&A::equals, "if the stack is one that can be measured")
          .object("rule_of_thumb", &A::rule, plan_row_fields(),
                  "the best plan with the mesh of the rule of thumb: data, then pipeline, then tensor ranks")
          .when(&A::rule, "if the rule has a plan")
          .list("upgrades", &A::upgrades, changed_row_fields("name of the doubled resource"),
                "the best plan with one resource doubled")
          .when(&A::upgrades, "with --upgrades");
  return fields;
}

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
          .when(&A::plan, "if it finds one")
          .object("data_parallel", &A::data, plan_row_fields(),
                  "the fastest plan with data parallelism only, without ZeRO")
          .when(&A::data, "if one fits")
          .value("own_step_time_s", "s", &A::own_step, "step time of the scenario's own plan; 0: it does not fit")
          .value("unfinished", "", &A::unfinished, "plans that are left out")
          .when(&A::unfinished, "if a signal ended the search");
  return fields;
}

}  // namespace trainyard
