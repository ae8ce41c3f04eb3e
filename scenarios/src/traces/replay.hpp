#pragma once
#include <map>
#include <string>
#include <vector>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/traces/replay_plan.hpp"
#include "sim/folding/fold.hpp"

namespace trainyard {

/// What the replay of a trace takes, and on what.
struct ReplayResult {
  std::string trace;
  int ranks = 0, simulated_ranks = 0;
  std::uint64_t nodes = 0, operations = 0, messages = 0;
  double time = 0;  ///< s
  /// Of the last rank to finish; the parts sum to the time.
  struct Breakdown {
    int rank = 0;
    double compute = 0, memory = 0, host = 0;
    std::map<std::string, double> exposed_communication;  ///< by operation
    double bubble = 0, other = 0;
  } breakdown;
  std::map<std::string, double> critical_path;  ///< seconds by resource
  std::string bottleneck;
  double bottleneck_share = 0;
  std::map<std::string, double> bytes_by_link_kind;
  double bytes_sent_per_rank_max = 0, bytes_total = 0;
  /// Collectives of a kind, of groups of one size.
  struct Collectives {
    std::string operation;
    int ranks = 0;
    double count = 0, bytes = 0;  ///< of all groups; bytes as nccl-tests counts them
  };
  std::vector<Collectives> collectives;
  std::string judged;  ///< error to expect of modelled collectives; "": there are none
};
const JsonFields<ReplayResult>& replay_fields();

/// Replays the trace. `trace`: a Chrome/Perfetto trace is written there, unless it is empty; every rank is
/// simulated for it. Throws UserError.
ReplayResult replay(const ReplayOptions&, const ClusterSpec&, const SoftwareStack&, Folding = Folding::automatic,
                    const std::filesystem::path& trace = {});

}  // namespace trainyard
