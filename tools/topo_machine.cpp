#include "tools/topo_machine.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "topologies/pcie_lanes.hpp"

namespace trainyard {
namespace {

bool is_file_name(const std::string& what) {
  std::error_code ignored;
  return what.ends_with(".yaml") || what.ends_with(".yml") || what.ends_with(".json") ||
         what.find('/') != std::string::npos || std::filesystem::exists(what, ignored);
}

}  // namespace

TopoMachine read_topo_machine(const std::string& what, const std::string& verb, const Overrides& overrides) {
  Node reference;
  if (is_file_name(what)) {
    reference = read_document(what);
    const bool is_node = reference.find("interconnect") || reference.find("base");
    if (!is_node) {
      const Scenario scenario = read_scenario(what, overrides);
      return {scenario.name, scenario.cluster, scenario.software.network_step};
    }
  } else {
    reference.kind = Node::Kind::scalar;
    reference.scalar = what;
    reference.place.file = std::make_shared<const std::string>("trainyard topo " + verb);
  }
  TopoMachine machine;
  machine.cluster.place = reference.place;
  for (const auto& [path, value] : overrides) set_field(reference, path, value);
  const Catalog catalog;
  machine.cluster.node = read_node(catalog.resolve("node", reference), catalog);
  machine.name = machine.cluster.node.name;
  node_builders().find(machine.cluster.node.interconnect, machine.cluster.place);
  try {
    if (has_lane_plan(machine.cluster.node)) plan_lanes(machine.cluster.node);
  } catch (const UserError& e) {
    fail(machine.cluster.place, e.what());
  }
  return machine;
}

}  // namespace trainyard
