#include "tools/reports/loop_plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/units.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/reports/table.hpp"

namespace trainyard {
namespace {

std::string placement_words(const LoopRow& r) {
  const std::string engines = fmt::format("engines of {} GPU{}", r.engine_gpus, r.engine_gpus == 1 ? "" : "s");
  if (r.generation_nodes == 0) return fmt::format("{} x {} generate, then train; {}", r.nodes, r.node, engines);
  return fmt::format("{} of {} x {} generate, {}{}; {}", r.generation_nodes, r.nodes, r.node, r.schedule,
                     r.schedule == "asynchronous" ? fmt::format(" with a staleness of {:g}", r.staleness) : "",
                     engines);
}

/// "24.1 answers/s (18.9 to 30.7)".
std::string rate_words(const LoopRow& r) {
  std::string text = fmt::format("{:.3g} answers/s", r.samples_per_s);
  if (r.likely_samples) text += fmt::format(" ({:.3g} to {:.3g})", r.likely_samples->at(0), r.likely_samples->at(1));
  return text;
}

/// A line for each type of node: the fewest of the tried numbers of nodes, and the result of fewer.
std::string fewest_loop_lines(const LoopAnswer& a) {
  std::string text;
  for (const LoopFewest& fewest : a.fewest()) {
    const LoopRow& r = *fewest.row;
    text += fmt::format(
        "{}{} x {}, {} GPUs: {}{}; {}\n", report_label(text.empty() ? "fewest" : ""), r.nodes, r.node, r.gpus,
        rate_words(r), a.currency.empty() ? "" : fmt::format(", {:.4g} {} an hour", r.hour, a.currency),
        fewest.next_smaller
            ? fmt::format("{} have {:.3g} at most", fewest.next_smaller->nodes, fewest.next_smaller->samples_per_s)
            : std::string("no fewer have a placement"));
  }
  return text;
}

/// The meaning of the intervals, and what they do not cover.
std::string loop_interval_words(const LoopAnswer& a) {
  const LoopRow* best = a.best();
  if (!best || !best->likely_samples) return "";
  std::string text =
      "The intervals of 80 % come from the measured steps of validate post-training, each predicted "
      "without its model.";
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
    text += fmt::format("{}{}: {} GPUs, a step of {}, {}{}\n", report_label("best"), placement_words(*best), best->gpus,
                        show(Seconds{best->step_time}), rate_words(*best),
                        a.currency.empty() ? "" : fmt::format(", {:.4g} {} an hour", best->hour, a.currency));
  else
    text += fmt::format(
        "{}no tried placement {}\n", report_label("best"),
        a.wanted > 0 ? fmt::format("has {:.4g} answers/s; more nodes: --most-nodes", a.wanted) : "is possible");
  if (a.wanted > 0) text += fewest_loop_lines(a);
  text = broken_lines(text);
  const bool has_types =
      std::any_of(a.rows.begin(), a.rows.end(), [&](const LoopRow& r) { return r.node != a.rows.front().node; });
  TextTable table{{"nodes", "generate", "GPUs", "schedule", "staleness", "GPUs of an engine", "step", "generation",
                   "training half", "answers/s", "80 %"},
                  {true, true, true, false, true, true, true, true, true, true, true},
                  {}};
  if (has_types) {
    table.head.insert(table.head.begin(), "node");
    table.right.insert(table.right.begin(), false);
  }
  if (!a.currency.empty())
    for (const char* unit : {" an hour", " a million answers"}) {
      table.head.push_back(a.currency + unit);
      table.right.push_back(true);
    }
  for (const LoopRow& r : a.rows) {
    if (!r.error.empty() || table.rows.size() >= most_rows) continue;
    std::vector<std::string> row{
        fmt::format("{}", r.nodes),       r.generation_nodes == 0 ? "all" : fmt::format("{}", r.generation_nodes),
        fmt::format("{}", r.gpus),        r.schedule,
        fmt::format("{:g}", r.staleness), fmt::format("{}", r.engine_gpus)};
    if (has_types) row.insert(row.begin(), r.node);
    for (const double seconds : {r.step_time, r.generation, r.training_half}) row.push_back(show(Seconds{seconds}));
    row.push_back(fmt::format("{:.3g}", r.samples_per_s));
    row.push_back(r.likely_samples ? fmt::format("{:.3g} to {:.3g}", r.likely_samples->at(0), r.likely_samples->at(1))
                                   : "");
    if (!a.currency.empty())
      for (const double money : {r.hour, r.million}) row.push_back(fmt::format("{:.4g}", money));
    table.rows.push_back(std::move(row));
  }
  if (!table.rows.empty()) text += "\n" + table.text("  ");
  if (a.impossible > 0) {
    const auto first = std::find_if(a.rows.begin(), a.rows.end(), [](const LoopRow& r) { return !r.error.empty(); });
    text += fmt::format("impossible: {} placements; the first: {}\n", a.impossible, first->error);
  }
  if (!table.rows.empty())
    text += "  engine: a copy of the model that generates answers; 80 %: answers/s with that probability\n";
  return text + broken_lines(loop_interval_words(a) +
                             "Times are compared: what staleness costs in learning is not counted.\n");
}

}  // namespace trainyard
