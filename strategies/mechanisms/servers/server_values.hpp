#pragma once
#include <map>
#include <vector>

#include "strategies/mechanisms/servers/server_plan.hpp"
#include "strategies/values/training_values.hpp"

namespace trainyard {

/// An event of a key.
struct ServerEvent {
  enum class Type : std::uint8_t {
    pulled,   ///< a worker has received the weights
    added,    ///< a worker's gradient has been added to the sum of a step
    updated,  ///< that sum has been applied
    applied,  ///< a worker's push has been applied at once
    dropped,  ///< a worker's push came too late and has been dropped
  };
  Type type = Type::pulled;
  int worker = 0;
  std::size_t key = 0;
  std::uint32_t version = 0;  ///< for `pulled`: number of updates that the weights contain
  bool operator==(const ServerEvent&) const = default;
};

/// Computes the values of servers and workers, and records the order of events. Gradients are those of the global
/// batch's loss. If a step takes workers − b gradients, their sum is scaled up to all workers. If servers average
/// gradients, a gradient is that of the worker's own batch. A worker that was not sent a layer's weights computes NaN.
/// The optimizer of the servers has one state for each key; workers that update have states of their own.
class ServerValues {
 public:
  /// `TrainingValues` must be made for the plan's `base.step`. Both must outlive this object, and this object the run.
  ServerValues(TrainingValues&, const ServerPlan&);
  ServerValues(const ServerValues&) = delete;
  ServerValues& operator=(const ServerValues&) = delete;

  const std::vector<ServerEvent>& events() const { return events_; }

 private:
  TrainingValues& values_;
  const ServerPlan& plan_;
  Replica* model_;                      // the model on all servers together; null: servers only sum, workers update
  std::vector<Eigen::VectorXd> sums_;   // indexed by key
  std::vector<OptimizerState> states_;  // indexed by key
  std::map<std::pair<int, std::size_t>, OptimizerState> own_states_;  // indexed by worker and key
  std::vector<ServerEvent> events_;
  std::map<std::pair<int, std::size_t>, std::uint32_t> pulled_;  // the version that a worker has of a key

  void note_update(Actor worker, double gradients, LearningEvent);
  Eigen::VectorXd& stored(std::size_t key) const;
  void take(Actor worker, std::size_t key);
  void push(Actor worker, std::size_t key);
  void update_own(Actor worker, std::size_t key);
  void move_slices(ServerCall, Actor, std::size_t first);
  void process(ServerCall, Actor server, const ServerPush&);
  void learn(ServerCall, const ServerPush&, const Eigen::VectorXd& gradient);
};

}  // namespace trainyard
