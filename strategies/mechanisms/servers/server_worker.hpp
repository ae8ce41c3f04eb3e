#pragma once
#include "strategies/mechanisms/central/central_step.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"

namespace trainyard {

/// Base class of the workers of parameter servers, with or without local aggregation: a static program. A worker waits
/// for the answers to its pushes. They are weights of layers, or combined gradients with which it updates its own
/// weights.
class ServerWorker : public WorkerStep {
 public:
  ServerWorker(const ServerPlan&, const PassTables&, const CentralNames&, std::vector<Actor> peers, int streams);

 protected:
  const ServerPlan& servers_;

  Ops run() override;
  Ops await_parameters(int layer) override;
  virtual void begin_step(int /*number*/) {}
  /// Receives a key's first weights, or the next answer, and calls `set_arrival`.
  virtual Ops pull_key(std::size_t key) = 0;
  /// Receives the answers that come after the last step.
  virtual Ops last_answers() = 0;

  /// The operations emitted on the stream so far bring the key.
  void set_arrival(std::size_t key, Stream);
  /// Receives all keys: the first weights in the order of the forward pass, answers in the order of the pushes.
  Ops pull(bool answers);
  /// Makes the worker's own updates that are due, for all keys.
  Ops update_all();
  Ops update_own(std::size_t key);
  /// The key's buffer. Programs without values do not use it.
  static std::uint16_t buffer_of(TrainingBuffer::Kind kind, std::size_t key) {
    return unchecked_number_of({kind, key});
  }

 private:
  struct LayerArrivals {
    std::vector<Dep> after;         ///< the operations to wait for: at most one on each stream
    std::vector<std::size_t> keys;  ///< the layer's keys
  };
  std::vector<LayerArrivals> layers_;
  std::vector<Dep> pending_updates_;  // arrival of each key's gradients; count 0: no update is due

  Ops update_if_due(std::size_t key);
};

}  // namespace trainyard
