#include "topologies/fabrics/fabric_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "topologies/cluster.hpp"

namespace trainyard {
namespace {

bool is_fabric_wire(const DeviceGraph& graph, LinkId wire) { return scope_of(graph.kind(wire)) == LinkScope::fabric; }

/// Links that are down count too: a chip whose link has failed is still one of the fabric's ends.
bool has_fabric_wire(const DeviceGraph& graph, DeviceId device) {
  const std::vector<LinkId> wires = graph.links_from(device);
  return std::ranges::any_of(wires, [&graph](LinkId wire) { return is_fabric_wire(graph, wire); });
}

}  // namespace

FabricView::FabricView(const DeviceGraph& g) : graph(g), end_word("chip"), end_(g.devices().size(), 0) {
  for (const DeviceId gpu : graph.devices_of_kind(DeviceKind::gpu))
    if (has_fabric_wire(graph, gpu)) ends.push_back(gpu);
  if (ends.empty()) {
    ends = graph.devices_of_kind(DeviceKind::hca);
    end_word = "HCA";
  }
  for (const DeviceId end : ends) end_[end] = 1;
}

FabricView::FabricView(const DeviceGraph& g, const ClusterSpec& part) : FabricView(g) {
  island_ = part.island;
  std::erase_if(ends, [this, &part](DeviceId end) {
    const int node = graph.devices()[end].node;
    const bool is_in_part = node >= part.first_node && node < part.first_node + part.nodes;
    end_[end] = is_in_part ? 1 : 0;
    return !is_in_part;
  });
}

bool FabricView::contains(DeviceId d) const {
  const Device& device = graph.devices()[d];
  return is_end(d) || (device.kind == DeviceKind::network_switch && (island_ < 0 || device.island == island_));
}

std::vector<LinkId> FabricView::links(DeviceId from) const {
  std::vector<LinkId> found = graph.links_from(from);
  std::erase_if(found, [this](LinkId wire) {
    return !graph.is_up(wire) || !contains(graph.ends(wire).to) || !is_fabric_wire(graph, wire);
  });
  return found;
}

double FabricView::rate(DeviceId end) const {
  double sum = 0;
  for (const LinkId wire : links(end)) sum += capacity(wire);
  return sum;
}

bool FabricView::equal_rates() const {
  double least = 0, most = 0;
  for (const DeviceId end : ends) {
    const double r = rate(end);
    least = end == ends.front() ? r : std::min(least, r);
    most = std::max(most, r);
  }
  return most <= least * (1 + kRateTolerance);
}

std::string FabricView::level_name(DeviceId d) const {
  std::string word = name(d).substr(0, name(d).find('.'));
  return word.erase(word.find_last_not_of("0123456789") + 1);
}

std::string FabricView::count(std::size_t n) const { return fmt::format("{} {}{}", n, end_word, n == 1 ? "" : "s"); }

}  // namespace trainyard
