#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sim/units.hpp"

namespace trainyard {

template <class T>
class JsonFields;

/// The state of a training at one of its evaluations. Missing numbers are NaN.
struct LearnPoint {
  double time = 0;                ///< s, on the simulated clock
  double steps = 0;               ///< global batches whose gradients are in the weights
  double samples = 0;             ///< samples whose gradients were computed, including discarded gradients
  double bytes = 0;               ///< bytes of all messages
  double training_loss = 0;       ///< mean over the samples since the previous evaluation
  double loss = 0, accuracy = 0;  ///< measured on the validation samples
  double noise_scale = 0;         ///< gradient noise scale, samples
  double replica_distance = 0;    ///< root mean square distance of replicas from their mean; 0: they are equal
  /// Mean loss of the replicas, each with its own weights. NaN: the task has many parameters.
  double replicas_loss = std::numeric_limits<double>::quiet_NaN();
  /// First parameter of each replica, or of the only copy of the weights. Empty: the task has many parameters.
  std::vector<double> positions;
};

/// One of the first events of the training: a computed gradient, or an update of weights.
struct LearnedUpdate {
  double time = 0;        ///< s
  bool gradient = false;  ///< true: a gradient was computed; false: weights were updated
  int actor = 0;
  int worker = -1;  ///< worker whose gradient updated the weights; −1: all workers
  std::string actor_name;
  double version = 0;
  int staleness = 0;
  double loss = 0;
  double lambda = 1;  ///< factor on the gradient, or share of a worker's weights in the mean
};

/// One training, from its first step to its end.
struct LearnResult {
  std::uint64_t seed = 0;  ///< seed of the initial values and of the order of samples; a study sets it
  std::vector<LearnPoint> points;
  std::optional<LearnPoint> reached;  ///< first evaluation that reached the target
  std::string ended;                  ///< "target", "steps", "early stopping", "diverged"
  double saved_step = -1;             ///< step whose weights were saved; −1: none were
  double diverged_at = -1;            ///< step at which it diverged; −1: it did not diverge
  double diverged_loss = 0;           ///< the loss at that step; infinite: it was no longer a number
  std::string task, mechanism;
  double ranks = 0, parameters = 0, updates = 0;
  double mean_staleness = 0;
  int worst_staleness = 0;
  double mean_lambda = 1;  ///< mean of the factors on the gradients
  double merges = 0;       ///< how often all replicas averaged their weights
  /// Bytes of gradients that a replica of the small network, and one of the timed network, sends after compression over
  /// those without it. 1: nothing is compressed.
  double sent_share = 1, timed_sent_share = 1;
  std::vector<LearnedUpdate> first;

  const LearnPoint& last() const { return points.back(); }
  const LearnPoint& best() const;
  const LearnPoint& farthest() const;  ///< the evaluation at which replicas are farthest apart
  /// Returns true if the last loss is above the loss of the initial weights.
  bool worse_than_start() const { return points.size() > 1 && last().loss > points.front().loss; }
  Seconds step_time() const { return Seconds{last().steps > 0 ? last().time / last().steps : 0}; }
  double gpu_hours(const LearnPoint& p) const { return p.time * ranks / 3600; }
};

/// The fields of a training in the JSON of `learn`.
JsonFields<LearnResult> learn_result_fields();
/// Writes a training as text, without its first events. Another function reads it.
std::string to_text(const LearnResult&);
LearnResult learn_result_from_text(const std::string&);

}  // namespace trainyard
