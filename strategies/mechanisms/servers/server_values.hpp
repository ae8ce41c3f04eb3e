#pragma once
#include <map>
#include <vector>

#include "strategies/mechanisms/servers/server_plan.hpp"
#include "strategies/values/training_values.hpp"

namespace trainyard {

/// What happened to a key, in the order of happening.
struct ServerEvent {
  enum class What : std::uint8_t {
    pulled,   ///< a worker has got its weights, after so many updates
    added,    ///< a worker's gradient is in the sum of a step
    updated,  ///< that sum has been applied
    applied,  ///< a worker's push has been applied at once
    dropped,
  };
  What what = What::pulled;
  int worker = 0;
  std::size_t key = 0;
  std::uint32_t version = 0;  ///< of `pulled`
  bool operator==(const ServerEvent&) const = default;
};

/// What servers and workers compute, and the order of events. Gradients are those of a global batch's loss; of
/// workers − b gradients, the sum is scaled up to all. A worker that was not given a layer's weights computes NaN. The
/// servers' optimizer keeps a state a key; workers that update keep their own. A gradient that servers take the mean of is
/// that of the worker's own batch.
class ServerValues {
 public:
  /// The values are of the plan's `base.step`. Both must outlive it, and it their run.
  ServerValues(TrainingValues&, const ServerPlan&);
  ServerValues(const ServerValues&) = delete;
  ServerValues& operator=(const ServerValues&) = delete;

  const std::vector<ServerEvent>& events() const { return events_; }

 private:
  TrainingValues& values_;
  const ServerPlan& plan_;
  Replica* learned_;                    // what all servers hold together; null: sums alone, and workers learn
  std::vector<Eigen::VectorXd> sums_;   // by key
  std::vector<OptimizerState> states_;  // by key
  std::map<std::pair<int, std::size_t>, OptimizerState> own_states_;  // by worker and key
  std::vector<ServerEvent> events_;
  std::map<std::pair<int, std::size_t>, std::uint32_t> pulled_;  // the version that a worker has of a key

  void applied(Actor worker, double gradients, LearningEvent);
  Eigen::VectorXd& held(std::size_t key) const;
  void take(Actor worker, std::size_t key);
  void push(Actor worker, std::size_t key);
  void update_own(Actor worker, std::size_t key);
  void move_slices(ServerCall, Actor, std::size_t first);
  void process(ServerCall, Actor server, const ServerPush&);
  void learn(ServerCall, const ServerPush&, const Eigen::VectorXd& came);
};

}  // namespace trainyard
