#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/fitted/nccl_network_fit.hpp"
#include "strategies/collectives/library_model.hpp"

namespace trainyard {

/// A row of a table of sweeps, with what the model gives for it.
struct CollectiveRow {
  NcclOperation operation = NcclOperation::all_reduce;
  Bytes size;
  Seconds measured, predicted;
  int line = 0;  ///< of the table
};

/// A machine that somebody ran nccl-tests on.
struct MeasuredSystem {
  std::string name, kind, source, version, note;
  int gpus = 0;
  bool rings_only = false;
  bool in_network = false;  ///< switches of the network add (SHARP): in no fit
  NcclLaunch launch = NcclLaunch::ahead;
  std::optional<ClusterSpec> cluster = {};           ///< none: the source does not state the machine
  std::shared_ptr<std::vector<NcclNode>> nccl = {};  ///< by type of node
  std::vector<CollectiveRow> rows = {};
  /// The highest rate on the wires over what they carry, of sizes from 64 MiB on; 0: no such row.
  double peak_share = 0;
  /// Below half of its wires something is not set up: such a system is said, and neither fitted to nor judged by.
  static constexpr double kLeastShare = 0.5;
  bool healthy() const { return cluster && !in_network && (peak_share == 0 || peak_share >= kLeastShare); }
  int nodes() const { return cluster ? cluster->nodes : 1; }
  /// Between nodes: the entry of models/catalog/nccl-networks. In one: empty.
  std::string network() const { return nodes() > 1 ? nccl->front().linked().between.name : ""; }
  NcclCall call(NcclOperation, Bytes size) const;
};

struct MeasuredSystems {
  std::vector<MeasuredSystem> systems;
  std::vector<std::string> impossible;  ///< "file:line: what", of rows that are left out
};

/// Reads the machines and their sweeps (default: those of scenarios/measured/tables). A table without the column `launch`,
/// or a system that leaves it empty, was launched by one thread in one node (nccl-tests -g N), by a process for each GPU
/// between nodes (mpirun). Rows that no machine could give are
/// named and left out: bus bandwidth above every wire, a time over twice that of a larger size. Throws UserError
/// with file:line for unknown systems and what cannot be read.
MeasuredSystems measured_systems(const std::filesystem::path& systems = {}, const std::filesystem::path& sweeps = {});

/// The rows of healthy systems between nodes over one kind of network, by system and operation.
std::vector<NcclSweep> network_sweeps(const std::vector<MeasuredSystem>&, const std::string& network);

}  // namespace trainyard
