#include "topologies/topology_drawing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "models/xml_element.hpp"
#include "topologies/topology_text.hpp"

namespace trainyard {
namespace {

constexpr double kSlotWidth = 84, kBoxWidth = 74, kBoxHeight = 36, kMargin = 16;
constexpr double kTitleRow = 28, kCpuRow = 48, kSwitchRow = 128, kDeviceRow = 208;

const char* fill_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu:
      return "#cfe8cf";
    case DeviceKind::hca:
      return "#fbe3c0";
    case DeviceKind::cpu:
      return "#d6e4f5";
    default:
      return "#eeeeee";
  }
}

/// The picture of one node: where its devices stand, and what has been drawn.
class NodeDrawing {
 public:
  NodeDrawing(const DeviceGraph& graph, int node) : graph_(graph), node_(node) { place_devices(); }
  std::string draw(const std::string& title);

 private:
  struct Spot {
    double x = 0, y = 0;  // middle of the upper edge
    LinkId up = -1;       // towards the CPU
  };

  const Device& device(DeviceId id) const { return graph_.devices()[static_cast<std::size_t>(id)]; }
  const Link& link(LinkId id) const { return graph_.links()[static_cast<std::size_t>(id)]; }
  bool inside(LinkId id) const {
    return device(graph_.ends(id).from).node == node_ && device(graph_.ends(id).to).node == node_;
  }
  void place_devices();
  double place(DeviceId, LinkId up, double row);
  void line(double x1, double y1, double x2, double y2, const char* style);
  void label(double x, double y, const std::string& text, const char* style = "");
  void box(DeviceId, const Spot&);
  void draw_socket_links();
  void draw_nvlinks();
  void draw_fabric();

  const DeviceGraph& graph_;
  int node_;
  std::map<DeviceId, Spot> spots_;
  double slots_ = 0, bottom_ = kDeviceRow + kBoxHeight;
  std::string body_;
};

/// Devices without anything below take the next place in the row; what is above stands over their middle.
double NodeDrawing::place(DeviceId id, LinkId up, double row) {
  spots_[id] = {0, row, up};
  double first = -1, last = -1;
  for (const LinkId down : graph_.links_from(id)) {
    const DeviceId to = graph_.ends(down).to;
    if (link(down).kind != "PCIe" || spots_.contains(to)) continue;
    last = place(to, down, device(to).kind == DeviceKind::pcie_switch ? kSwitchRow : kDeviceRow);
    if (first < 0) first = last;
  }
  if (first < 0) first = last = kMargin + (slots_++ + 0.5) * kSlotWidth;
  return spots_[id].x = (first + last) / 2;
}

void NodeDrawing::place_devices() {
  const std::vector<DeviceId> cpus = graph_.all(DeviceKind::cpu, node_);
  for (const DeviceId cpu : cpus) place(cpu, -1, kCpuRow);
}

void NodeDrawing::line(double x1, double y1, double x2, double y2, const char* style) {
  body_ += fmt::format("<line x1=\"{:g}\" y1=\"{:g}\" x2=\"{:g}\" y2=\"{:g}\" {}/>\n", x1, y1, x2, y2, style);
}

void NodeDrawing::label(double x, double y, const std::string& text, const char* style) {
  body_ += fmt::format("<text x=\"{:g}\" y=\"{:g}\" {}>{}</text>\n", x, y, style, xml_escaped(text));
}

void NodeDrawing::box(DeviceId id, const Spot& spot) {
  const std::string& name = device(id).name;
  body_ += fmt::format(
      "<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"{:g}\" fill=\"{}\" stroke=\"#555555\" rx=\"3\"/>\n",
      spot.x - kBoxWidth / 2, spot.y, kBoxWidth, kBoxHeight, fill_of(device(id).kind));
  const bool rate = spot.up >= 0;
  label(spot.x, spot.y + (rate ? 15 : 22), name.substr(name.find('/') + 1),
        "text-anchor=\"middle\" font-weight=\"bold\"");
  if (rate) label(spot.x, spot.y + 29, show(link(spot.up).capacity), "text-anchor=\"middle\" font-size=\"10\"");
}

/// Neighbouring sockets are joined straight, others by an arc above.
void NodeDrawing::draw_socket_links() {
  for (LinkId id = 0; id < static_cast<LinkId>(graph_.wires().size()); id += 2) {
    if (link(id).kind != "socket" || !inside(id)) continue;
    const Spot &a = spots_.at(graph_.ends(id).from), &b = spots_.at(graph_.ends(id).to);
    const bool neighbours = device(graph_.ends(id).to).index - device(graph_.ends(id).from).index == 1;
    const double y = a.y + kBoxHeight / 2, middle = (a.x + b.x) / 2;
    if (!neighbours) {
      body_ += fmt::format("<path d=\"M {0:g} {2:g} Q {1:g} {3:g} {4:g} {2:g}\" fill=\"none\" stroke=\"#3465a4\"/>\n",
                           a.x, middle, a.y, a.y - 30, b.x);
      continue;
    }
    line(a.x + kBoxWidth / 2, y, b.x - kBoxWidth / 2, y, "stroke=\"#3465a4\" stroke-width=\"2\"");
    label(middle, y - 5, show(link(id).capacity), "text-anchor=\"middle\" font-size=\"10\" fill=\"#3465a4\"");
  }
}

/// Arcs below the GPUs, as thick as they are fast; or lines to one box that stands for the NVSwitches.
void NodeDrawing::draw_nvlinks() {
  const double top = kDeviceRow + kBoxHeight;
  const std::vector<DeviceId> nvswitch = graph_.all(DeviceKind::nvswitch, node_);
  double slowest = std::numeric_limits<double>::max(), fastest = 0;
  for (LinkId id = 0; id < static_cast<LinkId>(graph_.wires().size()); id += 2)
    if (link(id).kind == "NVLink" && inside(id)) {
      slowest = std::min(slowest, link(id).capacity.value);
      fastest = std::max(fastest, link(id).capacity.value);
    }
  if (fastest == 0) return;
  for (LinkId id = 0; id < static_cast<LinkId>(graph_.wires().size()); id += 2) {
    if (link(id).kind != "NVLink" || !inside(id)) continue;
    const DeviceGraph::End end = graph_.ends(id);
    const double x = spots_.at(end.from).x;
    if (!nvswitch.empty()) {
      line(x, top, x, top + 40, "stroke=\"#2a8a2a\" stroke-width=\"2\"");
      continue;
    }
    const double to = spots_.at(end.to).x, depth = 20 + std::abs(to - x) * 0.3;
    const double links = link(id).capacity.value / slowest;
    body_ += fmt::format(
        "<path d=\"M {0:g} {1:g} C {0:g} {2:g} {3:g} {2:g} {3:g} {1:g}\" fill=\"none\" stroke=\"{4}\" "
        "stroke-width=\"{5:.1f}\"/>\n",
        x, top, top + depth, to, links > 1.5 ? "#1b6e1b" : "#7cc47c", std::min(6.0, 1.2 * links));
    bottom_ = std::max(bottom_, top + 0.75 * depth);  // where the curve is lowest
  }
  if (!nvswitch.empty()) {
    bottom_ = top + 70;
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

void NodeDrawing::draw_fabric() {
  const std::vector<SwitchLevel> levels = switch_levels(graph_);
  if (levels.empty()) return;
  const double width = slots_ * kSlotWidth;
  double y = bottom_ + 36;
  for (const DeviceId hca : graph_.all(DeviceKind::hca, node_))
    line(spots_.at(hca).x, kDeviceRow + kBoxHeight, spots_.at(hca).x, y, "stroke=\"#b5731a\" stroke-dasharray=\"4 3\"");
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const SwitchLevel& level = levels[l];
    if (l > 0) {
      line(kMargin + width / 2, y, kMargin + width / 2, y + 24, "stroke=\"#b5731a\" stroke-width=\"3\"");
      label(kMargin + width / 2 + 8, y + 16, fmt::format("{} links", levels[l - 1].links_up), "font-size=\"10\"");
      y += 24;
    }
    body_ += fmt::format(
        "<rect x=\"{:g}\" y=\"{:g}\" width=\"{:g}\" height=\"44\" fill=\"#f3ead9\" stroke=\"#b5731a\" rx=\"3\"/>\n",
        kMargin, y, width);
    label(kMargin + width / 2, y + 18, fmt::format("level {}: {}", l + 1, switches_text(level)),
          "text-anchor=\"middle\" font-weight=\"bold\"");
    label(kMargin + width / 2, y + 34, fmt::format("{} links down, {}", level.links_down, show(level.slowest_down)),
          "text-anchor=\"middle\" font-size=\"10\"");
    y += 44;
  }
  bottom_ = y;
}

std::string NodeDrawing::draw(const std::string& title) {
  for (const auto& [id, spot] : spots_)
    if (spot.up >= 0)
      line(spots_.at(graph_.ends(spot.up).from).x, spots_.at(graph_.ends(spot.up).from).y + kBoxHeight, spot.x, spot.y,
           "stroke=\"#777777\"");
  draw_socket_links();
  const std::string pcie = std::exchange(body_, "");
  draw_nvlinks();
  const std::string nvlinks = std::exchange(body_, "");
  draw_fabric();  // stands below the NVLinks, and its cables go behind them
  body_ += pcie + nvlinks;
  for (const auto& [id, spot] : spots_) box(id, spot);
  label(kMargin, kTitleRow, title, "font-size=\"14\" font-weight=\"bold\"");
  // Titles are set about 8 pixels a letter.
  const double width = std::max(2 * kMargin + slots_ * kSlotWidth, 2 * kMargin + 8 * static_cast<double>(title.size()));
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 {0:g} {1:g}\" "
      "role=\"img\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\">\n<title>{2}</title>\n"
      "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"#ffffff\"/>\n{3}</svg>\n",
      width, bottom_ + kMargin, xml_escaped(title), body_);
}

}  // namespace

std::string topology_svg(const DeviceGraph& graph, const std::string& title, int node) {
  return NodeDrawing(graph, node).draw(title);
}

}  // namespace trainyard
