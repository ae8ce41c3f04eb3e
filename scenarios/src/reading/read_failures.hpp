#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/hardware/node_parts.hpp"
#include "scenarios/src/reading/training_length.hpp"
#include "strategies/failures/long_run.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// The failures of a scenario's training, its checkpoints and its recovery.
struct FailureChoice {
  std::vector<FailingParts> parts;
  std::vector<SetFailure> failures;
  std::vector<std::string> failure_names;  ///< "gpu 5"
  std::vector<Place> failure_places;       ///< place of each failure's time
  std::uint64_t seed = 1;
  int runs = 20;  ///< with random failures: number of trainings, each with its own random failures

  bool checkpoints = false;
  double interval_steps = 0;  ///< steps between checkpoints
  Seconds every_time;         ///< instead of `interval_steps`: time between checkpoints
  double virtual_epochs = 0;  ///< instead of `interval_steps`: number of checkpoints in a pass over the data
  bool optimal = false;       ///< instead of `interval_steps`: the interval at which simulated runs lose least
  bool find_best = true;      ///< whether to report the best interval even if `optimal` is false
  bool asynchronous = false, sharded = true;
  std::optional<Storage> store;                  ///< shared storage of checkpoints. No value: none
  bool local = false;                            ///< whether checkpoints go to drives of the nodes
  std::optional<NvmeType> drive;                 ///< drive for checkpoints. No value: the drives of the cluster's nodes
  std::optional<Seconds> snapshot, write, load;  ///< given times. No value: simulated
  Place checkpoint_place, every_place;

  Recovery recovery;
  Place place;  ///< place of the section

  bool is_given() const { return checkpoints || !parts.empty() || !failures.empty(); }
};

/// The components that can fail.
struct FailingMachine {
  const ClusterSpec& cluster;
  int workers = 0;               ///< number of ranks
  int servers = 0;               ///< number of parameter servers
  bool survives_server = false;  ///< whether training goes on without one of the servers
};

/// Reads `failures`, `checkpoint` and `restart` of the section `faults`. `failures` is `{mtbf: {gpu: 80000 h, switch:
/// {mtbf: 1e6 h, count: 400}, …}, seed, runs}` (without a count, the cluster's components are counted), or a list of
/// `{at: 550 steps, what: gpu 5}`. GPUs and adapters fail with their node. A worker is the process of a rank, a server
/// that of a parameter server: both come back on their node. If servers are replicated, another one takes over and
/// training goes on. Throws UserError with the place.
FailureChoice read_failures(Fields& faults, const FailingMachine&, const Catalog&);

/// Throws UserError with the place if the choice contradicts the rest of the plan: if the training has no length, the
/// interval is in virtual epochs without epochs, or a failure or checkpoint would be after the end.
void check_failures(const FailureChoice&, const TrainingLength&);

}  // namespace trainyard
