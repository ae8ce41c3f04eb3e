#include "topologies/drawings/topology_drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "models/reading/xml_text.hpp"
#include "topologies/drawings/fabric_text.hpp"
#include "topologies/drawings/topology_text.hpp"

namespace trainyard {
namespace {

constexpr double kSlotWidth = 84, kBoxWidth = 74, kBoxHeight = 36, kMargin = 16;
constexpr double kTitleRow = 28, kCpuRow = 48, kRowStep = 80;
constexpr double kLetter = 6.2;  // width of one at 11 pixels

/// The picture of one node: where its devices stand, and what has been drawn.
class NodeDrawing {
 public:
  NodeDrawing(const DeviceGraph& graph, const ClusterSpec& spec, int node, const LinkHeat& heat)
      : graph_(graph), rows_(fabric_rows(graph, spec)), heat_(heat), node_(node) {
    place_devices();
  }
  std::string draw(const std::string& title);

 private:
  struct Spot {
    double x = 0, y = 0;  // middle of the upper edge
    LinkId up = -1;       // towards the CPU
  };

  const Device& device(DeviceId id) const { return graph_.devices()[id]; }
  const Link& link(LinkId id) const { return graph_.links()[id]; }
  bool inside(LinkId id) const {
    return device(graph_.ends(id).from).node == node_ && device(graph_.ends(id).to).node == node_;
  }
  void place_devices();
  int switch_depth(DeviceId, std::set<DeviceId>& seen) const;
  double place(DeviceId, LinkId up, int depth);
  void line(double x1, double y1, double x2, double y2, const std::string& style);
  std::string busy(LinkId) const;
  void label(double x, double y, const std::string& text, const char* style = "");
  void box(DeviceId, const Spot&);
  std::string rate_text(LinkId up) const;
  void draw_pcie();
  void draw_socket_links();
  void draw_nvlinks();
  void draw_nvlink(LinkId, double slowest);
  void draw_fabric();

  const DeviceGraph& graph_;
  const std::vector<FabricRow> rows_;
  const LinkHeat& heat_;
  int node_;
  std::map<DeviceId, Spot> spots_;
  double slots_ = 0, device_row_ = 0, bottom_ = 0, wanted_width_ = 0;
  std::string body_;
};

/// Rows of PCIe switches below a device.
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

/// Leaves of the tree take the next place in the row; a device above others is centred over them.
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

/// From the sockets down, then devices without a socket. All NVSwitches are one box below.
void NodeDrawing::place_devices() {
  std::vector<DeviceId> roots = graph_.all(DeviceKind::cpu, node_);
  std::set<DeviceId> seen;
  int depth = 1;
  for (const DeviceKind kind : {DeviceKind::pcie_switch, DeviceKind::gpu, DeviceKind::hca, DeviceKind::nvme})
    for (const DeviceId id : graph_.all(kind, node_)) roots.push_back(id);
  for (const DeviceId root : roots) depth = std::max(depth, switch_depth(root, seen));
  device_row_ = kCpuRow + (depth + 1) * kRowStep;
  bottom_ = device_row_ + kBoxHeight;
  for (const DeviceId root : roots)
    if (!spots_.contains(root)) place(root, -1, device(root).kind == DeviceKind::pcie_switch ? 1 : 0);
}

void NodeDrawing::line(double x1, double y1, double x2, double y2, const std::string& style) {
  body_ += fmt::format("<line x1=\"{:g}\" y1=\"{:g}\" x2=\"{:g}\" y2=\"{:g}\" {}/>\n", x1, y1, x2, y2, style);
}

std::string NodeDrawing::busy(LinkId id) const {
  if (!heat_) return "";
  const double share = std::max(heat_(id), heat_(id ^ 1));
  return share < 0 ? "" : fmt::format(" data-link=\"{}\" data-busy=\"{:.6g}\"", xml_escaped(link(id).name), share);
}

void NodeDrawing::label(double x, double y, const std::string& text, const char* style) {
  body_ += fmt::format("<text x=\"{:g}\" y=\"{:g}\" {}>{}</text>\n", x, y, style, xml_escaped(text));
}

/// Short enough for a box; a drive has a read and a write rate.
std::string NodeDrawing::rate_text(LinkId up) const {
  if (device(graph_.ends(up).to).kind != DeviceKind::nvme) return show(link(up).capacity);
  return fmt::format("r {:.3g} w {:.3g} GB/s", link(up ^ 1).capacity.value * 1e-9, link(up).capacity.value * 1e-9);
}

void NodeDrawing::box(DeviceId id, const Spot& spot) {
  const std::string& name = device(id).name;
  body_ += fmt::format(
      "<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\" fill=\"{}\" stroke=\"#555555\" rx=\"3\"/>\n",
      spot.x - kBoxWidth / 2, spot.y, kBoxWidth, kBoxHeight, device_colour(device(id).kind));
  std::string below = spot.up >= 0 ? rate_text(spot.up) : "";
  if (const LinkId memory = device(id).kind == DeviceKind::cpu ? graph_.host(id).memory : -1; memory >= 0)
    below = fmt::format("mem {}", show(link(memory).capacity));
  label(spot.x, spot.y + (below.empty() ? 22 : 15), name.substr(name.find('/') + 1),
        "text-anchor=\"middle\" font-weight=\"bold\"");
  if (!below.empty()) label(spot.x, spot.y + 29, below, "text-anchor=\"middle\" font-size=\"10\"");
  if (spot.up >= 0 && graph_.medium(spot.up) >= 0)
    label(spot.x, spot.y - 4, "half duplex",
          "text-anchor=\"middle\" font-size=\"9\" fill=\"#a40000\" stroke=\"#ffffff\" stroke-width=\"3\" "
          "paint-order=\"stroke\"");
}

/// A line up from each box; links that close a loop are dashed.
void NodeDrawing::draw_pcie() {
  for (const auto& [id, spot] : spots_)
    if (spot.up >= 0) {
      const Spot& above = spots_.at(graph_.ends(spot.up).from);
      line(above.x, above.y + kBoxHeight, spot.x, spot.y,
           (graph_.is_up(spot.up) ? "stroke=\"#777777\"" : "stroke=\"#cc0000\" stroke-dasharray=\"2 3\"") +
               busy(spot.up));
    }
  for (LinkId id = 0; id < static_cast<LinkId>(graph_.wires().size()); id += 2) {
    if (scope_of(graph_.kind(id)) != LinkScope::pcie || !inside(id)) continue;
    const Spot &a = spots_.at(graph_.ends(id).from), &b = spots_.at(graph_.ends(id).to);
    if (a.up == (id ^ 1) || b.up == id) continue;
    line(a.x, a.y + kBoxHeight / 2, b.x, b.y + kBoxHeight / 2,
         "stroke=\"#777777\" stroke-dasharray=\"5 3\"" + busy(id));
  }
}

/// Neighbouring sockets are joined straight, others by an arc above.
void NodeDrawing::draw_socket_links() {
  for (LinkId id = 0; id < static_cast<LinkId>(graph_.wires().size()); id += 2) {
    if (graph_.kind(id) != LinkKind::socket || !inside(id)) continue;
    const Spot &a = spots_.at(graph_.ends(id).from), &b = spots_.at(graph_.ends(id).to);
    const bool neighbours = device(graph_.ends(id).to).index - device(graph_.ends(id).from).index == 1;
    const double y = a.y + kBoxHeight / 2, middle = (a.x + b.x) / 2;
    if (!neighbours) {
      body_ +=
          fmt::format("<path d=\"M {0:g} {2:g} Q {1:g} {3:g} {4:g} {2:g}\" fill=\"none\" stroke=\"#3465a4\"{5}/>\n",
                      a.x, middle, a.y, a.y - 30, b.x, busy(id));
      continue;
    }
    line(a.x + kBoxWidth / 2, y, b.x - kBoxWidth / 2, y, "stroke=\"#3465a4\" stroke-width=\"2\"" + busy(id));
    label(middle, y - 5, show(link(id).capacity), "text-anchor=\"middle\" font-size=\"10\" fill=\"#3465a4\"");
  }
}

/// An arc below the GPUs, as thick as it is fast; or a line to the box that stands for the NVSwitches.
void NodeDrawing::draw_nvlink(LinkId id, double slowest) {
  const double top = device_row_ + kBoxHeight;
  const DeviceGraph::End end = graph_.ends(id);
  const auto from = spots_.find(end.from), to = spots_.find(end.to);
  if (from == spots_.end() || to == spots_.end()) {  // NVSwitches have no spots
    const auto gpu = from == spots_.end() ? to : from;
    if (gpu != spots_.end())
      line(gpu->second.x, top, gpu->second.x, top + 40, "stroke=\"#2a8a2a\" stroke-width=\"2\"" + busy(id));
    return;
  }
  const double x = from->second.x, target = to->second.x, depth = 20 + std::abs(target - x) * 0.3;
  const double links = link(id).capacity.value / slowest;
  body_ += fmt::format(
      "<path d=\"M {0:g} {1:g} C {0:g} {2:g} {3:g} {2:g} {3:g} {1:g}\" fill=\"none\" stroke=\"{4}\" "
      "stroke-width=\"{5:.1f}\"{6}/>\n",
      x, top, top + depth, target, links > 1.5 ? "#1b6e1b" : "#7cc47c", std::min(6.0, 1.2 * links), busy(id));
  bottom_ = std::max(bottom_, top + 0.75 * depth);  // where the curve is lowest
}

void NodeDrawing::draw_nvlinks() {
  const double top = device_row_ + kBoxHeight;
  double slowest = std::numeric_limits<double>::max(), fastest = 0;
  const auto each = [this](auto visit) {
    for (LinkId id = 0; id < static_cast<LinkId>(graph_.wires().size()); id += 2)
      if (graph_.kind(id) == LinkKind::nvlink && inside(id)) visit(id);
  };
  each([&](LinkId id) {
    slowest = std::min(slowest, link(id).capacity.value);
    fastest = std::max(fastest, link(id).capacity.value);
  });
  if (fastest == 0) return;
  each([&](LinkId id) { draw_nvlink(id, slowest); });
  if (!graph_.all(DeviceKind::nvswitch, node_).empty()) {
    bottom_ = std::max(bottom_, top + 70);
    body_ += fmt::format(
        "<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"30\" fill=\"#cfe8cf\" stroke=\"#555555\" rx=\"3\"/>\n",
        kMargin, top + 40, slots_ * kSlotWidth);
    label(kMargin + slots_ * kSlotWidth / 2, top + 60, "NVSwitch", "text-anchor=\"middle\" font-weight=\"bold\"");
  }
  bottom_ += 20;
  const std::string rates = slowest < fastest ? fmt::format("{} (thin) to {} (thick)", show(BytesPerSecond{slowest}),
                                                            show(BytesPerSecond{fastest}))
                                              : show(BytesPerSecond{fastest});
  label(kMargin, bottom_, fmt::format("NVLink {}, each direction", rates), "fill=\"#1b6e1b\"");
}

/// A box a row of the fabric, wide enough for its words; the ends' cables lead to the first.
void NodeDrawing::draw_fabric() {
  if (rows_.empty()) return;
  std::size_t letters = 0;
  for (const FabricRow& row : rows_) letters = std::max({letters, row.title.size(), row.detail.size()});
  const double width = std::max(slots_ * kSlotWidth, kLetter * static_cast<double>(letters) + kMargin);
  wanted_width_ = width;
  double y = bottom_ + 36;
  for (const auto& [id, spot] : spots_)
    for (const LinkId wire : graph_.links_from(id))
      if (device(graph_.ends(wire).to).kind == DeviceKind::network_switch)
        line(spot.x, device_row_ + kBoxHeight, spot.x, y,
             (graph_.is_up(wire) ? "stroke=\"#b5731a\" stroke-dasharray=\"4 3\""
                                 : "stroke=\"#cc0000\" stroke-dasharray=\"1 4\"") +
                 busy(wire));
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const FabricRow& row = rows_[r];
    if (row.note) {
      y += 16;
      label(kMargin, y, row.title + ": " + row.detail);
      continue;
    }
    if (r > 0) {
      if (!rows_[r - 1].up.empty()) {
        line(kMargin + width / 2, y, kMargin + width / 2, y + 24, "stroke=\"#b5731a\" stroke-width=\"3\"");
        label(kMargin + width / 2 + 8, y + 16, rows_[r - 1].up, "font-size=\"10\"");
      }
      y += rows_[r - 1].up.empty() ? 6 : 24;
    }
    body_ += fmt::format(
        "<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"44\" fill=\"#f3ead9\" stroke=\"#b5731a\" rx=\"3\"/>\n",
        kMargin, y, width);
    label(kMargin + width / 2, y + 18, row.title, "text-anchor=\"middle\" font-weight=\"bold\"");
    label(kMargin + width / 2, y + 34, row.detail, "text-anchor=\"middle\" font-size=\"10\"");
    y += 44;
  }
  bottom_ = y;
}

std::string NodeDrawing::draw(const std::string& title) {
  draw_pcie();
  draw_socket_links();
  const std::string pcie = std::exchange(body_, "");
  draw_nvlinks();
  const std::string nvlinks = std::exchange(body_, "");
  draw_fabric();  // stands below the NVLinks, and its cables go behind them
  body_ += pcie + nvlinks;
  for (const auto& [id, spot] : spots_) box(id, spot);
  label(kMargin, kTitleRow, title, "font-size=\"14\" font-weight=\"bold\"");
  // Titles are set about 8 pixels a letter.
  const double width =
      2 * kMargin + std::max({slots_ * kSlotWidth, wanted_width_, 8 * static_cast<double>(title.size())});
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 {0:g} {1:g}\" "
      "role=\"img\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">\n<title>{2}</title>\n"
      "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"#ffffff\"/>\n{3}</svg>\n",
      width, bottom_ + kMargin, xml_escaped(title), body_);
}

}  // namespace

const char* device_colour(DeviceKind kind) {
  constexpr const char* other = "#eeeeee";
  constexpr std::array<const char*, 7> colours{"#cfe8cf", other, other, "#d6e4f5", "#fbe3c0", "#e8d6f0", other};
  return colours.at(static_cast<std::size_t>(kind));
}

std::string topology_svg(const DeviceGraph& graph, const ClusterSpec& spec, const std::string& title, int node,
                         const LinkHeat& heat) {
  return NodeDrawing(graph, spec, node, heat).draw(title);
}

}  // namespace trainyard
