#include "scenarios/src/search/size_nodes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/src/search/plan_question.hpp"
#include "scenarios/src/search/size_on_tpus.hpp"

namespace trainyard {
namespace {

Node text_of_size(const std::string& text) { return Node::scalar_node(text, Place::named("size")); }

/// Returns the node type of this name, or all node types with the chip of this name.
std::vector<std::string> nodes_called(const Catalog& catalog, const std::string& name) {
  const std::vector<std::string> nodes = catalog.names("node"), chips = catalog.names("gpu");
  const auto has = [&name](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has(nodes) || !has(chips)) return {name};
  std::vector<std::string> all;
  for (const std::string& node : nodes)
    if (read_node(catalog.resolve("node", text_of_size(node)), catalog).gpu.name == name) all.push_back(node);
  if (all.empty()) throw UserError(fmt::format("size: no node of the catalog has the chip {}", name));
  return all;
}

std::vector<std::string> node_names(const Catalog& catalog, const std::vector<std::string>& requested) {
  if (requested.empty()) return catalog.names("node");
  std::vector<std::string> all;
  for (const std::string& name : requested)
    for (const std::string& node : nodes_called(catalog, name))
      if (std::find(all.begin(), all.end(), node) == all.end()) all.push_back(node);
  return all;
}

}  // namespace

std::vector<NodeType> sized_nodes(const Catalog& catalog, const std::vector<std::string>& names, const Prices& prices,
                                  bool purchase, std::vector<std::string>& left_out) {
  std::vector<NodeType> all;
  const bool chosen = !names.empty();
  for (const std::string& name : node_names(catalog, names)) {
    const NodeType node = read_node(catalog.resolve("node", text_of_size(name)), catalog);
    std::string why;
    if (node.gpu.peak[static_cast<std::size_t>(Precision::bf16)].value <= 0) why = "no bf16";
    if (node.hcas == 0 && node.fabric.empty()) why = "no adapter";
    if (!chosen && node.gpu.memory_capacity < Bytes{32e9}) why = "less than 32 GB a GPU";
    if (!chosen && is_tpu(node) && !prices.is_given()) why = "TPU: considered only if it is named or has a price";
    if (prices.is_given()) try {
        if (purchase)
          prices.purchase.node_price(node.name, node.gpu.name, node.gpus, 1);
        else if (prices.gpu_hour(node.name, node.gpu.name, node.gpus) <= 0 && prices.kwh <= 0)
          fail(prices.place, "prices: no rent of " + node.name + "; --purchase compares purchase prices");
      } catch (const UserError&) {
        if (chosen) throw;
        why = "no price";
      }
    if (chosen && !why.empty()) throw UserError(fmt::format("size: {}: {}", name, why));
    if (why.empty())
      all.push_back(node);
    else if (why == "no price" || is_tpu(node))
      left_out.push_back(fmt::format("{} ({})", name, why));
  }
  if (all.empty()) throw UserError("size: no node type is left; --prices has no price of one that trains in bf16");
  return all;
}

std::optional<SizeSiteLimit> site_limit(const Site& site, const NodeType& node) {
  if ((site.power.value > 0 || site.rack_power.value > 0) && !node.gpu.power.is_given())
    throw UserError(fmt::format("the power of {} is not stated", node.gpu.name));
  const double power = node.most_power().value;
  constexpr double most_nodes = 1e9;
  std::optional<SizeSiteLimit> least;
  const auto limit = [&](const std::string& name, double nodes) {
    if (!least || nodes < least->nodes)
      least = SizeSiteLimit{node.name, static_cast<int>(std::min(nodes, most_nodes)), name};
  };
  if (site.power.value > 0) limit("power", std::floor(site.power.value / (power * site.pue)));
  if (site.racks > 0 && site.rack_power.value > 0)
    limit("rack_power", site.racks * std::floor(site.rack_power.value / power));
  if (site.racks > 0 && (site.rack_nodes > 0 || site.rack_power.value <= 0))
    limit(site.rack_nodes > 0 ? "rack_nodes" : "racks", 1.0 * site.racks * std::max(1, site.rack_nodes));
  if (site.ports > 0 && node.hcas > 0) limit("ports", std::floor(1.0 * site.ports / node.hcas));
  return least;
}

Node sized_scenario(const Node& original, const std::string& model, const NodeType& node, int nodes, bool searched) {
  Node document = original;
  Node& plan = *document.find("plan");
  if (!model.empty()) set_field(document, "model", text_of_size(model));
  Node cluster = Node::empty_map(document.place);
  const Node* own_cluster = document.find("cluster");
  const Node* fabric = own_cluster ? own_cluster->find("fabric") : nullptr;
  cluster.fields.emplace_back("node", text_of_size(node.name));
  cluster.fields.emplace_back("nodes", text_of_size(fmt::format("{}", nodes)));
  if (nodes > 1 && node.fabric.empty())
    cluster.fields.emplace_back("fabric", fabric ? *fabric : text_of_size("nonblocking"));
  set_field(document, "cluster", std::move(cluster));
  if (is_tpu(node)) put_on_tpus(document);
  std::erase_if(document.fields, [](const auto& field) { return field.first == "faults"; });
  if (searched) std::erase_if(plan.fields, [](const auto& field) { return field.first == "training"; });
  if (searched) return document;
  plan = without_choices(plan);
  std::erase_if(plan.fields, [](const auto& field) { return field.first == "pipeline" || field.first == "strategy"; });
  set_field(plan, "micro_batch_size", text_of_size("1"));
  set_field(plan, "data_parallel", Node::empty_map(plan.place));
  set_field(plan, "data_parallel.size", text_of_size("1"));
  set_field(plan, "idle_devices", text_of_size("allowed"));
  return document;
}

}  // namespace trainyard
