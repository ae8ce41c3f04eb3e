// Checks the names of a price file against the catalog.
#include "models/energy/price_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "models/energy/prices.hpp"

namespace trainyard {
namespace {

bool is_among(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::any_of(names, [name](const std::string& each) { return same_name(each, name); });
}

class PriceNames {
 public:
  PriceNames(const Catalog& catalog, const std::vector<std::string>& defined)
      : catalog_(catalog), defined_(defined), nodes_(catalog.names("node")), gpus_(catalog.names("gpu")) {}

  void check(const Node& prices) const {
    check_rents(prices, "prices");
    if (const Node* terms = prices.find("reserved"))
      for (std::size_t i = 0; i < terms->items.size(); ++i)
        check_rents(terms->items[i], fmt::format("prices.reserved.{}", i));
    if (const Node* spot = prices.find("spot")) check_rents(*spot, "prices.spot");
    if (const Node* purchase = prices.find("purchase")) {
      check_map(*purchase, "prices.purchase", "node", true, false);
      check_map(*purchase, "prices.purchase", "gpu", false, true);
      check_map(*purchase, "prices.purchase", "owned", true, false);
      check_map(*purchase, "prices.purchase", "delivery", true, true);
    }
    const Node* switches = prices.find("switch");
    if (!switches || switches->kind != Node::Kind::map) return;
    const std::vector<std::string> known = catalog_.names("switch");
    for (const auto& [name, price] : switches->fields)
      if (!is_among(known, name) && !has_entry("switch", name, price.key_place))
        fail(price.key_place, fmt::format("prices.switch: unknown switch \"{}\"{}", name, hint(name, known)));
  }

 private:
  const Catalog& catalog_;
  const std::vector<std::string>& defined_;
  const std::vector<std::string> nodes_, gpus_;

  void check_rents(const Node& map, const std::string& path) const {
    for (const char* key : {"gpu_hour", "node_hour"}) check_map(map, path, key, true, true);
  }

  /// Returns true if there is such an entry in the folder `catalog` beside the file of the prices.
  bool has_entry(const char* kind, const std::string& name, const Place& place) const {
    try {
      catalog_.entry(kind, name, place);
      return true;
    } catch (const UserError&) {
      return false;
    }
  }

  /// Checks the names below a key, which takes nodes, GPUs or both.
  void check_map(const Node& section, const std::string& path, const char* key, bool takes_nodes,
                 bool takes_gpus) const {
    const Node* map = section.find(key);
    if (!map || map->kind != Node::Kind::map) return;
    for (const auto& [name, value] : map->fields) {
      if (std::string_view(key) == "owned" && Purchase::is_network_part(name)) continue;
      const bool is_node = is_among(nodes_, name), is_gpu = is_among(gpus_, name);
      if ((is_node && takes_nodes) || (is_gpu && takes_gpus) || is_among(defined_, name) || name.starts_with("custom-"))
        continue;
      const Place& place = value.key_place;
      if ((takes_nodes && has_entry("node", name, place)) || (takes_gpus && has_entry("gpu", name, place))) continue;
      const std::string what = fmt::format("{}.{}", path, key);
      if (is_gpu) fail(place, fmt::format("{}: {} is a GPU; expected a type of node{}", what, name, nodes_with(name)));
      if (is_node) fail(place, fmt::format("{}: {} is a type of node; expected its GPU{}", what, name, gpu_of(name)));
      std::vector<std::string> legal = takes_nodes ? nodes_ : gpus_;
      if (takes_nodes && takes_gpus) legal.insert(legal.end(), gpus_.begin(), gpus_.end());
      const std::optional<std::string> meant = nearest(name, legal);
      fail(place,
           fmt::format("{}: unknown {} \"{}\"{}", what,
                       !takes_gpus    ? "node"
                       : !takes_nodes ? "GPU"
                                      : "node or GPU",
                       name,
                       meant ? fmt::format("; did you mean \"{}\"?", *meant)
                             : fmt::format("; `trainyard list {}` has the names", takes_nodes ? "nodes" : "gpus")));
    }
  }

  /// ", for example dgx-h100": the nodes with a GPU.
  std::string nodes_with(const std::string& gpu) const {
    constexpr std::size_t most = 4;
    std::vector<std::string> all;
    for (const std::string& node : nodes_)
      if (all.size() < most && same_name(gpu_of_node(catalog_, node), gpu)) all.push_back(node);
    return all.empty() ? "" : fmt::format(" with this GPU, such as {}", fmt::join(all, ", "));
  }

  std::string gpu_of(const std::string& node) const {
    const std::string gpu = gpu_of_node(catalog_, node);
    return gpu.empty() ? "" : ", " + gpu;
  }
};

void collect_scalars(const Node& node, std::vector<std::string>& all) {
  if (node.kind == Node::Kind::scalar) all.push_back(node.scalar);
  for (const Node& item : node.items) collect_scalars(item, all);
  for (const auto& [key, value] : node.fields) collect_scalars(value, all);
}

}  // namespace

std::string gpu_of_node(const Catalog& catalog, const std::string& node) {
  try {
    const Node entry = catalog.resolve("node", Node::scalar_node(node));
    const Node* gpu = entry.find("gpu");
    const Node* type = gpu && gpu->kind == Node::Kind::map ? gpu->find("type") : gpu;
    return type ? type->scalar : "";
  } catch (const UserError&) {
    return "";
  }
}

void check_price_names(const Node& prices, const Catalog& catalog, const std::vector<std::string>& defined) {
  PriceNames(catalog, defined).check(prices);
}

std::vector<std::string> names_in_section(const Node* section) {
  std::vector<std::string> all;
  if (section) collect_scalars(*section, all);
  return all;
}

}  // namespace trainyard
