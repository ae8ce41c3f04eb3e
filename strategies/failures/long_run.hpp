#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strategies/failures/failure_draws.hpp"

namespace trainyard {

/// A prescribed failure, not a drawn one: at a time, or when so many steps have ended.
struct SetFailure {
  Seconds at;
  std::optional<double> after_step = {};  ///< none: at the time
  std::string what;                       ///< kind of part
  bool takes_node = false;
  std::optional<int> node = {};  ///< it stands in; while that is away, nothing of it fails
  int workers = 0;               ///< see FailingParts
  bool survived = false;
};

/// What became of a prescribed failure.
struct SetFailureOutcome {
  bool happened = false;  ///< false: the training had ended
  bool idle = false;      ///< its node was away already: nothing happened
  Seconds at;
  double steps = 0;  ///< done until then
  double lost_steps = 0;
  Seconds lost_work;  ///< of these, and of the step under way
};

/// When the training's state is saved, and what that costs. A state is saved as it is at the end of a step.
struct CheckpointTimes {
  double every = 0;  ///< steps; 0: never
  Seconds stall;     ///< training stands still: the whole write, or the copy that is written in the background
  Seconds write;     ///< until it can be read back, from its beginning; at least `stall`
  Seconds load;      ///< until it is read back
};

/// What happens after a failure: nothing until it is detected, then the job starts again from the last whole checkpoint.
/// Of one that takes workers only, these start again; if all are gone, so does the job.
struct Recovery {
  Seconds detect, restart;
  std::optional<Seconds> repair;  ///< until a node that failed can be used again; none: it never can
  std::optional<int> spares;      ///< nodes that stand by; none: always enough
  bool elastic =
      false;  ///< without a spare the replicas left do the whole batch, as much slower; else the training waits
  /// The replicas left hold the whole state: an elastic training goes on from the end of the last step.
  bool state_survives = false;
};

/// A training of days to months over step times: the coarse run. No step is simulated by itself.
struct LongRunPlan {
  double steps = 0;  ///< to do; 0: as many as fit until `until`
  Seconds until;     ///< the run ends then at the latest; 0: with its steps
  Seconds step;
  int replicas = 1;
  int nodes = 0;  ///< that they share evenly; 0: one each. Nodes of a broken replica step in for others
  /// A step of so many replicas; empty: of `step`, as if the batch divided among them to the last sample.
  std::function<Seconds(int replicas)> step_with;
  CheckpointTimes checkpoint;
  Recovery recovery;
  std::vector<FailingParts> parts;
  std::vector<SetFailure> failures;
  UniformDraws draws = seeded_draws(1);
};

/// Where the time went: its parts sum to `end`.
struct LongRunResult {
  Seconds end;
  double steps = 0;      ///< done and not lost
  Seconds useful;        ///< of these steps, at the pace of a whole machine
  Seconds slower;        ///< what they took besides while replicas were missing, and the step under way at the end
  Seconds lost_work;     ///< steps, and parts of steps, that had to be done again
  Seconds stalled;       ///< training stood still for checkpoints
  Seconds down;          ///< detection, restart, reading back
  Seconds without_node;  ///< waiting for a repair
  double checkpoints = 0, failures = 0;
  double lost_steps = 0;                      ///< whole steps done again
  std::map<std::string, double> failures_of;  ///< by kind of part
  std::vector<SetFailureOutcome> prescribed;  ///< of each failure of the plan, in its order
  double goodput() const { return end.value > 0 ? useful / end : 1; }
};

/// The steps that a double tells apart.
constexpr double kMostSteps = 9007199254740992;

/// Runs it, an event at a time. Memory does not grow with its length. Throws UserError where it would never end,
/// and for more than `kMostSteps`.
LongRunResult run_long(const LongRunPlan&);

}  // namespace trainyard
