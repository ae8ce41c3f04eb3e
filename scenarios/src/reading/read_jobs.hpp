#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/reading/scenario.hpp"
#include "topologies/placement.hpp"

namespace trainyard {

/// A training among several on one cluster.
struct SharedJob {
  Scenario scenario;       ///< its nodes as a cluster of their own
  std::vector<int> nodes;  ///< numbers of its nodes; empty: `placement` chooses them
  Placement placement = Placement::packed;
  Seconds start;  ///< time at which it begins
  Place place;
  int node_count() const { return scenario.cluster.nodes; }
};

/// A cluster and the jobs that run on it at the same time.
struct SharedCluster {
  std::string name;
  ClusterSpec cluster;
  std::vector<SharedJob> jobs;
  Prices prices;
  Place place;  ///< the list of jobs
};

/// Reads `cluster`, `software` (for jobs without one), `prices` and `jobs`: a list of maps with `nodes`, `placement`, `start`,
/// `scenario` (a file that the job's other keys change) and the keys of a scenario. A job's cluster is that many nodes
/// of the shared one. The overrides apply to the document. Throws UserError with the place for jobs that do not fit,
/// and for what jobs that share a cluster cannot have.
SharedCluster read_shared_cluster(const Node& document, const std::string& name, const Overrides& = {});

/// The order in which waiting trainings start: by arrival, or by priority. A preemptive policy also stops trainings of
/// lower priority.
enum class QueuePolicy : std::uint8_t { fifo, priority, preemptive };

/// A training of a fleet: it arrives once or several times, and waits for its nodes.
struct FleetTraining {
  std::string name;
  std::vector<int> nodes;           ///< possible numbers of nodes, ascending
  std::vector<Scenario> scenarios;  ///< the training on each of these numbers
  bool is_range = false;            ///< numbers of a range on which the plan does not run are left out
  std::vector<int> left_out_nodes;  ///< numbers of the range on which the plan does not run
  std::string left_out;             ///< reason why the last of them was left out; empty: none was
  int priority = 0;                 ///< higher ones start first
  Seconds arrival;                  ///< time of the first arrival
  Seconds interval, mean_interval;  ///< time between arrivals, fixed or random with that mean; 0: not given
  int count = 0;                    ///< number of arrivals; 0: all within the horizon
  std::optional<Seconds> deadline;  ///< time after the arrival. No value: the training must end within the horizon
  Place place;
};

/// A cluster on which trainings arrive, wait and run over a long time.
struct FleetFile {
  std::string name;
  ClusterSpec cluster;
  Site site;  ///< where the cluster stands: its limits, and the PUE
  Prices prices;
  Seconds horizon;
  int spares = 0;  ///< nodes among those of the cluster that only replace failed ones
  QueuePolicy policy = QueuePolicy::fifo;
  bool backfill = false;  ///< trainings may overtake those that their start does not delay
  Seconds grace;          ///< time that a stopped training has for a checkpoint; 0: it stops at once
  std::uint64_t seed = 1;
  int runs = 1;
  std::vector<FleetTraining> trainings;
};

/// Reads `cluster`, `fleet`, `trainings` and `prices`, and `software`, `faults` and `site` for trainings without them.
/// The overrides apply to the document. Throws UserError with the place.
FleetFile read_fleet(const Node& document, const std::string& name, const Overrides& = {});

}  // namespace trainyard
