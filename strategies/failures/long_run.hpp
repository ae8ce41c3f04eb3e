#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strategies/failures/failure_draws.hpp"

namespace trainyard {

/// A prescribed failure (not a random one): at a time, or after a number of steps.
struct SetFailure {
  Seconds time;
  std::optional<double> after_step = {};  ///< No value: it comes at `time`
  std::string part;                       ///< kind of part that fails
  bool takes_node = false;
  std::optional<int> node = {};  ///< node that contains the part; nothing of an absent node fails
  int workers = 0;               ///< see FailingParts
  bool survived = false;
};

/// The effect of a prescribed failure.
struct SetFailureOutcome {
  bool happened = false;  ///< false: the training ended before
  bool idle = false;      ///< true: its node was absent already, and nothing happened
  Seconds time;
  double steps = 0;  ///< steps done when it came
  double lost_steps = 0;
  Seconds lost_work;  ///< time of the lost steps, and of the unfinished step
};

/// The interval between saves of the training's state, and the time that they cost. A state is saved as it is at the
/// end of a step.
struct CheckpointTimes {
  double interval_steps = 0;  ///< steps between checkpoints; 0: no checkpoints
  /// Training stops for this long: for the whole write, or for a copy that is then written in the background.
  Seconds stall;
  Seconds write;  ///< from its beginning until it can be read back; at least `stall`
  Seconds load;   ///< duration of reading it back
};

/// Recovery after a failure. The failure is detected after a while; then the job restarts from the last complete
/// checkpoint. After a failure of some workers only these restart; if all are lost, the job does.
struct Recovery {
  Seconds detect, restart;
  std::optional<Seconds> repair;  ///< until a failed node can be used again; No value: never
  std::optional<int> spares;      ///< number of spare nodes; No value: there are always enough
  /// True: if there is no spare node, the remaining replicas compute the whole batch, more slowly. False: training
  /// waits for a repair.
  bool elastic = false;
  /// True if the remaining replicas hold the whole state: an elastic training then continues from the end of the last
  /// step.
  bool state_survives = false;
};

/// A coarse run of a training for days to months. It counts step times and does not simulate single steps.
struct LongRunPlan {
  double steps = 0;   ///< number of steps to train; 0: as many as fit before `end_limit`
  Seconds end_limit;  ///< latest end of the run; 0: it ends with its steps
  Seconds step;
  int replicas = 1;
  /// Number of nodes that the replicas share evenly; 0: one for each. Nodes of a broken replica replace others.
  int nodes = 0;
  /// Returns the time of a step with that number of replicas. Empty: derived from `step`, as if the batch could be
  /// divided exactly.
  std::function<Seconds(int replicas)> step_with;
  CheckpointTimes checkpoint;
  Recovery recovery;
  std::vector<FailingParts> parts;
  std::vector<SetFailure> failures;
  UniformDraws draws = seeded_draws(1);
};

/// The time of a run by cause; the parts sum to `end`.
struct LongRunResult {
  Seconds end;
  double steps = 0;      ///< steps done and not lost
  Seconds useful;        ///< time of these steps at full speed
  Seconds slower;        ///< extra time of these steps while replicas were missing, and the unfinished step at the end
  Seconds lost_work;     ///< time of steps, and of parts of steps, that were repeated
  Seconds stalled;       ///< training waited for checkpoints
  Seconds down;          ///< detection, restart, and reading a checkpoint
  Seconds without_node;  ///< training waited for a repair
  double checkpoints = 0, failures = 0;
  double lost_steps = 0;  ///< whole steps that were repeated
  /// Mini-batches of single replicas that failures undid, with those that were under way.
  double lost_minibatches = 0;
  std::map<std::string, double> failures_of;  ///< number of failures, by kind of part
  std::vector<SetFailureOutcome> prescribed;  ///< effect of each prescribed failure, in the order of the plan
  double goodput() const { return end.value > 0 ? useful / end : 1; }
};

/// The largest number of steps that a double counts exactly.
constexpr double kMostSteps = 9007199254740992;

/// Runs the plan, event by event. The memory used does not grow with the length of the run. Throws UserError if the
/// run would never end, or has more than `kMostSteps` steps.
LongRunResult run_long(const LongRunPlan&);

}  // namespace trainyard
