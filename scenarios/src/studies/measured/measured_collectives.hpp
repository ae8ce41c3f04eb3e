#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/fitted/nccl_network_fit.hpp"
#include "strategies/collectives/library_model.hpp"

namespace trainyard {

/// A row of a table of nccl-tests sweeps, with the model's prediction.
struct CollectiveRow {
  NcclOperation operation = NcclOperation::all_reduce;
  Bytes size;
  Seconds measured, predicted;
  int line = 0;  ///< line in the table
};

/// A machine on which nccl-tests was measured.
struct MeasuredSystem {
  std::string name, kind, source, version, note;
  int gpus = 0;
  bool rings_only = false;
  bool in_network = false;  ///< switches of the network reduce (SHARP); fits exclude the system
  NcclLaunch launch = NcclLaunch::ahead;
  std::optional<ClusterSpec> cluster = {};           ///< no value: the source does not state it
  std::shared_ptr<std::vector<NcclNode>> nccl = {};  ///< NCCL's view of each node type
  std::vector<CollectiveRow> rows = {};
  /// Highest measured rate on the wires divided by NCCL's best rate on them, for sizes from 64 MiB on; 0: no such row.
  double peak_share = 0;
  /// A system with a smaller share counts as misconfigured: it is reported, but used neither in fits nor in judgements.
  static constexpr double kLeastShare = 0.5;
  bool healthy() const { return cluster && !in_network && (peak_share == 0 || peak_share >= kLeastShare); }
  int nodes() const { return cluster ? cluster->nodes : 1; }
  /// Returns the name of the entry of models/catalog/nccl-networks; empty: the system has one node.
  std::string network() const { return nodes() > 1 ? nccl->front().linked().between.name : ""; }
  NcclCall call(NcclOperation, Bytes size) const;
};

struct MeasuredSystems {
  std::vector<MeasuredSystem> systems;
  std::vector<std::string> impossible;  ///< "file:line: reason" of each row that is left out
};

/// Reads the machines and their sweeps (default: those of scenarios/measured/tables). The default of the column
/// `launch` is one thread for a single node (nccl-tests -g N), and one process per GPU for several nodes (mpirun).
/// Impossible rows are listed and left out: their bus bandwidth is above that of every wire, or they take more than
/// twice as long as a larger size, in any order of rows. Throws UserError with file:line for unknown systems and malformed
/// rows.
MeasuredSystems measured_systems(const std::filesystem::path& systems = {}, const std::filesystem::path& sweeps = {});

/// Returns the rows of healthy multi-node systems with one kind of network, grouped by system and operation.
std::vector<NcclSweep> network_sweeps(const std::vector<MeasuredSystem>&, const std::string& network);

}  // namespace trainyard
