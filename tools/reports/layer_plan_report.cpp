#include "tools/reports/layer_plan_report.hpp"

#include <fmt/format.h>

#include "sim/units.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/reports/table.hpp"

namespace trainyard {
namespace {

/// "0-7", "0-1,8".
std::string ranks_text(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ranks[i]);
    if (last > i) text += fmt::format("-{}", ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string division_text(const LayerDivision& division) {
  TextTable table{{"stage", "layers", "GPUs", "tensor x data", "micro-batch", "after the last", "memory", "split"},
                  {true, false, false, false, true, true, true},
                  {}};
  for (std::size_t i = 0; i < division.stages.size(); ++i) {
    const LayerStage& s = division.stages[i];
    table.rows.push_back({fmt::format("{}", i), s.first == s.last ? s.first : fmt::format("{} - {}", s.first, s.last),
                          ranks_text(s.ranks), fmt::format("{} x {}", s.tensor, s.data), show(Seconds{s.times.time}),
                          show(Seconds{s.times.tail}), fmt::format("{:.1f} GiB", s.peak / (1U << 30)),
                          in_words(s.splits)});
  }
  return table.text("  ");
}

}  // namespace

std::string layer_plan_screen(const LayerPlanAnswer& a) {
  std::string text = fmt::format("{}: {} GPUs, {} micro-batches of {} samples, 1f1b; {} layers simulated alone\n",
                                 a.scenario, a.gpus, a.micro_batches, a.micro_batch, a.simulated);
  text += report_label("best") +
          fmt::format("{} a step (estimated {})\n", show(Seconds{a.best.step}), show(Seconds{a.best.estimate}));
  text += division_text(a.best);
  const auto beside = [&a](double step) {
    return fmt::format("{} a step, {} of the best\n", show(Seconds{step}), percent(step / a.best.step));
  };
  if (a.even) {
    text += report_label("even") + "stages of equally many GPUs: " + beside(a.even->step);
    text += division_text(*a.even);
  }
  if (a.own_step > 0) text += report_label("own plan") + beside(a.own_step);
  return text;
}

}  // namespace trainyard
