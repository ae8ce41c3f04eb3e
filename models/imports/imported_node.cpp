#include "models/imports/imported_node.hpp"

#include <fmt/format.h>

#include "models/reading/document_text.hpp"

namespace trainyard {
namespace {

const char* unverified(const std::string& source) { return source.starts_with("assumed") ? ", unverified: true" : ""; }

std::string sources_text(const ImportedNode& node) {
  std::string text = fmt::format("sources:\n  imported: \"imported from {}\"\n", yaml_escaped(node.file));
  const auto add = [&text](const char* name, const std::string& source) {
    text += fmt::format("  {}: \"{}\"\n", name, yaml_escaped(source));
  };
  if (!node.nvlink_source.empty()) add("nvlinks", node.nvlink_source);
  if (node.interconnect != "pcie")
    add("ring_step", "assumed as an A100's link through NVSwitch (dgx-a100); not measured");
  if (node.hcas > 0 && !node.hca_source.empty()) add("network", node.hca_source);
  if (node.hcas > 0) add("adapter", "assumed as ConnectX-6 (dgx-a100); not measured");
  if (node.sockets > 1) add("qpi", "assumed as between the sockets of dgx-1v; not measured");
  add("assumed",
      "assumed: some hundred nanoseconds a PCIe switch port or root port, and a hop between sockets; not measured");
  return text;
}

std::string nvlink_text(const ImportedNode& node) {
  std::string text = fmt::format("interconnect: {}\n", node.interconnect);
  if (node.interconnect == "pcie") return text;
  text += "nvlink:\n  latency: {value: 0.965 us, source: ring_step, unverified: true}\n";
  if (node.mesh.empty()) return text;
  std::string mesh;
  for (const NvlinkBundle& bundle : node.mesh)
    mesh += fmt::format("{}[{}, {}, {}]", mesh.empty() ? "" : ", ", bundle.a, bundle.b, bundle.links);
  return text + fmt::format(
                    "  link_rate: {{value: {} GB/s, source: nvlinks{}}}\n  mesh:\n    value: [{}]\n"
                    "    source: imported\n",
                    node.nvlink_rate.value / 1e9, unverified(node.nvlink_source), mesh);
}

std::string pcie_text(const ImportedNode& node) {
  const bool has_rate = node.pcie_rate.value > 0;
  std::string text = "pcie:\n";
  if (has_rate) text += fmt::format("  rate: {{value: {} B/s, source: imported}}\n", exact(node.pcie_rate.value));
  text += "  latency: {value: 0.25 us, source: assumed, unverified: true}\n";
  if (has_rate) text += fmt::format("  device_lanes: {{value: {}, source: imported}}\n", node.device_lanes);
  text += "  switches:\n    value:\n";
  for (const PcieSwitch& s : node.switches)
    text += fmt::format("      - {{socket: {}, gpus: [{}], hcas: [{}]{}}}\n", s.socket, fmt::join(s.gpus, ", "),
                        fmt::join(s.hcas, ", "), has_rate ? fmt::format(", uplink_lanes: {}", s.uplink_lanes) : "");
  return text + "    source: imported\n";
}

}  // namespace

std::string imported_node_entry(const ImportedNode& node) {
  std::string text = fmt::format("# A node imported from the {} {}.\n", node.kind, yaml_escaped(node.file));
  for (const std::string& note : node.notes) text += "# " + yaml_escaped(note) + "\n";
  text += sources_text(node);
  text += fmt::format("gpu:\n  count: {{value: {}, source: imported}}\n  type: {}\n", node.gpus, node.gpu_type);
  if (node.gpu_nvlink.value > 0)
    text += fmt::format("  nvlink: {{value: {} GB/s, source: nvlinks{}}}\n", node.gpu_nvlink.value / 1e9,
                        unverified(node.nvlink_source));
  text += nvlink_text(node);
  text += fmt::format("sockets: {{value: {}, source: imported}}\n", node.sockets);
  if (node.sockets > 1)
    text +=
        "socket_link:\n  rate: {value: 38.4 GB/s, source: qpi, unverified: true}\n"
        "  latency: {value: 0.25 us, source: assumed, unverified: true}\n";
  text += pcie_text(node);
  if (node.hcas > 0)
    text += fmt::format(
        "hca:\n  count: {{value: {}, source: imported}}\n"
        "  rate: {{value: {} Gbit/s, source: {}{}}}\n"
        "  latency: {{value: 0.6 us, source: adapter, unverified: true}}\n",
        node.hcas, node.hca_rate.value * 8 / 1e9, node.hca_source.empty() ? "imported" : "network",
        unverified(node.hca_source));
  return text;
}

}  // namespace trainyard
