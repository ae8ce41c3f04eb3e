#include "tools/reports/layer_plan_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/units.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/reports/table.hpp"

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

}  // namespace

std::string layer_plan_screen(const LayerPlanAnswer& a) {
  std::string text = fmt::format("{}: {} GPUs, {} samples a step; {} layers simulated alone\n", a.scenario, a.gpus,
                                 a.micro_batches * a.micro_batch, a.simulated);
  text += best_lines(a);
  const auto beside = [&a](double step) {
    return fmt::format("{} a step, {} of the best", show(Seconds{step}), percent(step / a.best_step()));
  };
  text += wrapped(report_label("stages"),
                  {beside(a.division.step) + fmt::format(" (estimated {})", show(Seconds{a.division.estimate})),
                   fmt::format("on as many GPUs as help, by 1f1b in the plan's {} micro-batches of {} samples",
                               a.micro_batches, a.micro_batch)},
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

}  // namespace trainyard
