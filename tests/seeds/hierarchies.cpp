// BIRING-01, HIER-01/02, NODES-01, NVL-02: bidirectional rings, collectives and parameter servers in two levels, and
// the rings of a DGX-1.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "scenarios/src/collectives/collective_run.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "strategies/collectives/node_rings.hpp"
#include "tests/seeds/transfers.hpp"

namespace trainyard {
namespace {

CollectiveRun all_reduce_on(const ClusterSpec& cluster, const std::string& algorithm, Bytes size, int per_node = 0,
                            std::vector<WeightedRing> rings = {}) {
  CollectiveRunOptions o;
  o.ranks = cluster.gpus();
  o.algorithm = algorithm;
  o.options.size = size;
  o.options.settings.per_node = per_node;
  o.options.settings.rings = std::move(rings);
  return run_collective(cluster, o);
}

/// Returns a ring in which every device has its own links to both neighbours.
ClusterSpec ring_of_links(int devices, const std::string& rate, const std::string& duplex) {
  std::string wires;
  for (int i = 0; i < devices; ++i)
    wires += fmt::format(
        "  - {{from: gpu{}, to: gpu{}, kind: NVLink, rate: {}, latency: 0 us, duplex: {}}}\n"
        "  - {{from: gpu{}, to: cpu0}}\n",
        i, (i + 1) % devices, rate, duplex, i);
  return cluster_of(devices, "interconnect: graph\npcie: {rate: 1 GB/s, latency: 0 us}\nwires:\n" + wires);
}

SeedFigures biring_01(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const int n = static_cast<int>(fields.integer("n", 2));
  const Bytes size = fields.bytes("size");
  const std::string rate = fields.text("rate");
  const ClusterSpec full = ring_of_links(n, rate, "full"), half = ring_of_links(n, rate, "half");
  const ClusterSpec behind_a_switch = star_cluster(n, fields.bandwidth("rate"));
  return {{"uni_ms", all_reduce_on(full, "ring", size).time * 1e3},
          {"bi_ms", all_reduce_on(full, "bidirectional-ring", size).time * 1e3},
          {"half_duplex_bi_ms", all_reduce_on(half, "bidirectional-ring", size).time * 1e3},
          {"behind_a_switch_bi_ms", all_reduce_on(behind_a_switch, "bidirectional-ring", size).time * 1e3}};
}

/// Returns the times in ms of all stages of a step but the first, which computes, and their sum as "all".
std::map<std::string, double> stages_ms(const Scenario& s) {
  std::map<std::string, double> ms;
  const Result r = simulate(s);
  const auto& stages = figure<std::vector<NamedTime>>(r.servers, "stages");
  for (std::size_t i = 1; i < stages.size(); ++i) {
    ms[stages[i].name] = stages[i].time * 1e3;
    ms["all"] += stages[i].time * 1e3;
  }
  return ms;
}

/// One key of all parameters, which are those of a network of one layer.
SeedFigures hier_01(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const auto machines = fields.integer("machines", 1), gpus = fields.integer("gpus_per_machine", 1);
  constexpr int outputs = 10000;  // (inputs + 1) x outputs parameters of 4 bytes
  const Scenario s = read_scenario_text(
      fmt::format(
          "cluster: {{nodes: {}, fabric: {{base: nonblocking, switch_latency: 0 us}}, node: {{gpu: {{count: {}, "
          "type: {{peak: {{fp32: 1 TFLOP/s}}, memory_bandwidth: 1 TB/s, memory_capacity: 1 TB}}}}, interconnect: "
          "pcie, pcie: {{rate: {}, latency: 0 us}}, hca: {{count: 1, rate: {}, latency: 0 us}}}}}}\n"
          "model: {{mlp: {{widths: [{}, {}]}}}}\n"
          "plan: {{idle_devices: allowed, micro_batch_size: 1, precision: fp32, optimizer: sgd, data_parallel: "
          "{{mechanism: "
          "parameter-server, size: {}, bucket: 1 TB, first_bucket: 1 TB, servers: {{count: 1, place: dedicated, "
          "keys: buckets}}, local_aggregation: {{on: cpu, reduce: sequential, broadcast: sequential}}}}}}\n",
          machines + 1, gpus, fields.text("pcie"), fields.text("net"),
          static_cast<int>(fields.bytes("size").value) / 4 / outputs - 1, outputs, machines * gpus),
      "stages.yaml");
  std::map<std::string, double> one_server = stages_ms(s);
  // Every machine serves its part of the key.
  std::map<std::string, double> many_servers = stages_ms(read_again(
      s, {{"plan.data_parallel.servers", fmt::format("{{count: {}, keys: buckets, split: mxnet}}", machines)}}));
  return {{"stages_ms s2_local_aggregate_one_gpu", one_server["reduce in the node"]},
          {"stages_ms s3_gpu_to_cpu", one_server["GPU to CPU"]},
          {"stages_ms s4_push_to_server", one_server["push"]},
          {"stages_ms s5_broadcast_to_cpus", one_server["pull"]},
          {"stages_ms s6_cpu_to_gpu", one_server["CPU to GPU"]},
          {"stages_ms s7_local_broadcast", one_server["broadcast in the node"]},
          {"total_sync_ms", one_server["all"]},
          {"co_located_servers s4_push_ms", many_servers["push"]},
          {"co_located_servers total_sync_ms", many_servers["all"]}};
}

/// Returns nodes of devices behind a switch. The devices of a node share its one adapter.
ClusterSpec nodes_with_one_adapter(int nodes, int gpus, BytesPerSecond local, BytesPerSecond network) {
  ClusterSpec spec = star_cluster(gpus, local);
  spec.nodes = nodes;
  spec.fabric = make_fabric("nonblocking");
  spec.node.hcas = 1;
  spec.node.hca_rate = network;
  return spec;
}

/// Returns the bytes that the one adapter of a node sends.
double sent_by_node(const CollectiveRun& run, int node) {
  return run.links.at(fmt::format("node{}/hca0 -> fabric", node));
}

/// Returns the bytes that a server (the last device of the cluster) receives if each of `senders` sends it `size`.
double server_ingress(const ClusterSpec& cluster, std::vector<Actor> senders, Bytes size) {
  CollectiveRunOptions o;
  o.algorithm = "gather-broadcast";
  o.options.size = size;
  o.members = {static_cast<Actor>(cluster.gpus() - 1)};
  o.members.insert(o.members.end(), senders.begin(), senders.end());
  o.ranks = static_cast<int>(o.members.size());
  return run_collective(cluster, o).received.front();
}

SeedFigures hier_02(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const auto machines = static_cast<int>(fields.integer("machines", 1));
  const auto gpus = static_cast<int>(fields.integer("gpus_per_machine", 1));
  const Bytes size = fields.bytes("size");
  const BytesPerSecond local = fields.bandwidth("nvlink"), network = fields.bandwidth("net");
  const ClusterSpec cluster = nodes_with_one_adapter(machines, gpus, local, network);
  const CollectiveRun flat = all_reduce_on(cluster, "ring", size),
                      levels = all_reduce_on(cluster, "hierarchical", size, gpus);
  const CollectiveRun leader = all_reduce_on(cluster, "hierarchical-leader", size, gpus);
  const ClusterSpec with_server = nodes_with_one_adapter(machines + 1, gpus, local, network);
  std::vector<Actor> all(static_cast<std::size_t>(machines) * static_cast<std::size_t>(gpus)), leaders;
  std::iota(all.begin(), all.end(), 0);
  for (int m = 0; m < machines; ++m) leaders.push_back(m * gpus);
  const double flat_ingress = server_ingress(with_server, all, size),
               level_ingress = server_ingress(with_server, leaders, size);
  return {{"nic_tx_MB_per_node_flat_ring", sent_by_node(flat, 0) * 1e-6},
          {"nic_tx_MB_per_node_hierarchical", sent_by_node(levels, 0) * 1e-6},
          {"nic_tx_MB_per_node_hierarchical_leader", sent_by_node(leader, 0) * 1e-6},
          {"hierarchical_faster", levels.time < flat.time},
          {"ps_ingress_MB_flat", flat_ingress * 1e-6},
          {"ps_ingress_MB_hierarchical", level_ingress * 1e-6},
          {"ps_ingress_ratio", flat_ingress / level_ingress}};
}

SeedFigures nodes_01(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const auto gpus = static_cast<int>(fields.integer("gpus", 1));
  const Bytes size = fields.bytes("size");
  SeedFigures got;
  std::vector<std::pair<double, std::string>> order;
  for (int per_node = 1; per_node <= gpus; per_node *= 2) {
    const std::string layout = fmt::format("{}x{}", gpus / per_node, per_node);
    const ClusterSpec cluster =
        nodes_with_one_adapter(gpus / per_node, per_node, fields.bandwidth("local"), fields.bandwidth("net"));
    order.emplace_back(all_reduce_on(cluster, "hierarchical", size, per_node).time * 1e3, layout);
    got["hier_comm_ms " + layout] = order.back().first;
  }
  std::sort(order.begin(), order.end());
  std::vector<std::string> words;
  for (const auto& [ms, layout] : order) words.push_back(fmt::format("step({})", layout));
  got["order"] = fmt::format("{}", fmt::join(words, " < "));
  return got;
}

SeedFigures nvl_02(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const Bytes size = fields.bytes("size");
  const Catalog catalog;
  ClusterSpec cluster = star_cluster(1, BytesPerSecond{1e9});
  cluster.node = read_node(catalog.resolve("node", parse_document("base: " + fields.text("node"), "NVL-02")), catalog);
  cluster.node.nvlink_latency = {};
  cluster.node.gpu.compute_while_communicating = cluster.node.gpu.communication_while_computing = 1;
  std::vector<WeightedRing> rings = node_rings(cluster.node);
  const auto ms = [&](const char* algorithm, const char* rate) {
    cluster.node.nvlink_rate = fields.bandwidth(rate);
    return all_reduce_on(cluster, algorithm, size, 0, rings).time * 1e3;
  };
  SeedFigures got{{"with_n_minus_1_over_n_ms", ms("multi-ring", "seed_rate")},
                  {"at_18_75GBps_ms", ms("multi-ring", "rate_18_75")},
                  {"nvlink2_real_25GBps_ms", ms("multi-ring", "nvlink2_rate")},
                  {"both_ways_ms", ms("bidirectional-multi-ring", "seed_rate")}};
  // The seed's formula drops (n−1)/n, as if every GPU sent the whole data twice around its rings.
  const int all = std::accumulate(rings.begin(), rings.end(), 0, [](int sum, const auto& r) { return sum + r.weight; });
  std::vector<Transfer> full_traffic;
  for (const WeightedRing& ring : rings)
    for (std::size_t v = 0; v < ring.order.member.size(); ++v)
      full_traffic.push_back({ring.order.member[v], ring.order.member[(v + 1) % ring.order.member.size()],
                              size * 2.0 * ring.weight / all});
  cluster.node.nvlink_rate = fields.bandwidth("seed_rate");
  got["seed_formula_ms"] = transfer_ms(cluster, full_traffic);
  std::vector<int> weights;
  for (WeightedRing& ring : rings) {
    weights.push_back(ring.weight);
    ring.weight = 1;
  }
  got["ring_weights"] = fmt::format("{}", fmt::join(weights, " "));
  got["equal_halves_ms"] = ms("multi-ring", "seed_rate");
  return got;
}

const RegisterSeed hierarchy_seeds[] = {
    {"BIRING-01", biring_01}, {"HIER-01", hier_01}, {"HIER-02", hier_02}, {"NODES-01", nodes_01}, {"NVL-02", nvl_02}};

}  // namespace
}  // namespace trainyard
