#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace trainyard {

/// What is known of a training at one of its looks. Numbers that are not there are NaN.
struct LearnPoint {
  double time = 0;                ///< s, on the simulated clock
  double steps = 0;               ///< global batches whose gradients are in the weights
  double samples = 0;             ///< whose gradients were computed, those that nobody took among them
  double bytes = 0;               ///< of all messages
  double training_loss = 0;       ///< mean over the samples since the look before
  double loss = 0, accuracy = 0;  ///< on samples kept apart
  double noise_scale = 0;         ///< samples
  double apart = 0;               ///< how far replicas are from their mean, root mean square; 0: they are the same
};

/// One of the first things that happened to gradients.
struct LearnedUpdate {
  double time = 0;
  bool gradient = false;  ///< computed; else weights have changed
  int actor = 0;
  int worker = -1;  ///< of weights that one worker has changed; −1: all
  std::string actor_name;
  double version = 0;
  int staleness = 0;
  double loss = 0;
};

/// One training, from its first step to its end.
struct LearnResult {
  std::vector<LearnPoint> points;
  std::optional<LearnPoint> reached;  ///< the first look at which the target was reached
  std::string ended;                  ///< "target", "steps", "early stopping", "diverged"
  double diverged_at = -1;            ///< step; −1: it did not
  std::string task, mechanism;
  double ranks = 0, parameters = 0, updates = 0;
  double mean_staleness = 0;
  int worst_staleness = 0;
  std::vector<LearnedUpdate> first;

  const LearnPoint& last() const { return points.back(); }
  const LearnPoint& best() const;
  double step_time() const { return last().steps > 0 ? last().time / last().steps : 0; }
  double gpu_hours(const LearnPoint& p) const { return p.time * ranks / 3600; }
};

std::string to_text(const LearnResult&);
LearnResult learn_result_from_text(const std::string&);
nlohmann::ordered_json learn_point_json(const LearnPoint&);

}  // namespace trainyard
