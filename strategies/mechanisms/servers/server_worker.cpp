#include "strategies/mechanisms/servers/server_worker.hpp"

#include <algorithm>

namespace trainyard {

ServerWorker::ServerWorker(const ServerPlan& plan, const PassTables& tables, const CentralWords& words,
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

}  // namespace trainyard
