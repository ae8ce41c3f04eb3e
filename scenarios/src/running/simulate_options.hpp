#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "scenarios/src/running/full_pods.hpp"
#include "scenarios/src/running/slowest_replicas.hpp"
#include "sim/executor/simulation.hpp"
#include "sim/folding/fold.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

class StepRun;

/// Most operations of a run whose operations are all kept in memory. Larger runs keep none.
constexpr double kMostKept = 2e6;
/// Most operations of a trace. Each takes about 200 bytes: together 400 MB, more than its viewers open.
constexpr double kMostOfTrace = 2e6;

struct SimulateOptions {
  bool critical_path = true;  ///< find the critical path by resource; else consecutive kernels may be one operation
  /// Without the critical path: keep kernels apart where a run with it does, so that both have the same step time.
  bool kernels_as_with_path = false;
  bool path_pieces = false;          ///< also keep the pieces of the path, and for it every operation in memory
  std::filesystem::path trace = {};  ///< file of the trace to write; empty: none
  /// First and last rank in the trace; servers that belong to no rank are left out. No value: all actors.
  std::optional<std::pair<int, int>> trace_ranks = {};
  /// The run calls this function in its process when it is over. Every operation and change of memory is recorded for
  /// it.
  std::function<void(const StepRun&)> watch = {};
  /// The run calls this function when it is over, and records nothing for it.
  std::function<void(const StepRun&)> after = {};
  /// Makers of further observers, called before the run begins. They may return null.
  std::vector<std::function<Observer*(const StepRun&)>> observe = {};
  std::optional<TransportKind> transport = {};  ///< No value: the scenario's
  Bytes port_buffer = {};                       ///< with packets: see PacketNetwork
  Folding folding = Folding::automatic;
  /// Choice of the ranks that share drawn slow-downs. Without folding, `automatic` means `each_rank`.
  DrawSharing draws = DrawSharing::automatic;
  LastPod last_pod = LastPod::automatic;  ///< without folding, every rank is simulated as it is
  bool lays_out_only = false;             ///< make the machine and the equivalence classes of ranks, but run nothing
  bool progress = false;                  ///< show a line on the terminal after 2 s
};

}  // namespace trainyard
