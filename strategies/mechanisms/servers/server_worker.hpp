#pragma once
#include "strategies/mechanisms/central/worker_step.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"

namespace trainyard {

/// A worker of parameter servers, whatever way its gradients take: a static program. What it waits for are the answers to
/// its pushes: a layer's weights, or what servers keep of its gradients, with which it updates its own weights.
class ServerWorker : public WorkerStep {
 public:
  ServerWorker(const ServerPlan&, const PassTables&, const CentralWords&, std::vector<Actor> peers, int streams);

 protected:
  const ServerPlan& servers_;

  Ops run() override;
  Ops await_parameters(int layer) override;
  virtual void begin_step(int /*number*/) {}
  /// Takes a key's first weights, or the next answer, and says on which stream by `arrives`.
  virtual Ops pull_key(std::size_t key) = 0;
  /// After the last step.
  virtual Ops last_answers() = 0;

  /// What has been yielded on that stream so far brings the key.
  void arrives(std::size_t key, Stream);
  /// All keys. The first weights come as the forward pass needs them; answers in the order of the pushes.
  Ops pull(bool answers);
  /// What the worker itself has to update, of all keys.
  Ops update_all();
  Ops update_own(std::size_t key);
  /// The key's buffer; of programs without values nobody reads it.
  static std::uint16_t buffer_of(TrainingBuffer::Kind kind, std::size_t key) {
    return unchecked_number_of({kind, key});
  }

 private:
  /// Streams that bring a layer's keys, and up to where.
  struct OfLayer {
    std::vector<Stream> ways;
    std::vector<Dep> after;
    std::vector<std::size_t> keys;
  };
  std::vector<OfLayer> layers_;
  std::vector<Dep> not_updated_;  // by key: when what it is to be updated with is there; count 0: it is up to date

  Ops update_if_due(std::size_t key);
};

}  // namespace trainyard
