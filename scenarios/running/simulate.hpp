#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "scenarios/answer/result.hpp"
#include "scenarios/reading/scenario.hpp"
#include "sim/executor/simulation.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

/// A critical path keeps every operation; of larger steps it is left out, and kernels in a row are one operation.
constexpr double kMostOfPath = 2e6;
/// A trace takes about 200 bytes an operation: 400 MB, more than its viewers open.
constexpr double kMostOfTrace = 2e6;

/// What alone caps messages in a step: a modelled collective goes as fast as the fitted model of the library says.
constexpr const char* kLibraryLimit = "NCCL's own rate";

struct SimulateOptions {
  Upgrade upgrade;              ///< resource classes made faster
  bool critical_path = true;    ///< keeps every operation: memory grows with their number
  std::filesystem::path trace;  ///< written if not empty
  /// Ranks in the trace, the first and the last; a server that belongs to no rank is left out. Default: all actors.
  std::optional<std::pair<int, int>> trace_ranks;
  std::filesystem::path picture;    ///< of one rank's step, as SVG; written if not empty
  std::optional<int> picture_rank;  ///< default: the one that ends last
  TransportKind transport = kDefaultTransport;
  bool progress = false;  ///< a line on the terminal after 2 s
};

/// Programs, machine and observers put together and run, in this process. One simulation a process: use the next two.
Result simulate_here(const Scenario&, const SimulateOptions&);
/// In a forked child. Failures are no part of a step: see simulate_training().
Result simulate(const Scenario&, const SimulateOptions& = {});

/// Each resource class `factor` times faster, simulated again; side by side on the processors there are.
std::vector<WhatIf> what_if(const Scenario&, double factor = 2, TransportKind = kDefaultTransport);

Explanation explain(const Scenario&);

}  // namespace trainyard
