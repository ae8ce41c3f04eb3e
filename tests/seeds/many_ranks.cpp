// RANK-01, RANK-02, SCALE-01, LINE-01, GPT3-05: ranks and their devices, and times of many ranks.
#include <fmt/format.h>

#include "scenarios/src/pictures/views.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/executor/simulation.hpp"
#include "tests/all_reduce_by.hpp"
#include "tests/seeds/simple_training.hpp"
#include "tests/seeds/transfers.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

Scenario small_ranks(int nodes, int gpus) {
  return read_scenario_text(
      fmt::format("cluster:\n  nodes: {}\n  node: {{base: dgx-a100, gpu: {{count: {}}}, hca: {{count: {}}}}}\n"
                  "  fabric: nonblocking\nmodel: {{mlp: {{widths: [8, 8]}}}}\n"
                  "plan: {{precision: fp32, micro_batch_size: 1, data_parallel: {{all_reduce: gather-broadcast}}}}\n",
                  nodes, gpus, gpus),
      "ranks.yaml");
}

std::string joined(const std::vector<int>& numbers) { return fmt::format("{}", fmt::join(numbers, " ")); }

SeedFigures rank_01(const Node& inputs) {
  const Scenario s =
      small_ranks(static_cast<int>(number_of(inputs, "nodes")), static_cast<int>(number_of(inputs, "gpus_per_node")));
  std::vector<int> ranks, local;
  int master = -1;
  std::size_t most_receives = 0;
  for (const MeshRank& rank : mesh(s)) {
    ranks.push_back(rank.rank);
    local.push_back(std::stoi(rank.device.substr(rank.device.find("gpu") + 3)));
    std::size_t receives = 0;  // the master gathers
    for (const ScheduleLine& line : schedule(plan(s), rank.rank, 10000).lines) receives += line.kind == "recv" ? 1 : 0;
    if (receives > most_receives) master = rank.rank;
    most_receives = std::max(most_receives, receives);
  }
  return {{"local_rank", joined(local)}, {"rank", joined(ranks)}, {"world_size", s.ranks()}, {"master_rank", master}};
}

SeedFigures rank_02(const Node& inputs) {
  const int nodes = static_cast<int>(number_of(inputs, "nnodes"));
  const Scenario s = small_ranks(nodes, static_cast<int>(number_of(inputs, "nproc_per_node")));
  std::vector<int> ranks_of_node;
  for (const MeshRank& rank : mesh(s))
    if (rank.node == static_cast<int>(number_of(inputs, "node_rank"))) ranks_of_node.push_back(rank.rank);
  return {{"world_size", s.ranks()},
          {"ranks_on_node3", joined(ranks_of_node)},
          {"strategy", nodes > 1 ? "multi-worker" : "one worker"}};
}

/// Returns the time in s of work that `ranks` ranks share and of an all-reduce of a gradient after it.
double shared_seconds(double work_s, int ranks, double gradient_elements, const std::string& algorithm = "binary-tree",
                      BytesPerSecond link = BytesPerSecond{1e9}, Picoseconds latency = {}) {
  constexpr double rate = 1e12;  // FLOP/s of a device of star_cluster
  const Network network = simple_layers(1, 1, flops_work(Flops{work_s * rate / ranks}, Precision::fp32));
  TrainingPlan plan = simple_plan(network, ranks, algorithm, true);
  CollectiveSettings settings;
  settings.chunk = Bytes{4 * gradient_elements + 1};  // trees send the gradient in one piece
  test::all_reduce_by(plan, algorithm, settings);
  plan.stages.front().buckets.front().elements = gradient_elements;
  Names names;
  const TrainingPrograms programs(plan, names);
  ClusterMachine machine(star_cluster(ranks, link, latency), SoftwareStack{});
  Simulation simulation(machine);
  simulation.add(programs.programs());
  return simulation.run().end.value;
}

SeedFigures scale_01(const Node& inputs) {
  const double work = number_of(inputs, "days") * 86400;
  const int gpus = static_cast<int>(number_of(inputs, "gpus"));
  const double ideal = shared_seconds(work, gpus, 0);
  return {{"minutes", ideal / 60}, {"more_with_communication", shared_seconds(work, gpus, 1e6) > ideal}};
}

SeedFigures line_01(const Node& inputs) {
  const double work = number_of(inputs, "compute_s");
  const Picoseconds alpha = to_picoseconds(Seconds{number_of(inputs, "alpha_us") * 1e-6});
  SeedFigures got;
  for (const double n : numbers_of(inputs, "n"))
    got[fmt::format("speedup {}", n)] =
        work / shared_seconds(work, static_cast<int>(n), number_of(inputs, "S_MB") * 1e6 / 4, "ring",
                              BytesPerSecond{number_of(inputs, "B_GBps") * 1e9}, alpha);
  return got;
}

/// Returns the time in s that a step of all GPUs waits for one hierarchical all-reduce of its fp16 gradients.
double exposed_all_reduce(const ClusterSpec& cluster, Bytes gradient) {
  constexpr double outputs = 1e5;  // width of the only layer
  Scenario s = read_scenario_text(
      fmt::format(
          "cluster: {{nodes: {}, node: dgx-1v, fabric: nonblocking}}\nmodel: {{mlp: {{widths: [{:.0f}, {:.0f}]}}}}\n"
          "plan:\n  micro_batch_size: 1\n  precision: fp16\n  data_parallel: {{bucket: 1 TB, overlap: false, "
          "all_reduce: {{algorithm: hierarchical, fidelity: flows}}}}\n",
          cluster.nodes, gradient.value / 2 / outputs - 1, outputs),
      "ranks.yaml");
  s.cluster = cluster;
  SimulateOptions options;
  options.critical_path = false;
  return simulate(s, options).breakdown.exposed_communication.at("all-reduce");
}

SeedFigures gpt3_05(const Node& inputs) {
  Fields fields(inputs, "inputs");
  const int gpus = static_cast<int>(fields.integer("gpus", 1)),
            servers = gpus / static_cast<int>(fields.integer("gpus_per_server", 1));
  // The links within a server limit nothing.
  const BytesPerSecond no_limit{1e18};
  ClusterSpec cluster = star_cluster(gpus / servers, no_limit);
  cluster.nodes = servers;
  cluster.fabric = make_fabric("nonblocking");
  cluster.node.hcas = 1;
  cluster.node.hca_rate = fields.bandwidth("server_rate");
  const Bytes gradient = fields.bytes("gradient");
  const Work share = flops_work(Flops{fields.number("FLOP", 1, 1e30) / gpus}, Precision::fp32);
  ClusterSpec gpu = star_cluster(1, BytesPerSecond{1e9});
  gpu.node.gpu.peak[static_cast<std::size_t>(Precision::fp32)] = fields.flops_rate("peak");
  const double peak = work_seconds(gpu, {share});
  gpu.node.gpu.efficiency[0].flops = 0.3;
  return {{"servers", servers},
          {"server_GBps", cluster.node.hca_rate.value * 1e-9},
          {"hier_allreduce_s", exposed_all_reduce(cluster, gradient)},
          {"days_at_100pct", peak / 86400},
          {"days_at_30pct", work_seconds(gpu, {share}) / 86400}};
}

const RegisterSeed rank_seeds[] = {
    {"RANK-01", rank_01}, {"RANK-02", rank_02}, {"SCALE-01", scale_01}, {"LINE-01", line_01}, {"GPT3-05", gpt3_05}};

}  // namespace
}  // namespace trainyard
