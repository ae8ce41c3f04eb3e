#include "topologies/drawings/fabric_text.hpp"

#include <fmt/format.h>

namespace trainyard {

std::vector<FabricRow> fabric_rows(const DeviceGraph& graph, const ClusterSpec& spec) {
  if (!spec.fabric || graph.all(DeviceKind::network_switch).empty()) return {};
  std::vector<FabricRow> rows = spec.fabric->rows(graph, spec);
  const std::string routing = spec.fabric->routing();
  if (!routing.empty()) rows.push_back({"routing", routing, "", true});
  if (!spec.taken_out.empty()) {
    std::vector<std::string> names;
    for (const TakenOut& out : spec.taken_out) names.push_back(out.name);
    rows.push_back({"taken out", fmt::format("{}", fmt::join(names, ", ")), "", true});
  }
  return rows;
}

std::string fabric_lines(const DeviceGraph& graph, const ClusterSpec& spec) {
  std::string text;
  for (const FabricRow& row : fabric_rows(graph, spec))
    text += fmt::format("{}{} {}\n", row.title, row.note ? ":" : ",", row.detail);
  return text;
}

}  // namespace trainyard
