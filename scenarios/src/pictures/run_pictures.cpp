#include "scenarios/src/pictures/run_pictures.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/src/pictures/chart.hpp"
#include "scenarios/src/pictures/step_picture.hpp"
#include "scenarios/src/pictures/topology_picture.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {

std::string scaling_picture(const std::string& title, const std::vector<ScalingCurve>& curves,
                            const GpusAndRate& baseline) {
  const auto ideal = [&baseline](double gpus) { return baseline.rate * gpus / baseline.gpus; };
  ChartSheet sheet{.title = title,
                   .note = "samples/s over GPUs, both logarithmic; dashed: ideal; %: efficiency",
                   .description = "samples a second over GPUs, and the ideal line from the baseline",
                   .width = 704,
                   .height = 360};
  Chart chart{"", ChartAxis(ChartAxis::Scale::log2), ChartAxis(ChartAxis::Scale::log2)};
  ChartAxis gpus(baseline.gpus, baseline.gpus);
  for (std::size_t c = 0; c < curves.size(); ++c) {
    ChartSeries& series = chart.series.emplace_back(ChartSeries{series_color(c)});
    if (!curves[c].name.empty()) sheet.legend.push_back({series.color, curves[c].name});
    for (const GpusAndRate& p : curves[c].points) {
      gpus.include(p.gpus);
      series.points.push_back({p.gpus, p.rate, fmt::format("{:.0f} %", p.rate / ideal(p.gpus) * 100), true});
    }
  }
  chart.series.push_back({.color = "#888888",
                          .points = {{gpus.lowest(), ideal(gpus.lowest())}, {gpus.highest(), ideal(gpus.highest())}},
                          .dashed = true});
  return charts_svg(sheet, {chart});
}

namespace {

using nlohmann::ordered_json;

/// Returns the bytes that one link of the cluster carries in a step. A folded run records one link of each class.
double bytes_of_step(const StepRun& run, LinkId link) {
  const LinkId seen = run.fold ? run.fold->class_of_link(link) : link;
  return seen < 0 ? 0 : run.traffic_of_steps().on_link(seen).value / run.traffic_steps();
}

/// The load of links in a step: a drawing of one node with the share of time in which each cable is busy, and a row for
/// each class of equal links (`kind`, `from`, `to`, `count`, `rate_Bps`, total `bytes` per step, `busy_mean`,
/// `busy_max`).
ordered_json link_use(const StepRun& run) {
  const DeviceGraph& graph = run.machine.cluster.graph();
  const double step = (run.end_of_steps() - run.begin()) / run.steps();
  // The quotient may exceed 1: a message counts when it arrives, and may have begun before the averaged steps.
  const LinkHeat heat = [&](LinkId id) {
    return std::min(1.0, bytes_of_step(run, id) / graph.links()[id].capacity.value / step);
  };
  ordered_json classes = ordered_json::array();
  for (const LinkClass& c : link_classes(graph)) {
    double bytes = 0, most = 0;
    for (const LinkId link : c.links) {
      bytes += bytes_of_step(run, link);
      most = std::max(most, heat(link));
    }
    if (bytes > 0)
      classes.push_back({{"kind", c.kind},
                         {"from", c.from},
                         {"to", c.to},
                         {"count", c.count},
                         {"rate_Bps", c.rate.value},
                         {"bytes", bytes},
                         {"busy_mean", std::min(1.0, bytes / c.count / c.rate.value / step)},
                         {"busy_max", most}});
  }
  const Actor last = run.last();
  const int node = last < run.scenario.ranks() ? run.scenario.cluster.node_of_gpu(last) : 0;
  return {{"svg", topology_svg(graph, run.machine.cluster.spec(),
                               fmt::format("node{}, and how busy its links are in a step", node), node, heat)},
          {"links", classes}};
}

ordered_json pictures_of(const StepRun& run, const MemoryUse& memory) {
  ordered_json all;
  if (run.records())
    all["timeline"] = step_timeline(run, memory);
  else
    all["left_out"] = fmt::format(
        "{:.2g} million operations are too many to draw; a plan with fewer layers or micro-batches can be drawn",
        run.operations() * run.simulated_ranks() / run.scenario.ranks() * 1e-6);
  all["machine"] = link_use(run);
  return all;
}

}  // namespace

void draw_run(const Scenario& s, const Plan& laid_out, SimulateOptions& options,
              const std::shared_ptr<ordered_json>& pictures) {
  const auto memory = std::make_shared<std::optional<MemoryUse>>();
  options.observe.emplace_back([memory](const StepRun& run) { return &memory->emplace(run.records()); });
  options.path_pieces = true;
  // Ranks that are not in step have no critical path, so their operations need not be recorded.
  const bool in_step = s.plan.mechanism->is_synchronous();
  (in_step || estimated_operations(laid_out) > kMostKept ? options.after : options.watch) =
      [memory, pictures](const StepRun& run) { *pictures = pictures_of(run, **memory); };
}

}  // namespace trainyard
