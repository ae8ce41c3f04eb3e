// ZERO-01, ZERO-02, ZERO-03, 3D-01, SHARD-01: model states divided among ranks, and keys divided among servers.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "scenarios/src/lessons/teach_zero.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/program.hpp"
#include "strategies/plan/mesh.hpp"
#include "tests/seeds/transfers.hpp"
#include "topologies/machines/ideal_machine.hpp"

namespace trainyard {
namespace {

constexpr std::pair<const char*, ZeroStage> kZero[] = {{"dp", ZeroStage::none},
                                                       {"zero1", ZeroStage::optimizer},
                                                       {"zero2", ZeroStage::gradients},
                                                       {"zero3", ZeroStage::parameters}};

/// Returns the bytes of model states on the rank that holds the most, for training in bf16 with Adam.
double bytes_per_rank(double parameters, ZeroStage zero, double ranks) {
  const StaticMemory states = model_states(held_elements(parameters, zero_shares(zero, ranks)), Precision::bf16,
                                           find_optimizer("adam", seed_place()));
  double most = 0;
  for (const MemoryUse::ByClass& parts : held_memory(states, static_cast<int>(ranks)))
    most = std::max(most, std::accumulate(parts.begin(), parts.end(), 0.0));
  return most;
}

SeedFigures zero_01(const Node& inputs) {
  const double parameters = number_of(inputs, "params");
  SeedFigures got;
  for (const double ranks : numbers_of(inputs, "N"))
    for (const auto& [name, zero] : kZero)
      got[fmt::format("bytes_per_param {} {}", ranks, name)] = bytes_per_rank(parameters, zero, ranks) / parameters;
  return got;
}

SeedFigures zero_02(const Node& inputs) {
  SeedFigures got;
  for (const auto& [name, zero] : kZero)
    got[fmt::format("GB {}", name)] = bytes_per_rank(number_of(inputs, "params"), zero, number_of(inputs, "N")) * 1e-9;
  return got;
}

SeedFigures zero_03(const Node& inputs) {
  const double parameters = number_of(inputs, "params");
  const double nodes = parameters / number_of(inputs, "params_per_node"),
               gpus = nodes * number_of(inputs, "gpus_per_node");
  const auto gb = [parameters](ZeroStage zero, double ranks) { return bytes_per_rank(parameters, zero, ranks) * 1e-9; };
  return {{"nodes", nodes},
          {"gpus", gpus},
          {"model_states_TB", gb(ZeroStage::none, 1) * 1e-3},
          {"GB_per_gpu_even_split", gb(ZeroStage::parameters, gpus)},
          {"GB_per_gpu_zero3_N1024", gb(ZeroStage::parameters, 1024)},
          {"GB_per_gpu_zero1_N800", gb(ZeroStage::optimizer, gpus)},
          {"GB_per_gpu_zero2_N800", gb(ZeroStage::gradients, gpus)}};
}

/// Lets every rank work for one second and then meet its group, on one axis after another. Ranks that disagree about
/// their groups would wait for ever. Returns the time in s.
double meeting_seconds(const Mesh& mesh) {
  IdealMachine machine("rank");
  Simulation simulation(machine);
  for (int rank = 0; rank < mesh.ranks(); ++rank) {
    std::vector<Op> ops;
    for (const Axis axis : {Axis::tensor, Axis::data, Axis::pipeline}) {
      const std::vector<int> group = mesh.group(rank, axis);
      Op& work = ops.emplace_back();
      work.kind = Kind::compute;
      work.work.flops = Flops{1};
      Op& join = ops.emplace_back();
      join.kind = Kind::join;
      join.message.steps = static_cast<std::uint32_t>(group.size());
      join.message.tag = static_cast<Tag>(group.front()) * kAxes + static_cast<Tag>(axis);
    }
    simulation.add(rank, std::make_unique<ListProgram>(std::move(ops)));
  }
  return simulation.run().end.value;
}

SeedFigures three_d_01(const Node& inputs) {
  SeedFigures got;
  for (const double tensor : numbers_of(inputs, "tp")) {
    Mesh mesh;
    mesh.tensor = static_cast<int>(tensor);
    mesh.data = static_cast<int>(number_of(inputs, "dp"));
    mesh.pipeline = static_cast<int>(number_of(inputs, "pp"));
    std::set<int> replicas, stages;
    std::set<std::vector<int>> data_groups;
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      replicas.insert(mesh.coordinates(rank).data);
      stages.insert(mesh.coordinates(rank).pipeline);
      data_groups.insert(mesh.group(rank, Axis::data));
    }
    got[fmt::format("gpus tp{}", tensor)] = mesh.ranks();
    got[fmt::format("replicas tp{}", tensor)] = replicas.size();
    got[fmt::format("data_groups tp{}", tensor)] = data_groups.size();
    got[fmt::format("stages tp{}", tensor)] = stages.size();
    got[fmt::format("all_meet tp{}", tensor)] = meeting_seconds(mesh) == 3;
  }
  return got;
}

SeedFigures shard_01(const Node& inputs) {
  ServerCell cell;
  cell.servers = static_cast<int>(number_of(inputs, "servers"));
  cell.workers = cell.servers;
  cell.pulls = false;
  for (const double mb : numbers_of(inputs, "key_MB")) cell.key_sizes.push_back(Bytes{mb * 1e6});
  SeedFigures got;
  std::map<KeySharding, double> push;
  const std::pair<const char*, KeySharding> shardings[] = {{"split_keys", KeySharding::split},
                                                           {"round_robin", KeySharding::round_robin},
                                                           {"size_greedy", KeySharding::balanced}};
  for (const auto& [name, sharding] : shardings) {
    cell.sharding = sharding;
    const ServerPlan plan = ServerCellRun(cell).plan();
    std::vector<double> loads(static_cast<std::size_t>(cell.servers));
    for (std::size_t k = 0; k < plan.keys(); ++k)
      loads[static_cast<std::size_t>(plan.server_of[k])] += plan.push_bytes(k).value * 1e-6;
    push[sharding] = server_cell_ms(cell);
    got[fmt::format("MB {}", name)] = fmt::format("{}", fmt::join(loads, " "));
    got[fmt::format("push_slowdown {}", name)] = push[sharding] / push[KeySharding::split];
  }
  return got;
}

const RegisterSeed share_seeds[] = {
    {"ZERO-01", zero_01}, {"ZERO-02", zero_02}, {"ZERO-03", zero_03}, {"3D-01", three_d_01}, {"SHARD-01", shard_01}};

}  // namespace
}  // namespace trainyard
