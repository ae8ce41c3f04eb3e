#include "scenarios/src/pictures/link_use.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/src/pictures/topology_picture.hpp"
#include "scenarios/src/pictures/views.hpp"

namespace trainyard {
namespace {

/// Bytes that one link of the cluster carries in a step. A folded run knows one link of each class.
double bytes_of_step(const StepRun& run, LinkId link) {
  const LinkId seen = run.fold ? run.fold->class_of_link(link) : link;
  return seen < 0 ? 0 : run.traffic_of_steps().on_link(seen).value / run.traffic_steps();
}

}  // namespace

nlohmann::ordered_json link_use(const StepRun& run) {
  const DeviceGraph& graph = run.machine.cluster.graph();
  const double step = (run.end_of_steps() - run.begin()) / run.steps();
  const LinkHeat heat = [&](LinkId id) { return bytes_of_step(run, id) / graph.links()[id].capacity.value / step; };
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
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
                         {"busy_mean", bytes / c.count / c.rate.value / step},
                         {"busy_max", most}});
  }
  const Actor last = run.last();
  const int node = last < run.scenario.ranks() ? run.scenario.cluster.node_of_gpu(last) : 0;
  return {{"svg", topology_svg(graph, run.machine.cluster.spec(),
                               fmt::format("node{}, and how busy its links are in a step", node), node, heat)},
          {"links", classes}};
}

}  // namespace trainyard
