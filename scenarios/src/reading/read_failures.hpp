#pragma once
#include <optional>
#include <string>
#include <vector>

#include "models/hardware/storage.hpp"
#include "scenarios/src/reading/training_length.hpp"
#include "strategies/failures/long_run.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// What a scenario says of failures, and what is done about them.
struct FailureChoice {
  std::vector<FailingParts> parts;
  std::vector<SetFailure> failures;
  std::vector<std::string> failure_names;  ///< "gpu 5"
  std::vector<Place> failure_places;       ///< of each failure's time
  std::uint64_t seed = 1;
  int runs = 20;  ///< of drawn failures: so many trainings, each with draws of its own

  bool checkpoints = false;
  double every = 0;           ///< steps
  Seconds every_time;         ///< instead
  double virtual_epochs = 0;  ///< instead: so many in a pass over the data
  bool optimal = false;       ///< instead: where simulated runs lose least
  bool find_best = true;      ///< say the best interval even where it is not asked for
  bool asynchronous = false, sharded = true;
  std::optional<Storage> store;                  ///< none: the nodes' own drives
  bool local = false;                            ///< said so
  std::optional<NvmeType> drive;                 ///< which the nodes have besides what the cluster says
  std::optional<Seconds> snapshot, write, load;  ///< said, not simulated
  Place checkpoint_place, every_place;

  Recovery recovery;
  Place place;  ///< of the section

  bool given() const { return checkpoints || !parts.empty() || !failures.empty(); }
};

/// What can fail.
struct FailingMachine {
  const ClusterSpec& cluster;
  int workers = 0;               ///< a rank each
  int servers = 0;               ///< parameter servers
  bool survives_server = false;  ///< training goes on without one of them
};

/// Reads of the section `faults`:
/// `failures: {mtbf: {gpu: 80000 h, switch: {mtbf: 1e6 h, count: 400}, …}, seed, runs}` (kinds: gpu, node, nic, switch,
/// link, software, worker, server; each counted where no count is said) or a list of `{at: 1050 s | 550 steps, what:
/// gpu 5 | node 2 | nic 3 | link NAME | switch NAME | software | worker 1 | server 0}`. GPUs and adapters fail with
/// their node; a worker is the process of a rank, a server that of a parameter server: they come back on their node (where servers are replicated, another one takes over: training goes on);
/// `checkpoint: {every: 100 steps | 30 min | optimal, virtual_epochs, kind: synchronous | asynchronous, sharded, storage:
/// local | NAME | {…}, snapshot, write, load}`;
/// `restart: {detect, restart, repair, elastic, spares}`. Throws UserError with the place.
FailureChoice read_failures(Fields& faults, const FailingMachine&, const Catalog&);

/// Refuses what does not go with the rest of the plan: no length, an interval in virtual epochs without epochs, steps
/// beyond the end. Throws UserError with the place.
void check_failures(const FailureChoice&, const TrainingLength&);

}  // namespace trainyard
