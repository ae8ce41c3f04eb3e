#pragma once
#include <vector>

#include "sim/observers/values.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"
#include "strategies/values/mlp_replica.hpp"

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

/// Carries out on real arrays what the programs of servers and workers say, and records the order of events. Samples are
/// those of NumericTask: worker w's step s has the w-th part of the s-th global batch. Gradients are those of a global
/// batch's loss; of workers − b gradients, the sum is scaled up to all. A worker that was not given a layer's weights
/// computes NaN.
class ServerNumerics {
 public:
  ServerNumerics(const NumericTask&, const ServerPlan&);

  /// Registers the calls of the schedule; both must live until the run has ended.
  void attach(Values&);
  /// The servers' weights.
  Mlp weights() const;
  const std::vector<ServerEvent>& events() const { return events_; }

 private:
  struct Worker : MlpReplica {
    using MlpReplica::MlpReplica;
    int step = 0;
  };
  const NumericTask& task_;
  const ServerPlan& plan_;
  std::vector<Worker> workers_;
  std::vector<Eigen::VectorXd> sums_;  // by key
  std::vector<ServerEvent> events_;
  Values* values_ = nullptr;

  Eigen::VectorXd& held(std::size_t key) const;
  Worker& of(Actor worker) { return workers_[static_cast<std::size_t>(worker)]; }
  Samples samples(Actor worker, int micro_batch);
  void take(Actor worker, std::size_t key);
  void push(Actor worker, std::size_t key);
  void update_own(Actor worker, std::size_t key);
  void process(ServerCall, Actor server, const ServerPush&);
};

/// The same training step by step, by whoever knows nothing of programs and time: only the order of events. Each gradient
/// is computed from the weights that were pulled, whole.
Mlp replay(const NumericTask&, const ServerPlan&, const std::vector<ServerEvent>&);

}  // namespace trainyard
