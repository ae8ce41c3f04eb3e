// The JSON of `trainyard plan`.
#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/answer/json_reference.hpp"
#include "scenarios/src/search/plan_answer.hpp"

namespace trainyard {
namespace {

JsonFields<PlanOutcome> plan_outcome_fields() {
  using O = PlanOutcome;
  const auto simulated = [](const O& o) { return o.step_time > 0; };
  const char* when = "where it was simulated";
  return JsonFields<O>()
      .value("fits", "", &O::fits, "devices (and with offload hosts) hold it, the headroom used")
      .value("memory_peak_bytes", "bytes", &O::peak, "of the fullest device")
      .value("step_time_s", "s", &O::step_time, "simulated")
      .when(simulated, when)
      .value("mfu", "share", &O::mfu, "model FLOPs over the dense peak")
      .when(simulated, when)
      .value("samples_per_s", "1/s", &O::samples_per_s, "of all devices")
      .when(simulated, when)
      .value("tokens_per_s", "1/s", &O::tokens_per_s, "of all devices")
      .when([](const O& o) { return o.tokens_per_s > 0; }, "of networks of tokens");
}

}  // namespace

JsonFields<PlanRow> plan_row_fields() {
  return JsonFields<PlanRow>()
      .value("plan", "", &PlanRow::plan, "in words")
      .inlined(&PlanRow::outcome, plan_outcome_fields())
      .value("leaves_headroom", "", &PlanRow::leaves_headroom, "devices hold it with the headroom free")
      .value("floor_s", "s", &PlanRow::floor, "what was known of the step's time before it was simulated: no less")
      .when([](const PlanRow& r) { return r.floor > 0; }, "where it was judged");
}

namespace {

JsonFields<PlanRow> changed_row_fields(const char* words) {
  return JsonFields<PlanRow>().value("change", "", &PlanRow::change, words).inlined(std::identity{}, plan_row_fields());
}

JsonFields<PlanAnswer::Flatness> flatness_fields() {
  using F = PlanAnswer::Flatness;
  return JsonFields<F>()
      .value("share", "share", &F::share, "slower than the best by no more than this")
      .value("at_least", "", &F::at_least, "plans, simulated")
      .value("at_most", "", &F::at_most, "plans, with those whose floors leave room for it");
}

template <class Member>
auto count_of(Member member) {
  return [member](auto& a) { return static_cast<std::int64_t>(a.search.*member); };
}

const RegisterJsonReference plan_reference{"plan", "the best plan of a scenario, and how it compares",
                                           [] { return plan_fields().rows(); }};

}  // namespace

const JsonFields<PlanAnswer>& plan_fields() {
  using A = PlanAnswer;
  static const JsonFields<A> fields =
      JsonFields<A>()
          .value("scenario", "", &A::scenario, "its name")
          .value("gpus", "", &A::gpus, "of the cluster")
          .value("memory_capacity_bytes", "bytes", &A::capacity, "of a device")
          .value("headroom", "share", &A::headroom, "of it that plans leave free")
          .value("plans", "", count_of(&PlanSearch::plans), "in the space that was searched")
          .value("judged", "", count_of(&PlanSearch::judged), "of them, by memory and by a lower bound of the time")
          .value("refused", "", count_of(&PlanSearch::refused), "of the judged: no plans by the rules of scenarios")
          .value("too_large", "", count_of(&PlanSearch::too_large), "of the judged: more than the devices hold")
          .value("too_tight", "", count_of(&PlanSearch::too_tight),
                 "of the judged: they fit, but leave less than the headroom")
          .value("simulated", "", count_of(&PlanSearch::runs), "plans that were simulated")
          .value(
              "operations", "", [](auto& a) { return static_cast<std::int64_t>(a.search.work); },
              "that the search has simulated; a plan that is judged counts as its tasks and some hundred, a group of "
              "plans as a thousand")
          .value(
              "ended", "", [](auto& a) { return std::string(name_of(a.ended)); },
              "by what: proved, work (its limit), time (wall time: not repeatable) or interrupted (a signal)")
          .value(
              "proved", "", [](auto& a) { return a.search.proved; }, "no plan of the space is faster than the best")
          .value("open", "", count_of(&PlanSearch::open),
                 "plans that may be faster than the best: a limit ended the search")
          .value(
              "open_floor_s", "s", [](auto& a) { return a.search.open_floor; }, "and none of them takes less")
          .when([](const A& a) { return a.search.open > 0; }, "where plans are open")
          .list("best", &A::best, plan_row_fields(), "the fastest plans that were simulated")
          .object("own", &A::own, plan_row_fields(), "the scenario's own plan")
          .when([](const A& a) { return a.own.has_value(); }, "where it has one on all devices")
          .object("without_headroom", &A::without_headroom, plan_row_fields(),
                  "the fastest that was simulated and fits")
          .when([](const A& a) { return a.without_headroom.has_value(); }, "where it leaves less than the headroom")
          .value(
              "without_headroom_proved", "", [](auto& a) { return a.search.proved_without; },
              "no plan of the space that fits is faster")
          .when([](const A& a) { return a.without_headroom.has_value(); }, "where it leaves less than the headroom")
          .list("pareto", &A::pareto, plan_row_fields(),
                "plans that none beats in time and memory, of all that were simulated and leave the headroom")
          .list("neighbours", &A::neighbours, changed_row_fields("in what it differs from the best"),
                "plans that differ from the best in one choice")
          .list("flatness", &A::flatness, flatness_fields(), "how many plans are nearly as good")
          .object("rule_of_thumb", &A::rule, plan_row_fields(),
                  "the best plan of the mesh that it takes: data, then pipeline, then tensor")
          .when([](const A& a) { return a.rule.has_value(); }, "where it takes one")
          .list("upgrades", &A::upgrades, changed_row_fields("what is twice as much"), "the best plan then")
          .when([](const A& a) { return !a.upgrades.empty(); }, "with --upgrades");
  return fields;
}

}  // namespace trainyard
