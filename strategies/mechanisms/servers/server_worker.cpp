#include "strategies/mechanisms/servers/server_worker.hpp"

#include <algorithm>

#include "sim/index.hpp"
#include "strategies/mechanisms/servers/server_step.hpp"

namespace trainyard {

ServerWorker::ServerWorker(const ServerPlan& plan, const PassTables& tables, const CentralNames& words,
                           std::vector<Actor> peers, int streams)
    : WorkerStep(plan.base, tables, words, std::move(peers), streams, false),
      servers_(plan),
      layers_(plan.base.step.network->layers.size()),
      pending_updates_(plan.keys()) {
  for (std::size_t k = 0; k < plan.keys(); ++k)
    for (const GradientBucket::Part& part : plan.key(k).parts) {
      std::vector<std::size_t>& keys = layers_[part.layer].keys;
      if (keys.empty() || keys.back() != k) keys.push_back(k);
    }
}

Ops ServerWorker::run() {
  co_yield book_static_memory(stage_.memory);
  for (int step = 0; step < step_.steps || daemon(); ++step) {
    out_.begin_sample(static_cast<std::uint32_t>(step));
    begin_step(step);
    co_yield overhead();
    if (step > 0 || !servers_.workers_update()) co_yield pull(step > 0);
    co_yield passes();
    if (step_.marks_steps) co_yield out_.emit(step_over());
  }
  co_yield last_answers();
}

Ops ServerWorker::await_parameters(int layer) {
  if (servers_.workers_update()) {
    for (const std::size_t key : layers_[layer].keys) co_yield update_if_due(key);
    co_return;
  }
  const std::vector<Dep>& after = layers_[layer].after;
  for (const Dep& dep : after) wait_for(dep);
  if (after.size() > 2) co_yield drain_waits();
}

void ServerWorker::set_arrival(std::size_t key, Stream stream) {
  const Dep dep = out_.last_operation(stream);
  if (servers_.workers_update()) {
    pending_updates_[key] = dep;
    return;
  }
  for (const GradientBucket::Part& part : servers_.key(key).parts) {
    std::vector<Dep>& after = layers_[part.layer].after;
    if (const auto found = std::ranges::find(after, stream, &Dep::stream); found != after.end())
      *found = dep;
    else
      after.push_back(dep);
  }
}

Ops ServerWorker::pull(bool answers) {
  const std::size_t keys = servers_.keys();
  for (std::size_t i = 0; i < keys; ++i) co_yield pull_key(answers ? i : keys - 1 - i);
}

Ops ServerWorker::update_all() {
  for (std::size_t key = 0; key < servers_.keys(); ++key) co_yield update_if_due(key);
}

Ops ServerWorker::update_if_due(std::size_t key) {
  if (pending_updates_[key].count == 0) co_return;
  wait_for(pending_updates_[key]);
  pending_updates_[key] = {};
  co_yield update_own(key);
}

Ops ServerWorker::update_own(std::size_t key) {
  co_yield work(servers_.work_of_key(stage_.optimizer, key), words_.optimizer, words_.update);
  if (step_.values) co_yield call(ServerCall::local_update, key);
}

namespace {

// A worker of parameter servers that pushes its own gradients, key by key.

class ParameterWorker : public ServerWorker {
 public:
  ParameterWorker(const ServerPlan& plan, const PassTables& tables, const CentralNames& words)
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
                                          const CentralNames& words) {
  return std::make_unique<ParameterWorker>(plan, tables, words);
}

}  // namespace trainyard
