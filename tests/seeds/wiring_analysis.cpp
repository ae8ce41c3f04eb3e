// NVL-01: the rings of the 8-GPU NVLink mesh; SW-01: the leaf-spine with the fewest switches.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/hardware/node.hpp"
#include "tests/seeds/seed_case.hpp"
#include "topologies/analysis/clos_design.hpp"
#include "topologies/analysis/rings.hpp"

namespace trainyard {
namespace {

using RingHops = std::set<std::pair<int, int>>;

RingHops hops_of(const Ring& ring) {
  RingHops hops;
  for (std::size_t i = 0; i < ring.order.size(); ++i)
    hops.insert(std::minmax(ring.order[i], ring.order[(i + 1) % ring.order.size()]));
  return hops;
}

/// Writes hops as "1-2 2-3". `label` renumbers the GPUs; the text counts from 1.
std::string hop_text(const RingHops& hops, const std::vector<int>& label) {
  RingHops renamed;
  for (const auto& [a, b] : hops)
    renamed.insert(std::minmax(label[static_cast<std::size_t>(a)], label[static_cast<std::size_t>(b)]));
  std::string text;
  for (const auto& [a, b] : renamed) text += fmt::format("{}{}-{}", text.empty() ? "" : " ", a + 1, b + 1);
  return text;
}

/// The lecture's numbering of the GPUs follows the double ring, from any start and in either direction. Returns the one
/// in which the single ring has the expected edges, or else the plain numbering.
std::vector<int> lecture_labels(const Ring& double_ring, const RingHops& single_ring, const std::string& expected) {
  const std::size_t n = double_ring.order.size();
  for (std::size_t start = 0; start < n; ++start)
    for (const bool backwards : {false, true}) {
      std::vector<int> label(n);
      for (std::size_t i = 0; i < n; ++i)
        label[static_cast<std::size_t>(double_ring.order[(start + (backwards ? n - i : i)) % n])] = static_cast<int>(i);
      if (hop_text(single_ring, label) == expected) return label;
    }
  std::vector<int> plain(n);
  for (std::size_t i = 0; i < n; ++i) plain[i] = static_cast<int>(i);
  return plain;
}

std::string ring_edges(const Node& inputs, std::string_view key) {
  const std::vector<double> order = numbers_of(inputs, key);
  Ring ring;
  for (const double device : order) ring.order.push_back(static_cast<int>(device) - 1);
  std::vector<int> identity(order.size());
  for (std::size_t i = 0; i < identity.size(); ++i) identity[i] = static_cast<int>(i);
  return hop_text(hops_of(ring), identity);
}

SeedFigures nvl_01(const Node& inputs) {
  const Catalog catalog;
  Fields fields(inputs, "inputs");
  const NodeType node = read_node(catalog.resolve("node", fields.required_child("node")), catalog);
  LinkGraph graph{node.gpus, {}};
  std::vector<int> links(static_cast<std::size_t>(node.gpus));
  for (const NvlinkBundle& bundle : node.nvlink_mesh) {
    graph.bundles.push_back({bundle.a, bundle.b, bundle.links});
    for (const int gpu : {bundle.a, bundle.b}) links[static_cast<std::size_t>(gpu)] += bundle.links;
  }
  const RingDecomposition found = decompose_rings(graph);
  SeedFigures got{{"rings", found.rings.size()}, {"total_links", graph.links()}, {"unused_links", found.unused_links}};
  const auto [fewest, most] = std::minmax_element(links.begin(), links.end());
  got["links_per_gpu"] = *fewest == *most ? *most : -1;
  if (found.rings.size() != 2) return got;
  const RingHops double_ring = hops_of(found.rings[0]), single_ring = hops_of(found.rings[1]);
  const std::vector<int> label = lecture_labels(found.rings[0], single_ring, ring_edges(inputs, "ring_single"));
  got["weights"] = fmt::format("{} {}", found.rings[0].weight, found.rings[1].weight);
  got["edges_double"] = hop_text(double_ring, label);
  got["edges_single"] = hop_text(single_ring, label);
  got["edge_sets_disjoint"] = std::none_of(double_ring.begin(), double_ring.end(),
                                           [&single_ring](const auto& hop) { return single_ring.contains(hop); });
  return got;
}

SeedFigures sw_01(const Node& inputs) {
  SeedFigures got;
  bool even = true;
  for (const double radix : numbers_of(inputs, "radix")) {
    const int ports = static_cast<int>(radix);
    const std::int64_t most = most_clos_hosts(ports, 2);
    const ClosDesign design = design_clos({most, ports, 1, 0});
    got[fmt::format("max_hosts {}", ports)] = most;
    got[fmt::format("leaves {}", ports)] = design.levels.front().switches;
    got[fmt::format("spines {}", ports)] = design.levels.back().switches;
    got[fmt::format("switches {}", ports)] = design.switches;
    even &= design.levels.size() == 2 && design.levels[0].up == design.levels[0].down;
  }
  got["uplinks_eq_downlinks"] = even;
  return got;
}

const RegisterSeed wiring_analysis_seeds[] = {{"NVL-01", nvl_01}, {"SW-01", sw_01}};

}  // namespace
}  // namespace trainyard
