#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "scenarios/src/answer/memory_verdict.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/search/layer_plan.hpp"
#include "scenarios/src/search/plan_answer.hpp"
#include "scenarios/src/studies/measured/ratio_doubt.hpp"
#include "sim/units.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"

namespace trainyard {
namespace {

std::string division_text(const LayerDivision& division) {
  TextTable table{">stage", "layers", "GPUs", "tensor x data", ">micro-batch", ">after the last", ">memory", "split"};
  for (std::size_t i = 0; i < division.stages.size(); ++i) {
    const LayerStage& s = division.stages[i];
    table.rows.push_back({fmt::format("{}", i), s.first == s.last ? s.first : fmt::format("{} - {}", s.first, s.last),
                          number_ranges(s.ranks, ","), fmt::format("{} x {}", s.tensor, s.data),
                          show(Seconds{s.micro_batch}), show(Seconds{s.tail}),
                          fmt::format("{:.1f} GiB", s.peak / (1U << 30)), in_words(s.splits)});
  }
  return table.text("  ");
}

/// The busy time of the busiest stage, and the mean busy time of a GPU.
std::string busy_text(const LayerPlanAnswer& a) {
  double most = 0, sum = 0;
  for (const LayerStage& stage : a.division.stages) {
    most = std::max(most, stage.busy);
    sum += stage.busy * static_cast<double>(stage.ranks.size());
  }
  return fmt::format("the busiest stage works for {}, the mean GPU for {}; ", show(Seconds{most}),
                     show(Seconds{sum / a.gpus}));
}

/// The fastest of all simulated plans. If it does not divide the layers unequally, says why.
std::string best_lines(const LayerPlanAnswer& a) {
  if (a.division_is_best())
    return report_label("best") + fmt::format("{} a step: the stages below{}\n", show(Seconds{a.division.step}),
                                              a.plan ? ", faster than the plan that `plan` finds" : "");
  if (!a.plan || a.plan->outcome.step_time > a.best_step())
    return report_label("best") + fmt::format("{} a step: the scenario's own plan\n", show(Seconds{a.best_step()}));
  const PlanOutcome& o = a.plan->outcome;
  return wrapped(report_label("best"),
                 {fmt::format("{} a step: {}", show(Seconds{o.step_time}), a.plan->plan),
                  fmt::format("the plan that `plan` finds{}", a.plan_proved ? "" : ", not proved")},
                 ",") +
         wrapped(
             report_label("why"),
             {busy_text(a) + fmt::format("that plan computes for {}, waits {} for the pipeline and {} for exchanges",
                                         show(Seconds{o.compute}), show(Seconds{o.bubble}), show(Seconds{o.exposed}))},
             "");
}

constexpr std::size_t kLineWidth = 118;

/// Four digits: plans that differ by less than 1 % have different times on the screen.
std::string plan_time(double seconds) {
  const auto digits = [](double value) {
    return fmt::format("{:.{}f}", value, value >= 999.95 ? 0 : value >= 99.995 ? 1 : value >= 9.9995 ? 2 : 3);
  };
  if (seconds == 0) return "0 ms";
  return seconds >= 1      ? digits(seconds) + " s"
         : seconds >= 1e-3 ? digits(seconds * 1e3) + " ms"
                           : show(Seconds{seconds});
}

/// The difference to the best time: "+3.4 %".
std::string difference_to_best(double seconds, double best) {
  if (seconds == best) return "best";
  return signed_percent(seconds / best - 1);
}

/// A bound of the gain above this share, in per cent, is no information.
constexpr double kNoBound = 99.95;

std::string plan_count(std::size_t count) { return counted(static_cast<std::int64_t>(count)); }

/// The number with its noun: "1 plan", "2,971 plans".
std::string counted_words(std::size_t count, const char* noun) {
  return fmt::format("{} {}{}", plan_count(count), noun, count == 1 ? "" : "s");
}

/// The searched plans by what became of them, whose numbers sum to all plans, and whether the best is proved.
std::string searched_line(const PlanAnswer& a) {
  const PlanSearch& s = a.search;
  std::vector<std::string> parts{
      fmt::format("{} on {}", counted_words(s.plans + s.outside, "plan"),
                  counted_words(static_cast<std::size_t>(a.gpus), "GPU")) +
      (s.outside > 0 ? ", with yours, which the search does not reach" : "") +
      fmt::format(" = {} simulated + {} not legal + {} too large for the memory + {} dropped", plan_count(s.runs),
                  plan_count(s.refused), plan_count(s.too_large), plan_count(s.dropped()))};
  if (s.dropped() > 0)
    parts.push_back(
        std::string("dropped: not simulated, since a lower bound shows that they are no faster or do not fit") +
        (a.headroom > 0 ? ", or they leave less than the headroom free" : "") +
        (s.open > 0 ? ", or the search ended before their turn" : ""));
  if (s.best() && s.proved)
    parts.push_back(
        fmt::format("the best is proved: no other combination of the searched fields that {} can be "
                    "faster, by its lower bound; further fields are the scenario's (--vary searches them)",
                    a.headroom > 0 ? "leaves the headroom" : "fits"));
  if (s.best() && !s.proved) {
    const double most = (1 - s.open_floor / s.best()->outcome.step_time) * 100;
    parts.push_back(fmt::format("not proved: {} of the dropped plans may be faster{}{}", plan_count(s.open),
                                a.own_is_best ? " than the best of these" : "",
                                most < kNoBound ? fmt::format(", by {:.1f} % at most", most) : ""));
  }
  return wrapped(report_label("searched"), parts, ";");
}

/// How sure it is that a plan is slower than the best: "94 %", or "equal".
std::string certainty(const PlanRow& row) {
  if (!row.slower) return "-";
  return *row.slower < kSurelySlower ? "equal" : probability_text(*row.slower);
}

/// ", 94 % sure" or ", which counts as equal"; "" if the plan is not compared.
std::string sure_words(const PlanRow& row) {
  if (!row.slower) return "";
  return *row.slower < kSurelySlower ? ", which counts as equal" : ", " + certainty(row) + " sure";
}

/// The interval of the best step, and which plans count as equal to it.
std::string doubt_line(const PlanAnswer& a) {
  const PlanOutcome& best = a.best.front().outcome;
  const std::optional<std::array<double, 2>> likely = likely_step_times(best.step_time, best.doubt);
  if (!likely) return "";
  const auto range = [&best](int tensor) {
    StepDoubt other = best.doubt;
    other.tensor = tensor;
    return percent(half_width_of_ratio(best.doubt, other));
  };
  return wrapped(
      report_label("doubt"),
      {fmt::format("a measured step lies between {} and {} with a probability of 80 %", plan_time((*likely)[0]),
                   plan_time((*likely)[1])),
       fmt::format("the ratio of two plans lies within ±{} with this probability (±{} if tensor degrees "
                   "differ), as ratios of measured plans do (validate coverage)",
                   range(best.doubt.tensor), range(best.doubt.tensor + 1)),
       "column sure: the probability that a plan is slower than the best",
       fmt::format("equal: this probability is below {:.0f} %, as for {} of the simulated plans beside the best",
                   kSurelySlower * 100, plan_count(a.equals > 0 ? a.equals - 1 : 0))},
      ";");
}

/// Says that a plan may run out of memory: "runs out of memory with a probability of 30 %" between the two texts; "" if
/// it surely fits.
std::string risk_in_words(const PlanOutcome& outcome, const char* before, const char* after = "") {
  if (std::string_view(fits_in_words(outcome.risk)) == "yes") return "";
  return fmt::format("{}runs out of memory with a probability of {:.0f} %{}", before, outcome.risk * 100, after);
}

/// Names the fastest plan that surely fits and counts as equal to a best plan that is at risk; "" if there is none.
std::string safer_line(const PlanAnswer& a) {
  if (is_safe_risk(a.best.front().outcome.risk)) return "";
  const PlanRow* safer = nullptr;
  for (const std::vector<PlanRow>* rows : {&a.best, &a.pareto, &a.neighbours})
    for (const PlanRow& row : *rows)
      if (row.slower && *row.slower < kSurelySlower && is_safe_risk(row.outcome.risk) &&
          (!safer || row.outcome.step_time < safer->outcome.step_time))
        safer = &row;
  if (!safer) return "";
  return wrapped(
      report_label("safer"),
      {fmt::format(
          "{} counts as equal, takes {} ({}) and {} GiB, and fits", safer->plan, plan_time(safer->outcome.step_time),
          difference_to_best(safer->outcome.step_time, a.best.front().outcome.step_time), gib(safer->outcome.peak))},
      ";");
}

TextTable plan_table(const PlanAnswer& a, const std::vector<PlanRow>& rows, const char* first) {
  const double best = a.best.front().outcome.step_time;
  const bool has_doubt = a.best.front().outcome.doubt.exists();
  TextTable table{">step", ">over best"};
  if (has_doubt) table.add_column("sure");
  const bool is_range = a.best.front().outcome.doubt.announced(1).has_value();
  if (is_range) table.add_column("by the ranges");
  for (const char* name : {"MFU", "memory"}) table.add_column(name);
  const PlanOutcome& costs = a.best.front().outcome;
  if (costs.per_joule > 0) table.add_column(costs.tokens_per_s > 0 ? "tokens/J" : "samples/J");
  if (costs.per_million > 0) table.add_column("a million");
  if (costs.owned_per_million > 0) table.add_column("owned");
  table.add_column(first, false);
  for (const PlanRow& row : rows) {
    const PlanOutcome& o = row.outcome;
    const std::string memory = o.peak > 0 ? gib(o.peak) + " GiB" : "-";
    const std::string words = (row.change.empty() ? row.plan : row.change) +
                              (o.fits && !row.leaves_headroom ? " (uses the headroom)" : "") +
                              risk_in_words(o, " (", ")");
    std::vector<std::string>& cells = table.rows.emplace_back();
    cells = o.fits ? std::vector{plan_time(o.step_time), difference_to_best(o.step_time, best)}
                   : std::vector<std::string>{"-", "does not fit"};
    if (has_doubt) cells.push_back(certainty(row));
    if (is_range) {
      const auto times = o.doubt.announced(o.step_time);
      cells.push_back(times ? fmt::format("{} to {}", plan_time(times->front()), plan_time(times->back())) : "-");
    }
    cells.push_back(o.fits ? fmt::format("{:.1f} %", o.mfu * 100) : "-");
    cells.push_back(memory);
    const auto figure = [&cells](double column, double v) {
      if (column > 0) cells.push_back(v > 0 ? fmt::format("{:.3g}", v) : "-");
    };
    figure(costs.per_joule, o.per_joule);
    figure(costs.per_million, o.per_million);
    figure(costs.owned_per_million, o.owned_per_million);
    cells.push_back(words);
  }
  return table;
}

std::string section(const char* title, const std::string& text) { return fmt::format("\n{}\n{}", title, text); }

/// How many plans are nearly as good as the best: "within 1 % of the best step: 7 simulated plans, and at most 60 of
/// the dropped".
std::string flatness_line(const PlanAnswer& a) {
  std::vector<std::string> words;
  for (const PlanAnswer::Flatness& f : a.flatness)
    words.push_back(fmt::format(
        "within {:.0f} %{}: {} simulated plan{}{}", f.share * 100, words.empty() ? " of the best step" : "",
        plan_count(f.at_least), f.at_least == 1 ? "" : "s",
        f.at_most > f.at_least ? fmt::format(" and at most {} of the dropped{}", plan_count(f.at_most - f.at_least),
                                             words.empty() ? ", by their lower bounds" : "")
                               : ""));
  return words.empty() ? "" : wrapped(report_label("close"), words, ";");
}

/// The headroom of the memory, and the best plan without headroom.
std::string headroom_line(const PlanAnswer& a) {
  std::vector<std::string> words;
  if (a.headroom == 0)
    words.push_back(a.best.empty() ? "none"
                                   : fmt::format("none; the best plan leaves {} GiB free",
                                                 gib(a.capacity - a.best.front().outcome.peak)));
  else
    words.push_back(fmt::format("{} of the memory, for context and fragmentation: plans hold up to {}",
                                percent(a.headroom), usable_memory(a.capacity, a.headroom)));
  if (const auto& without = a.without_headroom)
    words.push_back(fmt::format(
        "without it {}{}, {} GiB: {}", plan_time(without->outcome.step_time),
        a.best.empty()
            ? ""
            : fmt::format(", {}", difference_to_best(without->outcome.step_time, a.best.front().outcome.step_time)),
        gib(without->outcome.peak), without->plan));
  else if (a.headroom > 0 && !a.best.empty() && a.search.proved_without)
    words.push_back("without it the best is the same");
  return wrapped(report_label("headroom"), words, ";");
}

/// Names the memory that a GPU needs beside a plan's: " with CUDA's context and NCCL's buffers"; "" on other chips.
std::string beside_plan(const Scenario& s) {
  return s.cluster.node.gpu.kind == ChipKind::gpu ? " with CUDA's context and NCCL's buffers" : "";
}

/// The memory of a GPU that programs can have, in GiB.
std::string programs_have(const Scenario& s) { return gib(s.cluster.node.gpu.usable_memory().value); }

std::string without_plan(const PlanAnswer& a, const Scenario& s) {
  std::string text = fmt::format("{}nothing {} into {}\n", report_label("best"),
                                 a.search.ended == SearchEnd::proved ? "fits" : "was found that fits",
                                 usable_memory(a.capacity, a.headroom)) +
                     headroom_line(a);
  if (!a.search.closest) return text;
  const double more = a.search.closest_peak - a.capacity * (1 - a.headroom);
  text += fmt::format("{}{}{} GiB: {}, by {}\n", report_label("closest"), a.search.closest_is_exact ? "" : "at least ",
                      gib(a.search.closest_peak),
                      more > 0
                          ? gib(more) + " GiB more"
                          : fmt::format("{}more than the {} GiB that programs can have",
                                        beside_plan(s).empty() ? "" : beside_plan(s).substr(1) + " ", programs_have(s)),
                      "the plan of least memory; more GPUs or --offload help");
  return text;
}

/// Says which limit ended the search before the proof; "" if the best plan is proved.
std::string end_words(const PlanAnswer& a) {
  if (a.ended == SearchEnd::work)
    return fmt::format(
        "the search ended after {:.3g} M simulated operations; its limit is {:.3g} M (--work), but it goes "
        "on until a plan fits, and finishes simulations that have begun",
        a.search.work * 1e-6, a.search.work_limit * 1e-6);
  if (a.ended == SearchEnd::time)
    return "the wall time is over; this is the best plan so far, and another run may find another one";
  return a.ended == SearchEnd::interrupt ? "interrupted; this is the best plan so far" : "";
}

/// The question: network, precision, machine, batch, and the release of the software.
std::string question_lines(const PlanAnswer& a, const Scenario& s) {
  const std::string named = a.scenario == s.network.name ? "" : a.scenario + ": ";
  std::string text = fmt::format("{}{} in {} on {} × {} ({})\n", named, s.network.name, s.precision_title(),
                                 counted(a.gpus), s.cluster.node.gpu.name, describe(s.cluster));
  text += fmt::format("{}{} sample{} a step", report_label("batch"), counted(s.global_batch_size),
                      s.global_batch_size == 1 ? "" : "s");
  if (s.network.tokens_per_sample > 1) text += fmt::format(" of {} tokens", counted(s.network.tokens_per_sample));
  const SoftwareStack& software = s.software;
  return text + fmt::format("\n{}{}\n", report_label("software"),
                            !s.software_given              ? "no software costs (the default)"
                            : software.description.empty() ? software.name
                                                           : software.name + ": " + software.description);
}

/// Explains "does not fit" in a table; "" if all plans of the table fit.
std::string unfit_legend(const std::vector<PlanRow>& rows, const Scenario& s) {
  if (std::ranges::all_of(rows, [](const PlanRow& row) { return row.outcome.fits; })) return "";
  return fmt::format("  does not fit: it needs{} more than the {} GiB that programs can have\n", beside_plan(s),
                     programs_have(s));
}

}  // namespace

std::string layer_plan_screen(const LayerPlanAnswer& a) {
  std::string text =
      fmt::format("{}: {}, {} a step; {} simulated alone\n", a.scenario, counted_noun(a.gpus, "GPU"),
                  counted_noun(a.micro_batches * a.micro_batch, "sample"), counted_noun(a.simulated, "layer"));
  if (!a.unfinished.empty()) text += wrapped(report_label("unfinished"), {a.unfinished}, "");
  text += best_lines(a);
  const auto beside = [&a](double step) {
    return fmt::format("{} a step, {} of the best", show(Seconds{step}), percent(step / a.best_step()));
  };
  text += wrapped(report_label("stages"),
                  {beside(a.division.step) + fmt::format(" (estimated {})", show(Seconds{a.division.estimate})),
                   fmt::format("on as many GPUs as help, by 1f1b in the plan's {} of {}",
                               counted_noun(a.micro_batches, "micro-batch", "micro-batches"),
                               counted_noun(a.micro_batch, "sample"))},
                  ":");
  text += division_text(a.division);
  if (a.even) {
    text += report_label("even") + "stages of equally many GPUs: " + beside(a.even->step) + "\n";
    text += division_text(*a.even);
  }
  if (a.plan && a.division_is_best())
    text += wrapped(report_label("plan"), {beside(a.plan->outcome.step_time) + ": " + a.plan->plan}, "");
  if (a.data)
    text += wrapped(report_label("data"),
                    {beside(a.data->outcome.step_time) + ": data-parallel alone, " + a.data->plan}, "");
  if (a.own_step > 0)
    text += report_label("own plan") + beside(a.own_step) + (a.own_leaves_headroom ? "" : ", uses the headroom") + "\n";
  text += fmt::format("{}{} of {:.1f} GiB stay free on each GPU\n", report_label("headroom"), percent(a.headroom),
                      a.capacity / (1U << 30));
  return text;
}

std::string plan_screen(const PlanAnswer& a, const Scenario& s) {
  std::string text = question_lines(a, s) + searched_line(a);
  if (const std::string end = end_words(a); !end.empty())
    text += wrapped(report_label(a.ended == SearchEnd::work ? "limit" : "unfinished"), {end}, "");
  if (a.best.empty()) return broken_lines(text + without_plan(a, s));
  const PlanOutcome& best = a.best.front().outcome;
  text += wrapped(report_label("best"), {a.best.front().plan}, "");
  text += fmt::format("{}{} · {} samples/s", report_label("step"), plan_time(best.step_time),
                      thousands(best.samples_per_s));
  if (best.tokens_per_s > 0)
    text += fmt::format(" · {} tokens/s a GPU", thousands(best.tokens_per_s / static_cast<double>(a.gpus)));
  text += fmt::format(" · MFU {:.1f} % · {} of {} GiB a GPU{}\n", best.mfu * 100, gib(best.peak), gib(a.capacity),
                      risk_in_words(best, ", "));
  text += fmt::format(
      "{}compute {} │ exposed communication {} │ bubble {} │ optimizer {} │ other {}\n", report_label(""),
      plan_time(best.compute), plan_time(best.exposed), plan_time(best.bubble), plan_time(best.optimizer),
      plan_time(std::max(0.0, best.step_time - best.compute - best.exposed - best.bubble - best.optimizer)));
  text += doubt_line(a) + safer_line(a) + headroom_line(a);
  if (a.own)
    text += hanging_lines(
        fmt::format("{}{}{}", report_label("yours"),
                    a.own->outcome.fits
                        ? fmt::format("{}, {}{}: ", plan_time(a.own->outcome.step_time),
                                      difference_to_best(a.own->outcome.step_time, best.step_time) + sure_words(*a.own),
                                      a.own->leaves_headroom ? "" : ", uses the headroom")
                        : fmt::format("does not fit ({} GiB,{} more than {}): ", gib(a.own->outcome.peak),
                                      beside_plan(s), programs_have(s)),
                    a.own_is_best ? fmt::format("faster than all {} plans, by values that the search does not try",
                                                a.search.proved ? "searched" : "other simulated")
                                  : a.own->plan),
        kLineWidth, report_label("").size());
  if (a.rule)
    text += hanging_lines(
        fmt::format("{}data, then pipeline, then tensor parallel (rule of thumb): {}, {}: {}", report_label("rule"),
                    plan_time(a.rule->outcome.step_time),
                    difference_to_best(a.rule->outcome.step_time, best.step_time) + sure_words(*a.rule), a.rule->plan),
        kLineWidth, report_label("").size());
  text += flatness_line(a) + trust_lines(s, nullptr, "run --sources", best.doubt.announced(best.step_time));
  text = broken_lines(text);
  text += section("The fastest simulated plans", plan_table(a, a.best, "plan").text("  ", kLineWidth));
  if (best.doubt.announced(1))
    text += "  by the ranges: the step at both ends of the ranges of the announced figures\n";
  if (best.per_million > 0 || best.owned_per_million > 0)
    text += fmt::format("  a million: {} for a million {} by rent and electricity; owned: of bought nodes in use\n",
                        s.prices.currency, best.tokens_per_s > 0 ? "tokens" : "samples");
  if (a.pareto.size() > 1)
    text += section("For less memory (no simulated plan beats these in time and memory)",
                    plan_table(a, a.pareto, "plan").text("  ", kLineWidth));
  if (!a.neighbours.empty())
    text += section("One choice changed",
                    plan_table(a, a.neighbours,
                               a.own_is_best ? "instead of the best searched plan's" : "instead of the best plan's")
                            .text("  ", kLineWidth) +
                        unfit_legend(a.neighbours, s));
  if (!a.upgrades.empty()) {
    std::vector<PlanRow> rows = a.upgrades;
    for (PlanRow& row : rows) row.change = fmt::format("2x {}: {}", row.change, row.plan);
    text += section("With twice as much", plan_table(a, rows, "the best plan then").text("  ", kLineWidth));
  }
  return text;
}

}  // namespace trainyard
