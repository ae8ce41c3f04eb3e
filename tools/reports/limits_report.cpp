#include "tools/reports/report.hpp"

#include <fmt/format.h>

#include "scenarios/src/search/axis_limits.hpp"
#include "sim/units.hpp"
#include "tools/reports/report_lines.hpp"
#include "tools/reports/table.hpp"

namespace trainyard {
namespace {

std::string knee_text(const AxisLimit& axis) {
  const AxisPoint& first = axis.points.front();
  const auto point_of = [&axis](int gpus) -> const AxisPoint& {
    for (const AxisPoint& point : axis.points)
      if (point.gpus == gpus) return point;
    return axis.points.front();
  };
  const AxisPoint &most = point_of(axis.most), &half = point_of(axis.half);
  std::string text;
  const std::string fewest = first.gpus == 1 ? "one" : fmt::format("{}", first.gpus);
  if (axis.points.size() == 1 && axis.end.empty())
    text = fmt::format("only {} GPU{} tried", fewest, first.gpus == 1 ? " was" : "s were");
  else if (axis.points.size() == 1)
    text =
        fmt::format("only {} GPU{} possible of the numbers that were tried", fewest, first.gpus == 1 ? " is" : "s are");
  else if (axis.most == first.gpus)
    text = fmt::format("more than {} GPU{} not help", fewest, first.gpus == 1 ? " does" : "s do");
  else
    text = fmt::format("{} GPUs {}, {:.3g} times as fast as {}, efficiency {}", axis.most,
                       axis.most < axis.points.back().gpus ? "are the most that help"
                       : axis.end.empty()                  ? "are the fastest that were simulated"
                                                           : "are the most of the tried ones that are possible",
                       most.rate / first.rate, fewest, percent(most.efficiency));
  if (axis.half < axis.most && axis.half == first.gpus)
    text += fmt::format("; already {} give less than half of their ideal gain, compared with {}",
                        counted_noun(axis.points[1].gpus, "GPU"), fewest);
  else if (axis.half < axis.most)
    text += fmt::format("; beyond {} (efficiency {}), more GPUs give less than half of their ideal gain", axis.half,
                        percent(half.efficiency));
  return text + "\n";
}

}  // namespace

std::string limits_screen(const AxisLimits& limits) {
  std::string text = fmt::format("{}: {} a step, each kind of parallelism by itself\n", limits.scenario,
                                 counted_noun(limits.batch, "sample"));
  for (const AxisLimit& axis : limits.axes)
    if (!axis.points.empty()) text += report_label(axis.axis.c_str()) + knee_text(axis);
  TextTable table{"", ">GPUs", ">micro-batch", ">step", ">speed-up", ">efficiency", ">memory"};
  for (const AxisLimit& axis : limits.axes)
    for (const AxisPoint& point : axis.points)
      table.rows.push_back({axis.axis, fmt::format("{}", point.gpus), counted(point.micro_batch),
                            show(Seconds{point.step_time}),
                            fmt::format("{:.2f}", point.rate / axis.points.front().rate), percent(point.efficiency),
                            fmt::format("{:.1f} GiB{}", point.peak / (1U << 30), point.fits ? "" : " (too much)")});
  text += "\n" + table.text("  ");
  for (const AxisLimit& axis : limits.axes)
    if (!axis.end.empty()) text += fmt::format("{} ends: {}\n", axis.axis, axis.end);
  return text;
}

}  // namespace trainyard
