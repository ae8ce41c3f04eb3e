#pragma once
#include <cstdint>
#include <vector>

#include "scenarios/src/reading/read_jobs.hpp"
#include "strategies/failures/long_run.hpp"

namespace trainyard {

/// A training on one number of nodes. A step includes its share of the training's other phases.
struct QueueSize {
  int nodes = 1;
  Seconds step;
  CheckpointTimes checkpoint;
  Recovery recovery;
  std::vector<FailingParts> parts = {};

  /// Returns the time of so many steps with their checkpoints, if nothing fails. The last checkpoint is written to its
  /// end, as in `run_long`.
  Seconds time_of_steps(double steps) const;
  /// The part of that time up to a moment: time in steps, and steps in complete checkpoints.
  struct Progress {
    Seconds trained;
    double saved_steps = 0;
  };
  Progress progress(double steps, Seconds elapsed) const;
};

/// An arrival of a training.
struct QueueArrival {
  std::size_t training = 0;  ///< index among the trainings of the fleet
  Seconds time;
  double steps = 0;
  int priority = 0;
};

struct QueueRules {
  int nodes = 1, spares = 0;
  QueuePolicy policy = QueuePolicy::fifo;
  bool backfill = false;
  Seconds horizon = {};
  std::uint64_t seed = 1;
  /// Time that a training keeps its nodes after another one wants them. It writes a checkpoint, if that ends within this
  /// time.
  Seconds grace = {};
};

/// A time, or node-seconds, of a training by cause.
struct TrainingTime {
  double waiting = 0;      ///< time in the queue, also after interruptions; 0 among node-seconds
  double steps = 0;        ///< steps that count
  double checkpoints = 0;  ///< checkpoints for which training stands still
  double lost_to_failures = 0, lost_to_preemption = 0;  ///< steps that are repeated
  double restarts = 0;                                  ///< detection, restart, and reading a checkpoint
  double on_nodes() const { return steps + checkpoints + lost_to_failures + lost_to_preemption + restarts; }
  double sum() const { return waiting + on_nodes(); }
  /// Adds `factor` times the other's parts.
  void add(const TrainingTime&, double factor);
};

/// The course of one arrival.
struct QueueOutcome {
  Seconds start, end;
  TrainingTime time;          ///< time from arrival to end, s; the parts sum to it
  TrainingTime node_seconds;  ///< node-seconds within the horizon
  int failures = 0, preemptions = 0;
  /// An uninterrupted use of the same number of nodes; failures that a replaced node or a restart repairs are inside.
  struct Stay {
    Seconds begin, end;
    int nodes = 0;
  };
  std::vector<Stay> stays;
};

/// A run of the queue. Node-seconds within the horizon: those of trainings, and these. They sum to nodes × horizon.
struct QueueResult {
  std::vector<QueueOutcome> outcomes;  ///< indexed by arrival
  double idle = 0, spare = 0, repair = 0;
  double mean_length = 0;  ///< mean number of waiting trainings within the horizon
  int longest = 0;         ///< largest number of waiting trainings
};

/// Returns the draws of a training's failures while it has its nodes for the n-th time.
UniformDraws queue_draws(std::uint64_t seed, std::size_t arrival, std::size_t stay);

/// Runs the arrivals, sorted by time, until all have ended. `sizes`: possible sizes of each training, ascending; each
/// has at most `nodes - spares` nodes. Throws UserError if trainings make no progress.
QueueResult run_queue(const QueueRules&, const std::vector<std::vector<QueueSize>>& sizes,
                      const std::vector<QueueArrival>&);

}  // namespace trainyard
