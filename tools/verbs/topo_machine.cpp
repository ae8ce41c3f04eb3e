#include "tools/verbs/topo_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/reading/read_cluster.hpp"
#include "topologies/nodes/pcie_tree.hpp"

namespace trainyard {
namespace {

bool is_file_name(const std::string& what) {
  std::error_code ignored;
  if (what.ends_with(".yaml") || what.ends_with(".yml") || what.ends_with(".json") ||
      what.find('/') != std::string::npos || std::filesystem::exists(what, ignored))
    return true;
  const std::vector<std::string> nodes = Catalog().names("node");
  const bool is_node = std::ranges::any_of(nodes, [&](const auto& name) { return same_name(name, what); });
  return !is_node && shipped_scenario(what);
}

TopoMachine one_node(const Node& reference) {
  TopoMachine machine;
  machine.cluster.place = reference.place;
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

/// A cluster of several nodes, read as the `cluster` of a scenario.
TopoMachine several_nodes(Node reference, const std::string& nodes, Node fabric) {
  Node cluster = Node::empty_map(nodes.empty() ? reference.place : Place::named("--nodes " + nodes));
  set_from_flag(cluster, "nodes", "--nodes", nodes);
  set_field(cluster, "node", std::move(reference));
  if (fabric.kind != Node::Kind::null) set_field(cluster, "fabric", std::move(fabric));
  TopoMachine machine;
  machine.cluster = read_cluster(cluster, Catalog());
  machine.name = machine.cluster.node.name;
  return machine;
}

}  // namespace

void TopoMachineArguments::add_to(Arguments& arguments) {
  arguments.positional("SCENARIO|NODE", what_, "a scenario file, or a node of the catalog");
  add_others_to(arguments);
}

void TopoMachineArguments::add_to(Arguments& arguments, const std::string& flag) {
  flag_ = flag;
  arguments.option(flag, what_, "SCENARIO|NODE", "a scenario file, or a node of the catalog");
  add_others_to(arguments);
}

void TopoMachineArguments::add_others_to(Arguments& arguments) {
  arguments.option("--nodes", nodes_, "N", "number of nodes (with a node of the catalog)");
  arguments.option(
      "--fabric", fabric_, "NAME|YAML",
      "the fabric between the nodes: one of the catalog, or in a scenario's form: '{type: torus, dims: [4, 4], ...}'");
  arguments.repeated_flag("--set", sets_, "PATH=VALUE",
                          "override a field of the scenario or of the node (fabric.*: of the fabric); may be repeated");
}

TopoMachine TopoMachineArguments::read(const std::string& verb, const std::optional<Node>& document) const {
  if (what_.empty())
    throw UserError(fmt::format("trainyard {}: on which machine? --on NODE or SCENARIO expected", verb));
  const Overrides overrides = parse_overrides(sets_);
  Node reference, fabric;
  if (document || is_file_name(what_)) {
    reference = document ? *document : read_document(scenario_file(what_));
    const bool is_node = reference.find("interconnect") || reference.find("base");
    if (!is_node) {
      if (!nodes_.empty() || !fabric_.empty())
        throw UserError(
            fmt::format("trainyard {}: {} is a scenario, which has nodes and fabric of its own: --set cluster.{}=...",
                        verb, what_, nodes_.empty() ? "fabric" : "nodes"));
      const Scenario scenario = document
                                    ? read_scenario(*document, std::filesystem::path(what_).stem().string(), overrides)
                                    : read_scenario(what_, overrides);
      return {scenario.name,     scenario.cluster, scenario.software.network_step,
              scenario.software, scenario.slow,    scenario.plan.mesh};
    }
  } else {
    reference = Node::scalar_node(what_, Place::named(flag_.empty() ? "trainyard " + verb : flag_));
  }
  if (!fabric_.empty()) fabric = parse_override(fabric_, "--fabric");
  for (const auto& [path, value] : overrides)
    if (const std::string of_fabric = "fabric."; path.starts_with(of_fabric) && !fabric_.empty())
      set_field(fabric, path.substr(of_fabric.size()), value);
    else
      set_field(reference, path, value);
  if (nodes_.empty() && fabric_.empty()) return one_node(reference);
  return several_nodes(std::move(reference), nodes_, std::move(fabric));
}

void check_root(Operation operation, int root, int ranks) {
  if (!has_root(operation)) {
    if (root != 0)
      throw UserError(fmt::format("--root {}: {} has no root; broadcast, reduce, gather and scatter have one", root,
                                  name_of(operation)));
  } else if (root < 0 || root >= ranks) {
    throw UserError(fmt::format("--root {}: a {} of {} has the roots 0 to {}", root, name_of(operation),
                                counted_noun(ranks, "rank"), ranks - 1));
  }
}

}  // namespace trainyard
