#pragma once
#include <map>
#include <string>
#include <vector>

#include "sim/units.hpp"
#include "strategies/failures/checkpoint_interval.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// The effect of failures and checkpoints on a training: means over its simulated runs.
struct FailureResult {
  int runs = 1;
  Seconds time_between_failures;              ///< mean over the whole cluster; 0: there are no random failures
  Seconds end;                                ///< length of all steps, without other phases of the training
  Seconds useful;                             ///< time of completed steps that no failure undid
  double steps = 0;                           ///< number of completed steps
  double goodput = 1, goodput_deviation = 0;  ///< `useful` over `end`; standard deviation over the runs
  Seconds lost_work, lost_work_deviation;     ///< time of repeated work; standard deviation over the runs
  /// Time for which the training is stopped for checkpoints (`stalled`), for restarts (`down`) and until a node is
  /// repaired (`without_node`); time lost because fewer replicas work (`slower`). See LongRunResult.
  Seconds stalled, down, without_node, slower;
  /// The time for which the training of a post-training loop waits because no engine is left; the unfinished step at the
  /// end of a training or a loop, which is no part of `slower`.
  Seconds without_engines, unfinished;
  /// A pool of GPUs of a post-training loop, with its number of failures and the time of the loop that they and its
  /// checkpoints cost.
  struct Pool {
    std::string name;  ///< "training", "generation"; "all" or, beside "generation", "both": GPUs do both in turn
    int gpus = 0;
    double failures = 0;
    Seconds lost = {};
  };
  std::vector<Pool> pools;               ///< empty: no loop
  double failures = 0, checkpoints = 0;  ///< number of failures and of checkpoints in a run
  /// Mini-batches of single replicas: completed ones, and those that failures undid, including unfinished ones.
  double minibatches = 0, lost_minibatches = 0;
  double effective_epochs = 0;                ///< passes over the data by the steps done; 0: no epoch is given
  double planned_epochs = 0;                  ///< passes in the same time without failures and checkpoints
  std::map<std::string, double> failures_of;  ///< number of failures by kind of component
  /// A failure that the scenario sets at a time or step.
  struct SetFailure {
    std::string component;  ///< "gpu 5"
    Seconds time, lost_work;
    double steps = 0, lost_steps = 0;  ///< number of steps completed until then, and of those that are repeated
    bool node_was_away = false;
  };
  std::vector<SetFailure> set_failures;  ///< in the scenario's order
  /// The step of an elastic training that has lost some of its replicas.
  struct ReducedReplicas {
    int replicas = 0;  ///< number of remaining replicas
    Seconds step_time;
    bool simulated = false;  ///< false: estimated, as if the batch divided evenly among them
  };
  std::vector<ReducedReplicas> reduced_replicas;
  struct Checkpoint {
    Bytes bytes;
    std::string storage;
    Seconds snapshot;  ///< time of the copy from GPUs to host memory; 0: neither given nor simulated
    Seconds stall, write, load;
    Seconds interval;   ///< interval of the runs; 0: no checkpoints
    BestInterval best;  ///< `simulated` 0: no best interval was searched
  } checkpoint;
  Seconds effective_step_time() const { return steps > 0 ? end / steps : Seconds{}; }
};

/// A change of the failures or of the recovery, and the result of simulating the training again.
struct FailureWhatIf {
  std::string change;
  double goodput = 1;
  Seconds effective_step_time;
  std::string refused = {};  ///< why the training with the change is refused; "": it is not
};

JsonFields<FailureResult> failure_fields();
JsonFields<FailureWhatIf> failure_what_if_fields();

}  // namespace trainyard
