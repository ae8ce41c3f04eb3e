// BIRING-01, HIER-01/02, NODES-01, NVL-02: rings both ways round, collectives and parameter servers in two levels, and
// the rings of a DGX-1.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "scenarios/planning/node_rings.hpp"
#include "scenarios/running/collective_run.hpp"
#include "scenarios/running/server_cell.hpp"
#include "sim/process/child.hpp"
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

/// Every device has a link of its own to both neighbours.
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

/// GPUs and CPUs of some machines.
struct Machines {
  int machines, gpus;
  ClusterSpec cluster;  ///< one machine more than those that compute: the server
  Actor gpu(int machine, int i) const { return machine * gpus + i; }
  Actor cpu(int machine) const { return cluster.gpus() + machine; }
  Actor server() const { return cpu(machines); }

  /// Milliseconds of an operation of groups that all begin at once: one group a machine, the root first.
  template <class Members>
  double stage_ms(Operation operation, Bytes size, Members members) const {
    CollectiveRunOptions o;
    o.operation = operation;
    o.algorithm = "sequential";
    o.options.size = size;
    for (int m = 0; m < machines; ++m) o.groups.push_back(members(m));
    o.ranks = static_cast<int>(o.groups.front().size());
    return run_collective(cluster, o).time * 1e3;
  }
};

struct PushAndPull {
  double push = 0, pull = 0;  // ms
};

/// A step of parameter servers whose workers are the machines' CPUs; every machine serves its share of the parameters,
/// or one that does nothing else all of them.
PushAndPull serve(const Machines& m, Bytes size, bool on_every_machine) {
  ServerCell cell;
  cell.workers = m.machines;
  cell.servers = cell.keys = on_every_machine ? m.machines : 1;
  cell.gradient = size;
  cell.cluster = m.cluster;
  for (int machine = 0; machine < m.machines; ++machine) cell.places.push_back(m.cpu(machine));
  for (int server = 0; server < cell.servers; ++server)
    cell.places.push_back(on_every_machine ? m.cpu(server) : m.server());
  cell.pulls = false;
  const double push = server_cell_ms(cell);
  cell.pulls = true;
  return {push, server_cell_ms(cell) - push};
}

SeedFigures hier_01(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const auto machines = static_cast<int>(fields.integer("machines", 1));
  const auto gpus = static_cast<int>(fields.integer("gpus_per_machine", 1));
  const Bytes size = fields.bytes("size");
  const Machines m{machines, gpus,
                   cluster_of(gpus,
                              fmt::format("interconnect: pcie\npcie: {{rate: {}, latency: 0 us}}\n"
                                          "hca: {{count: 1, rate: {}, latency: 0 us}}\n",
                                          fields.text("pcie"), fields.text("net")),
                              machines + 1)};
  const auto gpus_of = [&m](int machine) {
    std::vector<Actor> all(static_cast<std::size_t>(m.gpus));
    std::iota(all.begin(), all.end(), m.gpu(machine, 0));
    return all;
  };
  const auto cpu_and_first = [&m](int machine) { return std::vector<Actor>{m.cpu(machine), m.gpu(machine, 0)}; };
  const double aggregate = m.stage_ms(Operation::reduce, size, gpus_of),
               to_cpu = m.stage_ms(Operation::reduce, size, cpu_and_first),
               to_gpu = m.stage_ms(Operation::broadcast, size, cpu_and_first),
               share = m.stage_ms(Operation::broadcast, size, gpus_of);
  const double local = aggregate + to_cpu + to_gpu + share;
  const PushAndPull one = serve(m, size, false), shared = serve(m, size, true);
  return {{"stages_ms s2_local_aggregate_one_gpu", aggregate},
          {"stages_ms s3_gpu_to_cpu", to_cpu},
          {"stages_ms s4_push_to_server", one.push},
          {"stages_ms s5_broadcast_to_cpus", one.pull},
          {"stages_ms s6_cpu_to_gpu", to_gpu},
          {"stages_ms s7_local_broadcast", share},
          {"total_sync_ms", local + one.push + one.pull},
          {"co_located_servers s4_push_ms", shared.push},
          {"co_located_servers total_sync_ms", local + shared.push + shared.pull}};
}

/// Nodes of some devices behind a switch, with one adapter each that all of them share.
ClusterSpec nodes_with_one_adapter(int nodes, int gpus, BytesPerSecond local, BytesPerSecond network) {
  ClusterSpec spec = star_cluster(gpus, local);
  spec.nodes = nodes;
  spec.fabric = make_fabric("nonblocking");
  spec.node.hcas = 1;
  spec.node.hca_rate = network;
  return spec;
}

/// What the one adapter of a node sends.
double sent_by_node(const CollectiveRun& run, int node) {
  return run.links.at(fmt::format("node{}/hca0 -> fabric", node));
}

/// Bytes that a server gets, the last device of the cluster, where each of these sends it all its data.
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
  std::vector<Actor> all(static_cast<std::size_t>(machines) * static_cast<std::size_t>(gpus)), first;
  std::iota(all.begin(), all.end(), 0);
  for (int m = 0; m < machines; ++m) first.push_back(m * gpus);
  const double flat_ingress = server_ingress(with_server, all, size),
               level_ingress = server_ingress(with_server, first, size);
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
  // The notes drop (n−1)/n: as if every GPU sent the data twice round its rings.
  const int all = std::accumulate(rings.begin(), rings.end(), 0, [](int sum, const auto& r) { return sum + r.weight; });
  std::vector<Transfer> twice;
  for (const WeightedRing& ring : rings)
    for (std::size_t v = 0; v < ring.order.member.size(); ++v)
      twice.push_back({ring.order.member[v], ring.order.member[(v + 1) % ring.order.member.size()],
                       size * 2.0 * ring.weight / all});
  cluster.node.nvlink_rate = fields.bandwidth("seed_rate");
  got["seed_formula_ms"] = transfer_ms(cluster, twice);
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
