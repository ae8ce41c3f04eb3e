#include "tools/reports/loop_plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "scenarios/src/answer/memory_verdict.hpp"
#include "sim/process/job.hpp"
#include "sim/units.hpp"
#include "tools/reports/report_lines.hpp"

namespace trainyard {
namespace {

std::string placement_words(const LoopRow& r) {
  const std::string engines = fmt::format("engines of {}", counted_noun(r.engine_gpus, "GPU"));
  if (r.generation_nodes == 0)
    return fmt::format("{} x {} generate, then train{}; {}", r.nodes - r.critic_nodes, r.node,
                       r.critic_nodes > 0 ? fmt::format(", beside {} of a critic", r.critic_nodes) : "", engines);
  return fmt::format("{} of {} x {} {}, {}{}; {}", r.generation_nodes, r.nodes, r.node,
                     r.hybrid ? "only generate, the others generate, then train" : "generate", r.schedule,
                     r.schedule == "asynchronous" ? fmt::format(" with a staleness of {:g}", r.staleness) : "",
                     engines);
}

/// The answers per second with their interval: "24.1 (18.9 to 30.7)". `unit` follows the first number.
std::string rate_with_interval(const LoopRow& r, const char* unit = "") {
  std::string text = fmt::format("{:.3g}{}", r.samples_per_s, unit);
  if (r.likely_samples) text += fmt::format(" ({:.3g} to {:.3g})", r.likely_samples->at(0), r.likely_samples->at(1));
  return text;
}

std::string rate_words(const LoopRow& r) { return rate_with_interval(r, " answers/s"); }

/// A line for each type of node: the fewest of the tried numbers of nodes, and the result of fewer.
std::string fewest_loop_lines(const LoopAnswer& a) {
  std::string text;
  for (const LoopFewest& fewest : a.fewest()) {
    const LoopRow& r = *fewest.row;
    text += fmt::format("{}{} x {}, {}: {}{}; {}\n", report_label(text.empty() ? "fewest" : ""), r.nodes, r.node,
                        counted_noun(r.gpus, "GPU"), rate_words(r),
                        a.currency.empty() ? "" : fmt::format(", {:.4g} {} an hour", r.hour, a.currency),
                        fewest.next_smaller ? fmt::format("{} have {:.3g} at most", fewest.next_smaller->nodes,
                                                          fewest.next_smaller->samples_per_s)
                                            : std::string("no fewer have a placement"));
    // With more nodes, an asynchronous loop may be slower.
    if (a.has_asynchronous && !fewest.untried.empty())
      text += fmt::format("{}not tried: {} nodes\n", report_label(""), fmt::join(fewest.untried, ", "));
  }
  for (const LoopAnswer::Missing& type : a.missing())
    text += fmt::format("{}{}: {}\n", report_label("none of"), type.node,
                        type.fastest ? fmt::format("no tried number of nodes has {} answers/s; {} at most, on {} GPUs",
                                                   a.wanted, rate_words(*type.fastest), type.fastest->gpus)
                                     : "impossible: " + type.error);
  return text;
}

/// A line for each type of node on which fewer nodes are enough if training is one step off.
std::string one_step_off_lines(const LoopAnswer& a) {
  std::string text;
  for (const LoopRow& r : a.one_step_off)
    text += fmt::format(
        "{}one step off (post_training.schedule), {} x {}, {} GPUs: {}{}; answers are then of the policy before\n",
        report_label(text.empty() ? "fewer" : ""), r.nodes, r.node, r.gpus, rate_words(r),
        a.currency.empty() ? "" : fmt::format(", {:.4g} {} an hour", r.hour, a.currency));
  return text;
}

/// The memory of a GPU that trains: "; 36.6 of 80.0 GiB a GPU", with the risk to run out of it unless that is safe.
std::string memory_words(const LoopRow& r) {
  return fmt::format("; {} of {} GiB a GPU{}", gib(r.peak), gib(r.capacity),
                     is_safe_risk(r.risk)
                         ? ""
                         : fmt::format(", which run out of memory with a probability of {:.0f} %", r.risk * 100));
}

/// Lines about a search for layouts: the best layouts, the scenario's loop, other batches and staleness, and the search.
std::string layout_lines(const LoopAnswer& a) {
  if (!a.scenario_loop) return "";
  std::string text;
  const auto line = [&text](const char* label, const std::string& words) {
    text += report_label(label) + words + "\n";
  };
  const LoopRow* best = a.best();
  if (best) {
    line("engines", best->engine);
    line("training", best->training + memory_words(*best));
    line("batch", fmt::format("{} prompts x {} answers", best->prompts, best->samples_per_prompt));
  }
  const LoopRow& stated = *a.scenario_loop;
  const bool is_faster = best && stated.error.empty() && stated.samples_per_s > best->samples_per_s;
  line("scenario", stated.error.empty() ? fmt::format("its own loop has a step of {}, {}{}",
                                                      show(Seconds{stated.step_time}), rate_words(stated),
                                                      !stated.tight.empty() ? "; " + stated.tight
                                                      : is_faster           ? "; --vary leaves it out"
                                                                            : "")
                                        : "its own loop is impossible: " + stated.error);
  for (const LoopRow& r : a.alternatives)
    line(&r == a.alternatives.data() ? "others" : "",
         fmt::format("{} prompts x {} answers, staleness {:g}: {}, a step of {}, {}; training {}", r.prompts,
                     r.samples_per_prompt, r.staleness, placement_words(r), show(Seconds{r.step_time}), rate_words(r),
                     r.training));
  line("searched",
       fmt::format("{} plans of training halves that fit, of which {} were simulated, and {}; {}", a.training_plans,
                   a.training_halves, counted_noun(static_cast<int>(a.loops), "whole loop"),
                   a.proved ? std::string("no other searched layout is faster") +
                                  (a.has_asynchronous ? ", if no engine is faster than with its best batch" : "")
                            : fmt::format("ended by {}: the others take at least {}",
                                          is_interrupted() ? "a signal" : "its limit of work (--work)",
                                          show(Seconds{a.open_bound}))));
  return text;
}

/// The words of an error without the place of an option that the search has set: "--set PATH: ".
std::string without_override(const std::string& error) {
  const std::size_t end = error.starts_with("--set ") ? error.find(": ") : std::string::npos;
  return end == std::string::npos ? error : error.substr(end + 2);
}

/// The meaning of the intervals, and what they do not cover.
std::string loop_interval_words(const LoopAnswer& a) {
  const LoopRow* best = a.best();
  if (!best || !best->likely_samples) return "";
  std::string text =
      "The intervals of 80 % come from the measured steps of validate post-training, each predicted without its model.";
  if (!best->unmeasured.empty()) text += " No measured loop has: " + best->unmeasured + ".";
  if (a.confidence > 0.5)
    text += fmt::format(" A loop that meets the question has these answers with a probability of {:.0f} %.",
                        a.confidence * 100);
  return text + "\n";
}

}  // namespace

std::string loop_plan_screen(const LoopAnswer& a, std::size_t most_rows) {
  std::string text = fmt::format("placements of the post-training loop {}\n", a.scenario);
  const LoopRow* best = a.best();
  if (best)
    text += fmt::format("{}{}: {}, a step of {}, {}{}\n", report_label("best"), placement_words(*best),
                        counted_noun(best->gpus, "GPU"), show(Seconds{best->step_time}), rate_words(*best),
                        a.currency.empty() ? "" : fmt::format(", {:.4g} {} an hour", best->hour, a.currency));
  else
    text +=
        fmt::format("{}no tried placement {}\n", report_label("best"),
                    a.wanted > 0 ? fmt::format("has {} answers/s; more nodes: --most-nodes", a.wanted) : "is possible");
  if (a.wanted > 0) text += fewest_loop_lines(a) + one_step_off_lines(a);
  text += layout_lines(a);
  text = broken_lines(text);
  const bool has_types = std::ranges::any_of(a.rows, [&](const LoopRow& r) { return r.node != a.rows.front().node; });
  TextTable table;
  if (has_types) table.add_column("node", false);
  table.add_column("nodes");
  table.add_column("GPUs");
  const auto batch = [](const LoopRow& r) { return std::pair(r.prompts, r.samples_per_prompt); };
  const bool has_batches = std::ranges::any_of(
      a.rows, [&](const LoopRow& r) { return r.error.empty() && batch(r) != batch(a.rows.front()); });
  if (has_batches) table.add_column("batch");
  table.add_column("schedule", false);
  for (const char* title : {"engine", "step", "generate"}) table.add_column(title);
  table.add_column(a.has_failures ? "goodput" : "train");
  table.add_column("GiB");
  table.add_column("answers/s");
  if (!a.currency.empty())
    for (const char* unit : {"/h", "/M"}) table.add_column(a.currency + unit);
  bool shows_hybrid = false;
  std::vector<LoopRow> shown;
  std::ranges::copy_if(a.rows, std::back_inserter(shown), [](const LoopRow& r) { return r.error.empty(); });
  // If none is fast enough, the fastest ones are of interest.
  if (!best) std::ranges::stable_sort(shown, std::greater(), &LoopRow::samples_per_s);
  for (const LoopRow& r : shown) {
    if (table.rows.size() >= most_rows) break;
    shows_hybrid = shows_hybrid || r.hybrid;
    std::vector<std::string>& row = table.rows.emplace_back();
    if (has_types) row.push_back(r.node);
    row.push_back(r.generation_nodes == 0 ? fmt::format("{}", r.nodes)
                                          : fmt::format("{} of {}", r.generation_nodes, r.nodes));
    row.push_back(fmt::format("{}", r.gpus));
    if (has_batches) row.push_back(fmt::format("{} x {}", r.prompts, r.samples_per_prompt));
    row.push_back(r.schedule == "asynchronous" ? fmt::format("{}, {:g}", r.schedule, r.staleness)
                                               : r.schedule + (r.hybrid ? ", hybrid" : ""));
    row.push_back(a.scenario_loop ? r.engine : fmt::format("{}", r.engine_gpus));
    for (const double seconds : {r.step_time, r.generation}) row.push_back(show(Seconds{seconds}));
    row.push_back(a.has_failures ? percent(r.goodput) : show(Seconds{r.training_half}));
    row.push_back(gib(r.peak));
    row.push_back(rate_with_interval(r));
    if (!a.currency.empty())
      for (const double money : {r.hour, r.million}) row.push_back(fmt::format("{:.4g}", money));
  }
  if (!table.rows.empty()) text += "\n" + table.text("  ");
  if (a.impossible > 0) {
    const auto first = std::ranges::find_if(a.rows, [](const LoopRow& r) { return !r.error.empty(); });
    text += fmt::format("impossible: {}; the first: {}\n", counted_noun(a.impossible, "placement"),
                        without_override(first->error));
  }
  if (!table.rows.empty())
    text +=
        "  nodes: those that only generate, of all; a single number: all generate, then train\n"
        "  schedule: synchronous, one-step-off, or asynchronous with its staleness" +
        std::string(shows_hybrid ? "; hybrid: the others generate too\n" : "\n") +
        std::string(has_batches ? "  batch: prompts of a step x answers to each\n" : "") +
        "  engine: " + std::string(a.scenario_loop ? "degrees of" : "number of GPUs of") +
        " a copy of the model that generates; answers/s: with the interval of 80 %\n" +
        std::string(
            a.has_failures
                ? "  goodput: share of the loop's time in steps that count; answers/s are those of the whole loop\n"
                : "") +
        fmt::format("  GiB: peak memory of a GPU that trains; {:.1f} % of its memory stay free\n",
                    shown.front().headroom * 100) +
        (a.currency.empty() ? "" : fmt::format("  {0}/h: {0} an hour; {0}/M: {0} a million answers\n", a.currency));
  if (!a.assumed_fabric.empty())
    text += fmt::format("  several nodes are joined by {} (cluster.fabric), which the scenario does not state\n",
                        a.assumed_fabric);
  return text + broken_lines(loop_interval_words(a) +
                             "Times are compared: what staleness costs in learning is not counted.\n");
}

}  // namespace trainyard
