// A worker of parameter servers that pushes its own gradients, key by key.
#include <algorithm>

#include "sim/index.hpp"
#include "strategies/mechanisms/servers/server_step.hpp"
#include "strategies/mechanisms/servers/server_worker.hpp"

namespace trainyard {
namespace {

class ParameterWorker : public ServerWorker {
 public:
  ParameterWorker(const ServerPlan& plan, const PassTables& tables, const CentralWords& words)
      : ServerWorker(plan, tables, words, consecutive_numbers(plan.workers(), plan.servers), worker_streams_of(plan)),
        stream_pairs_(std::min(plan.servers, kWorkerStreamPairs)) {}
  /// With backup workers the run ends when the steps are done, even if some workers are late.
  bool daemon() const override { return servers_.backup_workers > 0; }

 protected:
  Ops push(std::size_t key) override {
    if (servers_.mixes()) co_yield update_own(key);
    if (step_.compression) co_yield encode(key);
    if (step_.values) co_yield call(TrainingCall::fill_bucket, key);
    Op& op = put_message(Kind::send, sending_to(key), words_.push, words_.gradients, position(servers_.server_of[key]),
                         kPushTag);
    op.deps[0] = out_.last_operation(compute);
    op.message.bytes = servers_.push_bytes(key);
    op.effect.read = whole_buffer(TrainingBuffer::Kind::gradients, key);
    co_yield out_.emit();
  }
  Ops pull_key(std::size_t key) override {
    Op& op = out_.begin(Kind::recv, receiving_from(key), words_.take, words_.parameters, out_.last_operation(compute));
    op.address(servers_.server_of[key], answer_tag(key));
    if (step_.values) op.write_to(whole_buffer(TrainingBuffer::Kind::parameters, key));
    co_yield out_.emit();
    if (step_.values) co_yield call_on(receiving_from(key), TrainingCall::take_parameters, key);
    set_arrival(key, receiving_from(key));
  }
  /// The last answers confirm that all pushes are applied, or bring the gradients of the last update.
  Ops last_answers() override {
    co_yield pull(true);
    co_yield update_all();
    for (int i = 0; i < stream_pairs_; ++i) wait_for(out_.last_operation(static_cast<Stream>(1 + i)));
    co_yield drain_waits();
  }

 private:
  int stream_pairs_;
  int step_number_ = 0;

  void begin_step(int number) override { step_number_ = number; }
  Ops encode(std::size_t key) {
    for (const Op& kernel : tables_.compression().bucket(0, key, step_number_).rounds.front().kernels)
      co_yield work(kernel);
  }
  Stream receiving_from(std::size_t key) const {
    return static_cast<Stream>(1 + servers_.server_of[key] % stream_pairs_);
  }
  Stream sending_to(std::size_t key) const { return static_cast<Stream>(receiving_from(key) + stream_pairs_); }
};

}  // namespace

int worker_streams_of(const ServerPlan& plan) { return 1 + 2 * std::min(plan.servers, kWorkerStreamPairs); }

std::unique_ptr<Program> parameter_worker(Actor, const ServerPlan& plan, const PassTables& tables,
                                          const CentralWords& words) {
  return std::make_unique<ParameterWorker>(plan, tables, words);
}

}  // namespace trainyard
