#include "scenarios/src/studies/measured/measured_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/fitted/measured_table.hpp"
#include "models/fitted/nccl_cost.hpp"
#include "models/hardware/adapter_rate.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/reading/read_cluster.hpp"

namespace trainyard {
namespace {

NodeSpread spread_of(const MeasuredSystem& system) {
  const ClusterSpec& cluster = *system.cluster;
  return {system.gpus, cluster.nodes, system.gpus / cluster.nodes};
}

/// Parses "NCCL 2.26.2" or "RCCL 2.22.3 ROCm 6.3.0". If the source states no version, the newest counts.
NcclChoice nccl_of(const std::string& version, NcclLaunch launch) {
  for (std::size_t found = version.find("2."); found != std::string::npos; found = version.find("2.", found + 1)) {
    if (found > 0 && version[found - 1] != ' ') continue;
    const std::size_t end = version.find_first_not_of("0123456789.", found);
    return {parse_nccl_version(version.substr(found, end == std::string::npos ? end : end - found)), true, launch};
  }
  return {{}, true, launch};
}

/// Parses the launch. An empty cell stands for the usual one: one thread for one node (-g N), and one process per GPU
/// for several nodes (mpirun).
NcclLaunch launch_of(const MeasuredTable& table, std::optional<std::size_t> column, int nodes) {
  const std::string text = column ? table.text(*column) : "";
  if (text.empty()) return nodes == 1 ? NcclLaunch::by_thread : NcclLaunch::by_process;
  try {
    return parse_nccl_launch(text);
  } catch (const UserError& e) {
    table.refuse(fmt::format("launch: {}", e.what()), *column);
  }
}

std::vector<MeasuredSystem> read_systems(const std::filesystem::path& path) {
  MeasuredTable table(path);
  const std::size_t name = table.column("system"), kind = table.column("class"), gpus = table.column("gpus"),
                    machine = table.column("machine"), algorithm = table.column("algorithm"),
                    version = table.column("version"), source = table.column("source"), note = table.column("note");
  const auto launch = table.has_column("launch") ? std::optional(table.column("launch")) : std::nullopt;
  std::vector<MeasuredSystem> systems;
  while (table.next()) {
    MeasuredSystem system{table.text(name), table.text(kind), table.text(source), table.text(version),
                          table.text(note)};
    system.gpus = static_cast<int>(table.positive(gpus));
    system.rings_only = table.text(algorithm) == "ring";
    system.in_network = table.text(algorithm) == "sharp";
    if (!table.text(algorithm).empty() && !system.rings_only && !system.in_network)
      table.refuse(fmt::format("algorithm: \"{}\": expected ring, sharp, or none", table.text(algorithm)), algorithm);
    if (!table.text(machine).empty()) {
      system.cluster = read_cluster(
          parse_document(table.text(machine), fmt::format("{}:{}", table.name(), table.line())), Catalog());
      system.cluster->sharp = system.in_network;
      system.launch = launch_of(table, launch, system.cluster->nodes);
      const NcclChoice choice = nccl_of(system.version, system.launch);
      system.nccl = std::make_shared<std::vector<NcclNode>>(nccl_nodes(*system.cluster, choice));
      if (system.gpus % system.cluster->nodes != 0 || system.gpus > system.cluster->gpus())
        table.refuse(fmt::format("{} GPUs on a machine of {} nodes and {} GPUs", system.gpus, system.cluster->nodes,
                                 system.cluster->gpus()),
                     gpus);
    }
    systems.push_back(std::move(system));
  }
  return systems;
}

/// The least bytes that NCCL must move over the slowest wires, NCCL's best rate there, and the bandwidth of the wires.
struct WireLoad {
  Bytes bytes;
  BytesPerSecond best_rate, bandwidth;
};

WireLoad wire_load(const MeasuredSystem& system, const CollectiveRow& row) {
  const NcclCall call = system.call(row.operation, row.size);
  const NodeType& node = system.cluster->node;
  const Bytes wire = nccl_wire(row.operation, row.size, call.gpus);
  if (call.nodes == 1) {
    if (call.machine.value > 0) return {wire, call.machine, std::max(least_nvlink(node), node.pcie_rate)};
    return {wire, least_nvlink(node), least_nvlink(node)};
  }
  const bool tree = row.operation == NcclOperation::all_reduce && !call.rings_only && (call.nodes == 2 || call.sharp);
  if (row.operation == NcclOperation::sendrecv) return {row.size, call.gpu_network, call.gpu_network};
  if (row.operation == NcclOperation::alltoall) {
    const double leaving = static_cast<double>(call.gpus - call.local) / call.gpus * call.local;
    return {row.size * leaving, call.network, call.network};
  }
  return {tree ? row.size : wire, call.network, call.network};
}

/// Removes impossible rows and reports them.
void leave_out(MeasuredSystem& system, const std::string& table, std::vector<std::string>& impossible) {
  constexpr double kTolerance = 1.02, kFarFaster = 0.5;
  std::vector<CollectiveRow> possible;
  for (const CollectiveRow& row : system.rows) {
    const auto is_far_faster = [&](const CollectiveRow& r) {
      return r.operation == row.operation && r.size > row.size && r.measured < row.measured * kFarFaster;
    };
    const auto faster = std::ranges::find_if(system.rows, is_far_faster);
    std::string reason;
    if (const WireLoad load = wire_load(system, row); load.bytes / row.measured > load.bandwidth * kTolerance)
      reason = fmt::format("{:.4g} GB/s over wires of {:.4g} GB/s", (load.bytes / row.measured).value * 1e-9,
                           load.bandwidth.value * 1e-9);
    else if (faster != system.rows.end())
      reason = fmt::format("{:.4g} us, but {:.4g} us of {:.0f} B (line {})", row.measured.value * 1e6,
                           faster->measured.value * 1e6, faster->size.value, faster->line);
    if (reason.empty())
      possible.push_back(row);
    else
      impossible.push_back(fmt::format("{}:{}: {}, {} of {:.0f} B: {}", table, row.line, system.name,
                                       name_of(row.operation), row.size.value, reason));
  }
  system.rows = std::move(possible);
}

void predict(MeasuredSystem& system) {
  for (CollectiveRow& row : system.rows) {
    for (const NcclNode& node : *system.nccl) {
      NcclCall call = node.call(row.operation, row.size, spread_of(system));
      call.rings_only = system.rings_only;
      row.predicted = std::max(row.predicted, nccl_cost(node.model(call), call).time);
    }
    if (row.size < kLargeCollective) continue;
    const WireLoad load = wire_load(system, row);
    system.peak_share = std::max(system.peak_share, (load.bytes / row.measured) / load.best_rate);
  }
}

}  // namespace

NcclCall MeasuredSystem::call(NcclOperation operation, Bytes size) const {
  NcclCall call = nccl->front().call(operation, size, spread_of(*this));
  call.rings_only = rings_only;
  return call;
}

MeasuredSystems measured_systems(const std::filesystem::path& systems, const std::filesystem::path& sweeps) {
  const auto path_or_shipped = [](const std::filesystem::path& path, const char* name) {
    return path.empty() ? shipped_file(std::string("scenarios/measured/tables/") + name) : path;
  };
  MeasuredSystems all{read_systems(path_or_shipped(systems, "nccl_systems.csv")), {}};
  MeasuredTable table(path_or_shipped(sweeps, "nccl_sweeps.csv"));
  const std::size_t name = table.column("system"), operation = table.column("op"), size = table.column("size_bytes"),
                    time = table.column("time_us");
  std::map<std::string, MeasuredSystem*> by_name;
  for (MeasuredSystem& system : all.systems) by_name[system.name] = &system;
  while (table.next()) {
    const auto found = by_name.find(table.text(name));
    if (found == by_name.end()) {
      std::vector<std::string> names;
      for (const auto& [known_name, system] : by_name) names.push_back(known_name);
      table.refuse(fmt::format("unknown system \"{}\"{}", table.text(name), hint(table.text(name), names)), name);
    }
    found->second->rows.push_back({parse_nccl_operation(table.text(operation)), Bytes{table.positive(size)},
                                   Seconds{table.positive(time) * 1e-6}, Seconds{0}, table.line()});
  }
  const std::string file = std::filesystem::path(table.name()).filename().string();
  for (MeasuredSystem& system : all.systems) {
    if (!system.cluster) continue;
    leave_out(system, file, all.impossible);
    predict(system);
  }
  return all;
}

std::vector<NcclSweep> network_sweeps(const std::vector<MeasuredSystem>& systems, const std::string& network) {
  std::vector<NcclSweep> sweeps;
  for (const MeasuredSystem& system : systems) {
    if (!system.healthy() || system.network() != network) continue;
    std::map<NcclOperation, std::vector<std::pair<Bytes, Seconds>>> rows;
    for (const CollectiveRow& row : system.rows) rows[row.operation].emplace_back(row.size, row.measured);
    for (const auto& [operation, operation_rows] : rows) {
      const NcclCall call = system.call(operation, Bytes{0});
      sweeps.push_back(
          {system.name, system.source, call, nccl_inside(system.nccl->front().model(call), call), operation_rows});
    }
  }
  return sweeps;
}

}  // namespace trainyard
