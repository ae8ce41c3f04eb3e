#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "sim/executor/simulation.hpp"
#include "sim/folding/fold.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

class StepRun;

/// Where every operation is kept, of those that are simulated; of larger steps none is.
constexpr double kMostKept = 2e6;
/// A trace takes about 200 bytes an operation: 400 MB, more than its viewers open.
constexpr double kMostOfTrace = 2e6;

struct SimulateOptions {
  bool critical_path = true;    ///< by resource; without it kernels in a row may be one operation
  bool path_pieces = false;     ///< and piece by piece: keeps every operation, memory grows with their number
  std::filesystem::path trace;  ///< written if not empty
  /// Ranks in the trace, the first and the last; a server that belongs to no rank is left out. Default: all actors.
  std::optional<std::pair<int, int>> trace_ranks;
  /// Called with the run, in its process, once it is over; every operation and change of memory is recorded for it.
  std::function<void(const StepRun&)> watch;
  /// The same, but nothing is recorded for it.
  std::function<void(const StepRun&)> after;
  /// Other observers of the run, asked for before it begins; null: none.
  std::vector<std::function<Observer*(const StepRun&)>> observe;
  std::optional<TransportKind> transport;  ///< none: the scenario's
  Bytes port_buffer = {};                  ///< by packets: see PacketNetwork
  Folding folding = Folding::automatic;
  bool lays_out_only = false;  ///< machine and classes of ranks are made, and nothing runs
  bool progress = false;       ///< a line on the terminal after 2 s
};

}  // namespace trainyard
