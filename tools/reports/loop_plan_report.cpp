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
  if (r.generation_nodes == 0) return fmt::format("{} nodes generate, then train; {}", r.nodes, engines);
  return fmt::format("{} of {} nodes generate, {}{}; {}", r.generation_nodes, r.nodes, r.schedule,
                     r.schedule == "asynchronous" ? fmt::format(" with a staleness of {:g}", r.staleness) : "",
                     engines);
}

}  // namespace

std::string loop_plan_screen(const LoopAnswer& a, std::size_t most_rows) {
  std::string text = fmt::format("placements of the post-training loop {}\n", a.scenario);
  const LoopRow* best = a.best();
  if (best)
    text +=
        fmt::format("{}{}: {} GPUs, a step of {}, {:.3g} answers/s{}\n", report_label(a.wanted > 0 ? "fewest" : "best"),
                    placement_words(*best), best->gpus, show(Seconds{best->step_time}), best->samples_per_s,
                    a.currency.empty() ? "" : fmt::format(", {:.4g} {} an hour", best->hour, a.currency));
  else
    text += fmt::format(
        "{}no tried placement {}\n", report_label("best"),
        a.wanted > 0 ? fmt::format("has {:.4g} answers/s; more nodes: --most-nodes", a.wanted) : "is possible");
  TextTable table{{"nodes", "generate", "GPUs", "schedule", "staleness", "GPUs of an engine", "step", "generation",
                   "training half", "answers/s"},
                  {true, true, true, false, true, true, true, true, true, true},
                  {}};
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
    for (const double seconds : {r.step_time, r.generation, r.training_half}) row.push_back(show(Seconds{seconds}));
    row.push_back(fmt::format("{:.3g}", r.samples_per_s));
    if (!a.currency.empty())
      for (const double money : {r.hour, r.million}) row.push_back(fmt::format("{:.4g}", money));
    table.rows.push_back(std::move(row));
  }
  if (!table.rows.empty()) text += "\n" + table.text("  ");
  if (a.impossible > 0) {
    const auto first = std::find_if(a.rows.begin(), a.rows.end(), [](const LoopRow& r) { return !r.error.empty(); });
    text += fmt::format("impossible: {} placements; the first: {}\n", a.impossible, first->error);
  }
  return text +
         "Engines are the copies of the model that generate answers. Times are compared: what staleness costs in "
         "learning "
         "is not counted.\n";
}

}  // namespace trainyard
