#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/studies/fleet/fleet.hpp"

namespace trainyard {
namespace {

constexpr double kFleetWidth = 1000, kFleetLeft = 150, kLaneHeight = 16, kFleetTop = 56, kUseHeight = 120;
constexpr std::size_t kMostLanes = 100;
constexpr double kPictureDay = 86400;
constexpr const char *kFleetInk = "#222222", *kWaitingFill = "#d8d8d8", *kLateInk = "#cc0000";

/// Returns the numbers of nodes with a training over time: each holds from its time on.
std::map<double, int> nodes_in_use(const FleetAnswer& answer) {
  std::map<double, int> changes{{0, 0}}, use;
  for (const FleetRow& row : answer.rows)
    for (const QueueOutcome::Stay& stay : row.outcome.stays) {
      changes[stay.begin.value] += stay.nodes;
      changes[stay.end.value] -= stay.nodes;
    }
  int nodes = 0;
  for (const auto& [time, change] : changes) use[time] = nodes += change;
  return use;
}

}  // namespace

std::string fleet_picture(const FleetAnswer& answer) {
  const std::size_t lanes = std::min(kMostLanes, answer.rows.size());
  ChartAxis days(0, answer.horizon / kPictureDay);
  for (std::size_t i = 0; i < lanes; ++i) days.include(answer.rows[i].outcome.end.value / kPictureDay);
  const PlotArea area{kFleetLeft, kFleetTop, kFleetWidth - kFleetLeft - 20, static_cast<double>(lanes) * kLaneHeight};
  const PlotArea use{kFleetLeft, area.top + area.height + 50, area.width, kUseHeight};
  const auto x = [&](double seconds) { return area.x(days, seconds / kPictureDay); };
  Svg svg(kFleetWidth, use.top + use.height + 60, "trainings of " + answer.name,
          "a lane for each training from its arrival to its end, and the nodes in use over time");
  svg.text(16, 22, answer.name + ": " + answer.cluster, {.size = 13, .bold = true});
  svg.text(16, 40,
           fmt::format("days; the first {} of {} trainings of run {}; a red line: the deadline of a late one", lanes,
                       answer.rows.size(), answer.shown_run),
           {});
  const TickLabel label = short_number;
  draw_x_axis(svg, area, days, label);
  for (std::size_t i = 0; i < lanes; ++i) {
    const FleetRow& row = answer.rows[i];
    const double top = area.top + static_cast<double>(i) * kLaneHeight, height = kLaneHeight - 3;
    svg.text(kFleetLeft - 8, top + 11, row.name, {.size = 10, .anchor = Svg::Anchor::end});
    svg.rect(x(row.arrival), top + 4, x(row.outcome.end.value) - x(row.arrival), height - 8, kWaitingFill);
    for (const QueueOutcome::Stay& stay : row.outcome.stays)
      svg.bar(x(stay.begin.value), top, x(stay.end.value) - x(stay.begin.value), height, series_color(row.training),
              fmt::format("{}", stay.nodes), "#ffffff");
    if (!row.in_time()) svg.line(x(row.due), top - 1, x(row.due), top + height + 1, {kLateInk, 2});
  }
  ChartAxis nodes(0, answer.nodes);
  draw_x_axis(svg, use, days, label);
  for (const double tick : nodes.ticks(4))
    svg.text(kFleetLeft - 8, use.y(nodes, tick) + 4, short_number(tick), {.anchor = Svg::Anchor::end});
  std::string path = fmt::format("M{} {}", Svg::number(use.x(days, 0)), Svg::number(use.y(nodes, 0)));
  for (const auto& [time, in_use] : nodes_in_use(answer))
    path += fmt::format("H{}V{}", Svg::number(x(time)), Svg::number(use.y(nodes, in_use)));
  svg.path(path + fmt::format("V{}Z", Svg::number(use.y(nodes, 0))), series_color(0), 0.5);
  svg.frame(use.left, use.top, use.width, use.height, "#999999");
  svg.text(use.left, use.top - 8, "nodes with a training", {.fill = kFleetInk, .bold = true});
  std::vector<LegendEntry> legend{{kWaitingFill, "waiting"}};
  for (std::size_t i = 0; i < answer.groups.size(); ++i)
    legend.push_back({series_color(i), answer.groups[i].training + " on so many nodes"});
  const double bottom = use.top + use.height + 34, below = draw_legend(svg, 16, bottom, kFleetWidth - 16, legend);
  svg.resize(kFleetWidth, bottom + below + 16);
  return svg.finish();
}

}  // namespace trainyard
