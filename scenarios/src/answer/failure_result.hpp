#pragma once
#include <map>
#include <string>
#include <vector>

#include "strategies/failures/checkpoint_interval.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// What failures and checkpoints make of a training: means over its runs. Times in seconds.
struct FailureResult {
  int runs = 1;
  double time_between_failures = 0;               ///< of all parts together; 0: none is drawn
  double end = 0;                                 ///< of the training
  double steps = 0;                               ///< done
  double goodput = 1, goodput_deviation = 0;      ///< useful share of the time; standard deviation over the runs
  double lost_work = 0, lost_work_deviation = 0;  ///< done again
  double stalled = 0, down = 0, without_node = 0, slower = 0;
  double failures = 0, checkpoints = 0;
  std::map<std::string, double> failures_of;
  /// A failure that the scenario sets at a time or step.
  struct SetFailure {
    std::string component;                                    ///< "gpu 5"
    double at = 0, steps = 0, lost_steps = 0, lost_work = 0;  ///< s; steps done until then
    bool node_was_away = false;
  };
  std::vector<SetFailure> set_failures;  ///< in the scenario's order
  /// Steps of an elastic training without some of its replicas.
  struct ReducedReplicas {
    int replicas = 0;
    double step_time = 0;
    bool simulated = false;  ///< false: estimated, as if the batch divided evenly among them
  };
  std::vector<ReducedReplicas> reduced_replicas;
  struct Checkpoint {
    double bytes = 0;
    std::string storage;
    double stall = 0, write = 0, load = 0;
    double interval = 0;  ///< as it was run; 0: no checkpoints
    BestInterval best;    ///< simulated 0: there is none
  } checkpoint;
  double effective_step_time() const { return steps > 0 ? end / steps : 0; }
};

/// One change of what fails or of what is done about it, and what running the training again gives.
struct FailureWhatIf {
  std::string change;
  double goodput = 1, effective_step_time = 0;
};

JsonFields<FailureResult> failure_fields();
JsonFields<FailureWhatIf> failure_what_if_fields();

}  // namespace trainyard
