#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/units.hpp"

namespace trainyard {

/// Parts of one kind that fail independently, each after exponentially distributed times.
struct FailingParts {
  std::string name;  ///< "gpu", "node", "nic", "switch", "software", …
  double count = 1;  ///< number of such parts
  Seconds mtbf;      ///< mean time between failures of one part
  /// True if the failure takes its node away: a spare takes over, or training goes on without its replica.
  bool takes_node = false;
  int workers = 0;        ///< number of asynchronous workers that are lost while the others go on; 0: training stops
  bool survived = false;  ///< another part takes over once the failure is detected: only the current step is lost
  /// Time by which the lost workers are absent longer: they do the work again that they had in flight.
  Seconds redo = {};
};

/// Mean time between any two failures; 0 if nothing fails at random.
Seconds time_between_failures(const std::vector<FailingParts>&);

/// Returns a number in [0, 1) for each counter. It is the same on every machine and does not depend on the order of
/// calls.
using UniformDraws = std::function<double(std::uint64_t counter)>;
UniformDraws seeded_draws(std::uint64_t seed);

/// Draws one failure after another, with two draws each: one for the time and one for the kind of part.
class DrawnFailures {
 public:
  DrawnFailures(const std::vector<FailingParts>& parts, const UniformDraws& draws)
      : parts_(parts), draws_(draws), mean_interval_(time_between_failures(parts)) {}

  bool has_failures() const { return mean_interval_.value > 0; }
  Seconds mean_interval() const { return mean_interval_; }  ///< mean time between two failures
  /// Draws the next failure, and returns the time since the one before.
  Seconds next();
  /// The part that fails in the last drawn failure. Parts are drawn in proportion to their failure rates.
  const FailingParts& part() const;

 private:
  const std::vector<FailingParts>& parts_;
  const UniformDraws& draws_;
  const Seconds mean_interval_;
  std::uint64_t drawn_ = 0;
};

/// A prescribed failure (not a random one): at a time, or after a number of steps.
struct SetFailure {
  Seconds time;
  std::optional<double> after_step = {};  ///< No value: it comes at `time`
  std::string part;                       ///< kind of part that fails
  bool takes_node = false;
  std::optional<int> node = {};  ///< node that contains the part; nothing of an absent node fails
  int workers = 0;               ///< see FailingParts
  bool survived = false;
  Seconds redo = {};  ///< see FailingParts
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

/// Recovery after a failure: it is detected, then the job restarts from the last complete checkpoint. If only some
/// workers are lost, only these restart.
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
  /// False: workers hold no state. If the last one is lost, training waits until it restarts and repeats the step.
  bool workers_hold_state = true;
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
  /// Training waited for the restart of workers that hold no state, with the step that this cut short.
  Seconds without_workers;
  Seconds unfinished;  ///< part of `slower`: the unfinished step at the end
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
