// PCIE-BW, LANE-*: lanes of PCIe; NVL-03/04, SW-02/03: times of messages over NVLink, switches and half duplex.
#include <fmt/format.h>

#include <algorithm>

#include "tests/seeds/transfers.hpp"
#include "topologies/nodes/pcie_tree.hpp"

namespace trainyard {
namespace {

SeedFigures pcie_bw(const Node& inputs) {
  SeedFigures got;
  for (const double lanes : numbers_of(inputs, "lanes")) {
    const ClusterSpec pair =
        cluster_of(2, fmt::format("interconnect: pcie\npcie: {{generation: {}, latency: 0 us, lanes_per_socket: {}, "
                                  "device_lanes: {}}}\n",
                                  number_of(inputs, "gen"), 2 * lanes, lanes));
    got[fmt::format("GBps_per_direction {}", lanes)] = 1e3 / transfer_ms(pair, {{0, 1, Bytes{1e9}}});
  }
  return got;
}

std::string widths_of(const NodeType& node) {
  std::vector<int> widths;
  for (const PcieSlot& slot : plan_lanes(node).slots) widths.push_back(slot.lanes);
  std::sort(widths.rbegin(), widths.rend());
  return fmt::format("{}", fmt::join(widths, "/"));
}

SeedFigures lane_01(const Node& inputs) {
  SeedFigures got;
  for (const double gpus : numbers_of(inputs, "gpus")) {
    const ClusterSpec box =
        cluster_of(static_cast<int>(gpus),
                   fmt::format("interconnect: pcie\npcie: {{generation: 4, latency: 0 us, lanes_per_socket: {}}}\n",
                               number_of(inputs, "cpu_lanes")));
    got[fmt::format("lanes {}", gpus)] = widths_of(box.node);
    const DeviceGraph graph = build_cluster(box);
    for (const DeviceId gpu : graph.devices_of_kind(DeviceKind::gpu)) {
      const LinkId up = graph.links_from(gpu).front();
      got[fmt::format("GBps_gen4 {} gpu{}", gpus, graph.devices()[static_cast<std::size_t>(gpu)].index)] =
          graph.links()[static_cast<std::size_t>(up)].capacity.value * 1e-9;
    }
  }
  return got;
}

/// Returns a node without PCIe switches unless `pcie` names some.
NodeType lane_node(int gpus, int hcas, int sockets, double lanes, const std::string& pcie) {
  return cluster_of(gpus,
                    fmt::format("interconnect: pcie\nsockets: {}\nsocket_link: {{rate: 40 GB/s, latency: 0 us}}\n"
                                "{}pcie: {{generation: 3, latency: 0 us, lanes_per_socket: {}{}}}\n",
                                sockets,
                                hcas > 0 ? fmt::format("hca: {{count: {}, rate: 1 GB/s, latency: 0 us}}\n", hcas) : "",
                                lanes, pcie))
      .node;
}

/// Returns the largest number of GPUs for which the sockets have lanes. `refusal`: the error of one more GPU.
int most_devices(int sockets, double lanes, double width, std::string& refusal) {
  for (int devices = 1;; ++devices) {
    try {
      plan_lanes(lane_node(devices, 0, sockets, lanes, fmt::format(", device_lanes: {}", width)));
    } catch (const UserError& e) {
      refusal = e.what();
      return devices - 1;
    }
  }
}

SeedFigures lane_02(const Node& inputs) {
  const auto sockets = static_cast<int>(number_of(inputs, "sockets"));
  const double lanes = number_of(inputs, "lanes_per_socket"), width = number_of(inputs, "device_width");
  std::string refusal;
  SeedFigures got;
  got["max_full_speed_devices"] = most_devices(sockets, lanes, width, refusal);
  got["refusal"] = refusal;
  got["per_socket"] = most_devices(1, lanes, width, refusal);
  const auto widths = [&](int gpus, int hcas) { return widths_of(lane_node(gpus, hcas, sockets, lanes, "")); };
  got["4 GPU + 2 HCA"] = widths(4, 2);
  got["6 GPU + 1 HCA"] = widths(6, 1);
  got["8 GPU + 1 HCA"] = widths(8, 1);
  return got;
}

SeedFigures lane_03(const Node& inputs) {
  const double lanes = number_of(inputs, "cpu_lanes"), width = number_of(inputs, "width");
  const auto gpus = static_cast<int>(number_of(inputs, "gpus"));
  std::string refusal;
  SeedFigures got;
  got["direct_full_width"] = most_devices(1, lanes, width, refusal);
  try {
    plan_lanes(lane_node(gpus, 0, 1, lanes, fmt::format(", device_lanes: {}", width)));
  } catch (const UserError& e) {
    got["without_switch"] = e.what();
  }
  const PciePlan plan = plan_lanes(lane_node(gpus, 0, 1, lanes, ", switches: [{gpus: [0, 1, 2, 3]}]"));
  got["with_switch lanes_left"] = plan.lanes_left.front();
  got["with_switch full_width"] =
      std::count_if(plan.slots.begin(), plan.slots.end(), [&](const PcieSlot& slot) { return slot.lanes == width; });
  return got;
}

/// Returns two GPUs with some NVLinks between them.
ClusterSpec nvlink_pair(const std::string& link_rate, int links) {
  return cluster_of(2, fmt::format("interconnect: nvlink-mesh\npcie: {{rate: 1 GB/s, latency: 0 us}}\n"
                                   "nvlink: {{link_rate: {}, latency: 0 us, mesh: [[0, 1, {}]]}}\n",
                                   link_rate, links));
}

SeedFigures nvl_03(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const std::string rate = fields.text("link_rate");
  const Bytes gb{1e9};
  const double one_way = transfer_ms(nvlink_pair(rate, 1), {{0, 1, gb}});
  const double both = transfer_ms(nvlink_pair(rate, 1), {{0, 1, gb}, {1, 0, gb}});
  const double six = transfer_ms(nvlink_pair(rate, 6), {{0, 1, gb}});
  return {{"GBps_per_direction", 1e3 / one_way},
          {"bidirectional_Gbit", 2 * 8e3 / both},
          {"six_links_GBps_one_dir", 1e3 / six}};
}

SeedFigures nvl_04(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const std::vector<Transfer> message{{0, 1, fields.bytes("size")}};
  const std::string pcie_link = fields.text("pcie4_x16");
  const ClusterSpec pcie =
      cluster_of(2, fmt::format("interconnect: pcie\npcie: {{rate: {}, latency: 0 us}}\n", pcie_link));
  const ClusterSpec ethernet = cluster_of(1,
                                          fmt::format("interconnect: pcie\npcie: {{rate: {}, latency: 0 us}}\n"
                                                      "hca: {{count: 1, rate: {}, latency: 0 us}}\n",
                                                      pcie_link, fields.text("eth100")),
                                          2);
  return {{"nvlink6_ms", transfer_ms(nvlink_pair(fields.text("nvlink"), 6), message)},
          {"pcie4_x16_ms", transfer_ms(pcie, message)},
          {"eth100_ms", transfer_ms(ethernet, message)}};
}

SeedFigures sw_03(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const Bytes s = fields.bytes("size");
  const std::string rate = "rate: " + fields.text("rate");
  const ClusterSpec full = hosts_of(4, rate, "{type: ethernet, switch_latency: 0 us}");
  const ClusterSpec half = hosts_of(4, rate + ", duplex: half", "{type: ethernet, switch_latency: 0 us}");
  const ClusterSpec hub = hosts_of(4, rate, "{type: ethernet, switch_latency: 0 us, hub: true}");
  const std::vector<Transfer> both{{0, 1, s}, {2, 3, s}, {1, 0, s}, {3, 2, s}};
  return {{"hub_shared_ms", transfer_ms(hub, both)},
          {"switch_full_duplex_ms", transfer_ms(full, both)},
          {"switch_half_duplex_ms", transfer_ms(half, both)},
          {"one_message_ms", transfer_ms(full, {{0, 1, s}})},
          {"two_into_one_ms", transfer_ms(full, {{0, 1, s}, {2, 1, s}})}};
}

/// Returns the time in ms if every host on oversubscribed leaves sends a message to the host `distance` places after
/// it.
double shifted_ms(Fields& fields, double oversubscription, int distance) {
  const auto leaves = static_cast<int>(fields.integer("leaves", 2));
  const auto hosts_a_leaf = static_cast<int>(fields.integer("hosts_a_leaf", 1));
  const int hosts = leaves * hosts_a_leaf;
  ClusterSpec spec = hosts_of(hosts, "rate: " + fields.text("rate"));
  spec.fabric = make_fabric(
      "folded-clos", fmt::format("levels: [{{down: {}, oversubscription: {}}}]", hosts_a_leaf, oversubscription));
  std::vector<Transfer> all;
  for (int host = 0; host < hosts; ++host) all.push_back({host, (host + distance) % hosts, fields.bytes("size")});
  return transfer_ms(spec, all);
}

SeedFigures sw_02(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const double ratio = fields.number("oversubscription", 1, 1e6);
  const auto hosts_a_leaf = static_cast<int>(fields.integer("hosts_a_leaf", 1));
  return {{"slowdown_cross_leaf_permutation",
           shifted_ms(fields, ratio, hosts_a_leaf) / shifted_ms(fields, 1, hosts_a_leaf)},
          {"ring_with_good_rank_order", shifted_ms(fields, ratio, 1) / shifted_ms(fields, 1, 1)}};
}

const RegisterSeed wiring_seeds[] = {{"PCIE-BW", pcie_bw}, {"LANE-01", lane_01}, {"LANE-02", lane_02},
                                     {"LANE-03", lane_03}, {"NVL-03", nvl_03},   {"NVL-04", nvl_04},
                                     {"SW-03", sw_03},     {"SW-02", sw_02}};

}  // namespace
}  // namespace trainyard
