#pragma once
#include <map>
#include <string>
#include <vector>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/traces/replay_plan.hpp"
#include "sim/folding/fold.hpp"

namespace trainyard {

/// The result of the replay of a trace.
struct ReplayResult {
  std::string trace;
  int ranks = 0, simulated_ranks = 0;
  std::uint64_t nodes = 0, operations = 0, messages = 0;
  double time = 0;                 ///< s
  std::string step;                ///< the step of a profiler's trace; "": the trace marks none
  double mean_step = 0;            ///< mean time of the marked steps of the slowest rank, s; 0: none is marked
  double recorded = 0;             ///< s on the recorded GPU from its first work to its last; 0: unknown
  std::vector<std::string> notes;  ///< how dependencies, faults and ranks without a trace were handled
  /// Time of the last rank to finish, in s, by cause. The parts sum to the total time.
  struct Breakdown {
    int rank = 0;
    double compute = 0, memory = 0, host = 0;
    std::map<std::string, double> exposed_communication;  ///< time by operation
    double bubble = 0, other = 0;
  } breakdown;
  std::map<std::string, double> critical_path;  ///< seconds by resource
  std::string bottleneck;
  double bottleneck_share = 0;
  std::map<std::string, double> bytes_by_link_kind;
  double bytes_sent_per_rank_max = 0, bytes_total = 0;
  /// Collectives of one operation in groups of one size.
  struct Collectives {
    std::string operation;
    int ranks = 0;
    double count = 0, bytes = 0;  ///< sums over all groups; bytes as nccl-tests counts them
  };
  std::vector<Collectives> collectives;
  std::string judged;  ///< expected error of modelled collectives; "": there are none
};
const JsonFields<ReplayResult>& replay_fields();

/// Replays a trace. `trace`: file for a Chrome/Perfetto trace of the replay, which makes every rank be simulated;
/// empty: none. Throws UserError.
ReplayResult replay(const ReplayOptions&, const ClusterSpec&, const SoftwareStack&, Folding = Folding::automatic,
                    const std::filesystem::path& trace = {});

}  // namespace trainyard
