#include "scenarios/src/pictures/topology_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "scenarios/src/pictures/svg.hpp"
#include "topologies/drawings/topology_text.hpp"

namespace trainyard {
namespace {

constexpr double kSlotWidth = 90, kBoxWidth = 80, kBoxHeight = 36, kMargin = 16;
constexpr double kTitleRow = 28, kCpuRow = 48, kRowStep = 80;

constexpr const char *kPcie = "#777777", *kNvlink = "#1b6e1b", *kSocketLink = "#3465a4", *kFabric = "#b5731a",
                     *kDown = "#cc0000";

constexpr std::array kRailColours{"#b3402e", "#2b6cb0", "#2f855a", "#a66f12",
                                  "#6b46c1", "#0d7c86", "#b83280", "#4a5568"};

const char* colour_of_rail(std::size_t rail) { return kRailColours[rail % kRailColours.size()]; }

/// The picture of one node: the positions of its devices, and the drawing so far.
class NodeDrawing {
 public:
  NodeDrawing(const DeviceGraph& graph, const ClusterSpec& spec, int node, const LinkHeat& heat)
      : graph_(graph), spec_(spec), rows_(fabric_rows(graph, spec)), heat_(heat), node_(node) {
    if (spec.has_islands())  // the cables of the node's adapters lead to the first row
      std::ranges::stable_partition(
          rows_, [island = spec.island_of(node)](const FabricRow& row) { return row.island == island && !row.note; });
    place_devices();
    find_rails();
  }
  std::string draw(const std::string& title);

 private:
  struct Spot {
    double x = 0, y = 0;  // middle of the upper edge
    LinkId up = -1;       // link towards the CPU
  };

  const Device& device(DeviceId id) const { return graph_.devices()[id]; }
  const Link& link(LinkId id) const { return graph_.links()[id]; }
  bool inside(LinkId id) const {
    return device(graph_.ends(id).from).node == node_ && device(graph_.ends(id).to).node == node_;
  }
  void place_devices();
  int switch_depth(DeviceId, std::set<DeviceId>& seen) const;
  double place(DeviceId, LinkId up, int depth);
  std::string busy(LinkId) const;
  void box(DeviceId, const Spot&);
  std::string rate_text(LinkId up) const;
  void draw_pcie();
  void draw_socket_links();
  void draw_nvlinks();
  void draw_nvlink(LinkId, double slowest);
  void draw_fabric();
  double draw_rails(double y);
  void find_rails();
  DeviceId nearest_adapter(DeviceId gpu) const;
  const char* rail_colour(DeviceId) const;

  const DeviceGraph& graph_;
  const ClusterSpec& spec_;
  std::vector<FabricRow> rows_;
  const LinkHeat& heat_;
  int node_;
  std::map<DeviceId, Spot> spots_;
  std::map<DeviceId, std::size_t> rail_of_;      // rails of adapters, and of GPUs by their adapters; empty: no rails
  std::map<std::size_t, DeviceId> rail_switch_;  // the switch of the node's adapter on each rail
  double slots_ = 0, device_row_ = 0, bottom_ = 0, wanted_width_ = 0;
  Svg behind_{0, 0, ""}, svg_{0, 0, ""};  // `behind_`: fabric cables, drawn behind the rest
};

/// Returns the number of rows of PCIe switches below a device.
int NodeDrawing::switch_depth(DeviceId id, std::set<DeviceId>& seen) const {
  int depth = 0;
  for (const LinkId down : graph_.links_from(id)) {
    const DeviceId to = graph_.ends(down).to;
    if (scope_of(graph_.kind(down)) != LinkScope::pcie || device(to).kind != DeviceKind::pcie_switch ||
        !seen.insert(to).second)
      continue;
    depth = std::max(depth, 1 + switch_depth(to, seen));
  }
  return depth;
}

/// Places a device. Leaves of the tree take the next place in the row; a device above others is centred over them.
double NodeDrawing::place(DeviceId id, LinkId up, int depth) {
  const DeviceKind kind = device(id).kind;
  const bool above = kind == DeviceKind::cpu || kind == DeviceKind::pcie_switch;
  spots_[id] = {0, above ? kCpuRow + depth * kRowStep : device_row_, up};
  double first = -1, last = -1;
  for (const LinkId down : graph_.links_from(id)) {
    const DeviceId to = graph_.ends(down).to;
    if (scope_of(graph_.kind(down)) != LinkScope::pcie || spots_.contains(to)) continue;
    last = place(to, down, depth + 1);
    if (first < 0) first = last;
  }
  if (first < 0) first = last = kMargin + (slots_++ + 0.5) * kSlotWidth;
  return spots_[id].x = (first + last) / 2;
}

/// Places devices from the sockets down, then devices without a socket. All NVSwitches are one box below.
void NodeDrawing::place_devices() {
  std::vector<DeviceId> roots = graph_.devices_of_kind(DeviceKind::cpu, node_);
  std::set<DeviceId> seen;
  int depth = 1;
  for (const DeviceKind kind : {DeviceKind::pcie_switch, DeviceKind::gpu, DeviceKind::hca, DeviceKind::nvme})
    for (const DeviceId id : graph_.devices_of_kind(kind, node_)) roots.push_back(id);
  for (const DeviceId root : roots) depth = std::max(depth, switch_depth(root, seen));
  device_row_ = kCpuRow + (depth + 1) * kRowStep;
  bottom_ = device_row_ + kBoxHeight;
  for (const DeviceId root : roots)
    if (!spots_.contains(root)) place(root, -1, device(root).kind == DeviceKind::pcie_switch ? 1 : 0);
}

std::string NodeDrawing::busy(LinkId id) const {
  if (!heat_) return "";
  const double share = std::max(heat_(id), heat_(id ^ 1));
  return share < 0 ? ""
                   : fmt::format(" data-link=\"{}\" data-busy=\"{:.6g}\"", Svg::escape(link(id).name.text()), share);
}

/// Writes rates short enough for a box; a drive has a read and a write rate.
std::string NodeDrawing::rate_text(LinkId up) const {
  if (device(graph_.ends(up).to).kind != DeviceKind::nvme) return show(link(up).capacity);
  return fmt::format("r {:.3g} w {:.3g} GB/s", link(up ^ 1).capacity.value * 1e-9, link(up).capacity.value * 1e-9);
}

void NodeDrawing::box(DeviceId id, const Spot& spot) {
  const std::string& name = device(id).name;
  std::string below = spot.up >= 0 ? rate_text(spot.up) : "";
  if (const LinkId memory = device(id).kind == DeviceKind::cpu ? graph_.host(id).memory : -1; memory >= 0)
    below = fmt::format("mem {}", show(link(memory).capacity));
  const char* rail = rail_colour(id);
  svg_.box(spot.x - kBoxWidth / 2, spot.y, kBoxWidth, kBoxHeight, fill_of(device(id).kind), rail ? rail : "#555555",
           name.substr(name.find('/') + 1), below);
  if (rail && device(id).kind == DeviceKind::gpu)
    svg_.text(spot.x, spot.y - 4, fmt::format("rail {}", rail_of_.at(id)),
              {.size = 9, .fill = rail, .anchor = Svg::Anchor::middle, .bold = true, .halo = true});
  if (spot.up >= 0 && graph_.medium(spot.up) >= 0)
    svg_.text(spot.x, spot.y - 4, "half duplex",
              {.size = 9, .fill = "#a40000", .anchor = Svg::Anchor::middle, .halo = true});
}

/// Draws a line up from each box. Links that close a loop are dashed.
void NodeDrawing::draw_pcie() {
  for (const auto& [id, spot] : spots_)
    if (spot.up >= 0) {
      const Spot& above = spots_.at(graph_.ends(spot.up).from);
      const bool up = graph_.is_up(spot.up);
      svg_.line(above.x, above.y + kBoxHeight, spot.x, spot.y, {up ? kPcie : kDown, 1, up ? "" : "2 3", busy(spot.up)});
    }
  for (LinkId id = 0; id < static_cast<LinkId>(graph_.wires().size()); id += 2) {
    if (scope_of(graph_.kind(id)) != LinkScope::pcie || !inside(id)) continue;
    const Spot &a = spots_.at(graph_.ends(id).from), &b = spots_.at(graph_.ends(id).to);
    if (a.up == (id ^ 1) || b.up == id) continue;
    svg_.line(a.x, a.y + kBoxHeight / 2, b.x, b.y + kBoxHeight / 2, {kPcie, 1, "5 3", busy(id)});
  }
}

/// Joins neighbouring sockets by a straight line, others by an arc above.
void NodeDrawing::draw_socket_links() {
  for (LinkId id = 0; id < static_cast<LinkId>(graph_.wires().size()); id += 2) {
    if (graph_.kind(id) != LinkKind::socket || !inside(id)) continue;
    const Spot &a = spots_.at(graph_.ends(id).from), &b = spots_.at(graph_.ends(id).to);
    const bool neighbours = device(graph_.ends(id).to).index - device(graph_.ends(id).from).index == 1;
    const double y = a.y + kBoxHeight / 2, middle = (a.x + b.x) / 2;
    if (!neighbours) {
      svg_.curve(fmt::format("M {0:g} {2:g} Q {1:g} {3:g} {4:g} {2:g}", a.x, middle, a.y, a.y - 30, b.x),
                 {kSocketLink, 1, "", busy(id)});
      continue;
    }
    svg_.line(a.x + kBoxWidth / 2, y, b.x - kBoxWidth / 2, y, {kSocketLink, 2, "", busy(id)});
    // Between neighbouring boxes there is less room than the rate needs; it then stands above them.
    const std::string rate = show(link(id).capacity);
    const bool has_room = Svg::text_width(rate, 10) < b.x - a.x - kBoxWidth;
    svg_.text(middle, has_room ? y - 5 : a.y - 4, rate,
              {.size = 10, .fill = kSocketLink, .anchor = Svg::Anchor::middle, .halo = true});
  }
}

/// Draws an arc below the GPUs, whose width grows with the rate, or a line to the box of the NVSwitches.
void NodeDrawing::draw_nvlink(LinkId id, double slowest) {
  const double top = device_row_ + kBoxHeight;
  const DeviceGraph::End end = graph_.ends(id);
  const auto from = spots_.find(end.from), to = spots_.find(end.to);
  if (from == spots_.end() || to == spots_.end()) {  // NVSwitches have no positions
    const auto gpu = from == spots_.end() ? to : from;
    if (gpu != spots_.end()) svg_.line(gpu->second.x, top, gpu->second.x, top + 40, {kNvlink, 2, "", busy(id)});
    return;
  }
  const double x = from->second.x, target = to->second.x, depth = 20 + std::abs(target - x) * 0.3;
  const double links = link(id).capacity.value / slowest;
  svg_.curve(fmt::format("M {0:g} {1:g} C {0:g} {2:g} {3:g} {2:g} {3:g} {1:g}", x, top, top + depth, target),
             {links > 1.5 ? kNvlink : "#7cc47c", std::min(6.0, 1.2 * links), "", busy(id)});
  bottom_ = std::max(bottom_, top + 0.75 * depth);  // lowest point of the curve
}

void NodeDrawing::draw_nvlinks() {
  const double top = device_row_ + kBoxHeight;
  double slowest = std::numeric_limits<double>::max(), fastest = 0;
  const auto for_each_nvlink = [this](auto visit) {
    for (LinkId id = 0; id < static_cast<LinkId>(graph_.wires().size()); id += 2)
      if (graph_.kind(id) == LinkKind::nvlink && inside(id)) visit(id);
  };
  for_each_nvlink([&](LinkId id) {
    slowest = std::min(slowest, link(id).capacity.value);
    fastest = std::max(fastest, link(id).capacity.value);
  });
  if (fastest == 0) return;
  for_each_nvlink([&](LinkId id) { draw_nvlink(id, slowest); });
  if (!graph_.devices_of_kind(DeviceKind::nvswitch, node_).empty()) {
    bottom_ = std::max(bottom_, top + 70);
    svg_.box(kMargin, top + 40, slots_ * kSlotWidth, 30, fill_of(DeviceKind::gpu), "#555555", "NVSwitch");
  }
  bottom_ += 20;
  const std::string rates = slowest < fastest ? fmt::format("{} (thin) to {} (thick)", show(BytesPerSecond{slowest}),
                                                            show(BytesPerSecond{fastest}))
                                              : show(BytesPerSecond{fastest});
  svg_.text(kMargin, bottom_, fmt::format("NVLink {}, each direction", rates), {.fill = kNvlink});
}

/// Finds the rails: each adapter of the node is on a switch that has adapters of its place in other nodes, and no others.
/// A GPU is on the rail of its adapter.
void NodeDrawing::find_rails() {
  const std::vector<DeviceId> adapters = graph_.devices_of_kind(DeviceKind::hca, node_);
  if (spec_.nodes < 2 || adapters.size() < 2) return;
  std::map<std::size_t, DeviceId> switches;
  for (const DeviceId adapter : adapters)
    for (const LinkId wire : graph_.links_from(adapter)) {
      const DeviceId above = graph_.ends(wire).to;
      if (device(above).kind != DeviceKind::network_switch) continue;
      for (const LinkId down : graph_.links_from(above))
        if (const Device& end = device(graph_.ends(down).to);
            end.kind == DeviceKind::hca && end.index != device(adapter).index)
          return;
      switches.emplace(device(adapter).index, above);
    }
  if (switches.empty()) return;
  rail_switch_ = std::move(switches);
  for (const DeviceId adapter : adapters) rail_of_[adapter] = static_cast<std::size_t>(device(adapter).index);
  for (const DeviceId gpu : graph_.devices_of_kind(DeviceKind::gpu, node_))
    if (const DeviceId adapter = nearest_adapter(gpu); adapter >= 0) rail_of_[gpu] = rail_of_.at(adapter);
}

/// The adapter of a GPU as `Routing` chooses it: the stated one, or the one below the lowest switch above both; GPUs
/// take several of these in turn. −1: none.
DeviceId NodeDrawing::nearest_adapter(DeviceId gpu) const {
  const std::vector<DeviceId> adapters = graph_.devices_of_kind(DeviceKind::hca, node_);
  const std::vector<int>& stated = spec_.type_of(node_).network.hca_of_gpu;
  const auto index = static_cast<std::size_t>(device(gpu).index);
  if (!stated.empty()) return adapters.at(static_cast<std::size_t>(stated.at(index)));
  const auto above = [this](DeviceId id) {
    const auto spot = spots_.find(id);
    return spot == spots_.end() || spot->second.up < 0 ? -1 : graph_.ends(spot->second.up).from;
  };
  for (DeviceId place = above(gpu); place >= 0; place = above(place)) {
    std::vector<DeviceId> near;
    for (const DeviceId adapter : adapters)
      for (DeviceId parent = above(adapter); parent >= 0; parent = above(parent))
        if (parent == place) near.push_back(adapter);
    if (!near.empty()) return near[index % near.size()];
  }
  return -1;
}

/// Returns the colour of a device's rail; null if it is on none.
const char* NodeDrawing::rail_colour(DeviceId id) const {
  const auto rail = rail_of_.find(id);
  return rail == rail_of_.end() ? nullptr : colour_of_rail(rail->second);
}

/// Draws the switch of each rail below its adapter. Returns the position of the rows that follow.
double NodeDrawing::draw_rails(double y) {
  if (rail_switch_.empty()) return y;
  constexpr double gap = 14;
  for (const auto& [id, rail] : rail_of_) {
    if (device(id).kind != DeviceKind::hca || !rail_switch_.contains(rail)) continue;
    const double x = spots_.at(id).x;
    const std::string name = fmt::format("rail {}", rail);
    behind_.box(x - kBoxWidth / 2, y, kBoxWidth, kBoxHeight, "#ffffff", colour_of_rail(rail), name,
                device(rail_switch_.at(rail)).name);
    behind_.line(x, y + kBoxHeight, x, y + kBoxHeight + gap, {colour_of_rail(rail), 2});
  }
  return y + kBoxHeight + gap;
}

/// Draws a box per row of the fabric, wide enough for its words. The cables of the HCAs lead to the first box.
void NodeDrawing::draw_fabric() {
  if (rows_.empty()) return;
  double width = slots_ * kSlotWidth;
  for (const FabricRow& row : rows_)
    width = std::max({width, Svg::text_width(row.title, 12) + kMargin, Svg::text_width(row.detail, 11.5) + kMargin});
  wanted_width_ = width;
  double y = bottom_ + 36;
  for (const auto& [id, spot] : spots_)
    for (const LinkId wire : graph_.links_from(id))
      if (device(graph_.ends(wire).to).kind == DeviceKind::network_switch) {
        const char* rail = rail_colour(id);
        const bool up = graph_.is_up(wire);
        behind_.line(spot.x, device_row_ + kBoxHeight, spot.x, y,
                     {up ? (rail ? rail : kFabric) : kDown, 1, up ? "4 3" : "1 4", busy(wire)});
      }
  y = draw_rails(y);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const FabricRow& row = rows_[r];
    if (row.note) {
      y += 16;
      behind_.text(kMargin, y, row.title + ": " + row.detail, {});
      continue;
    }
    if (r > 0) {
      if (!rows_[r - 1].up.empty()) {
        behind_.line(kMargin + width / 2, y, kMargin + width / 2, y + 24, {kFabric, 3});
        behind_.text(kMargin + width / 2 + 8, y + 16, rows_[r - 1].up, {.size = 10});
      }
      y += rows_[r - 1].up.empty() ? 6 : 24;
    }
    behind_.box(kMargin, y, width, 44, "#f3ead9", kFabric, row.title, row.detail);
    y += 44;
  }
  if (!rail_switch_.empty() && !spec_.fabric_of(node_)->joins_rails()) {
    y += 16;
    behind_.text(kMargin, y, "rails: no switch joins them", {});
  }
  bottom_ = y;
}

std::string NodeDrawing::draw(const std::string& title) {
  draw_pcie();
  draw_socket_links();
  draw_nvlinks();
  draw_fabric();  // below the NVLinks
  for (const auto& [id, spot] : spots_) box(id, spot);
  const double width = std::max({slots_ * kSlotWidth, wanted_width_, Svg::text_width(title, 15)});
  Svg picture(width + 2 * kMargin, bottom_ + kMargin, title);
  picture.add(behind_);
  picture.add(svg_);
  picture.text(kMargin, kTitleRow, title, {.size = 14, .bold = true});
  return picture.finish();
}

}  // namespace

std::string topology_svg(const DeviceGraph& graph, const ClusterSpec& spec, const std::string& title, int node,
                         const LinkHeat& heat) {
  return NodeDrawing(graph, spec, node, heat).draw(title);
}

}  // namespace trainyard
