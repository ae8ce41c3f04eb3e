// A worker of parameter servers: a static program. What it waits for are the answers to its own pushes.
#include <algorithm>
#include <numeric>

#include "strategies/mechanisms/central/worker_step.hpp"
#include "strategies/mechanisms/servers/server_step.hpp"

namespace trainyard {
namespace {

std::vector<Actor> servers_of(const ServerPlan& plan) {
  std::vector<Actor> servers(static_cast<std::size_t>(plan.servers));
  std::iota(servers.begin(), servers.end(), plan.workers());
  return servers;
}

class ParameterWorker : public WorkerStep {
 public:
  ParameterWorker(const ServerPlan& plan, const PassTables& tables, const CentralWords& words)
      : WorkerStep(plan.base, tables, words, servers_of(plan), worker_streams_of(plan), false),
        servers_(plan),
        ways_(std::min(plan.servers, kWorkerWays)),
        ready_(plan.base.step.network->layers.size()) {
    for (std::size_t k = 0; k < plan.keys(); ++k)
      for (const GradientBucket::Part& part : plan.key(k).parts) {
        std::vector<Stream>& of = ready_[part.layer].ways;
        if (std::find(of.begin(), of.end(), receiving_from(k)) == of.end()) of.push_back(receiving_from(k));
      }
    for (OfLayer& of : ready_) of.after.resize(of.ways.size());
  }
  /// With backups the run ends when the steps are done, whoever is late.
  bool daemon() const override { return servers_.backup_workers > 0; }

 protected:
  Ops run() override {
    co_yield hold(stage_.memory);
    for (int step = 0; step < step_.steps || daemon(); ++step) {
      out_.begin_sample(static_cast<std::uint32_t>(step));
      co_yield overhead();
      co_yield pull(step > 0);
      co_yield passes();
      if (step_.marks_steps) co_yield out_.emit(step_over());
    }
    co_yield pull(true);  // that all has been applied
    for (int way = 0; way < ways_; ++way) wait_for(out_.after(static_cast<Stream>(1 + way)));
    co_yield drain_waits();
  }
  Ops await_parameters(int layer) override {
    const std::vector<Dep>& after = ready_[layer].after;
    for (const Dep& dep : after) wait_for(dep);
    if (after.size() > 2) co_yield drain_waits();
  }
  Ops push(std::size_t key) override {
    if (servers_.mixes()) co_yield update_own(key);
    if (step_.values) co_yield call(TrainingCall::fill_bucket, key);
    Op& op = out_.begin(Kind::send, sending_to(key));
    op.message.slot = static_cast<std::uint16_t>(servers_.server_of[key]);
    op.message.tag = kPushTag;
    op.message.mode = Mode::put;  // nobody waits until the server asks for it
    op.message.bytes = servers_.push_bytes(key);
    op.group = words_.gradients;
    op.name = words_.push;
    op.deps[0] = out_.after(compute);
    op.effect.read = whole(TrainingBuffer::Kind::gradients, key);
    co_yield out_.emit();
  }

 private:
  /// Receiving streams that have a layer's keys, and up to where.
  struct OfLayer {
    std::vector<Stream> ways;
    std::vector<Dep> after;
  };
  const ServerPlan& servers_;
  int ways_;
  std::vector<OfLayer> ready_;

  Stream receiving_from(std::size_t key) const { return static_cast<Stream>(1 + servers_.server_of[key] % ways_); }
  Stream sending_to(std::size_t key) const { return static_cast<Stream>(receiving_from(key) + ways_); }

  /// The first weights come as the forward pass needs them; answers in the order of the pushes.
  Ops pull(bool answers) {
    const std::size_t keys = servers_.keys();
    for (std::size_t i = 0; i < keys; ++i) co_yield pull_key(answers ? i : keys - 1 - i);
  }

  Ops pull_key(std::size_t key) {
    Op& op = out_.begin(Kind::recv, receiving_from(key));
    op.message.slot = static_cast<std::uint16_t>(servers_.server_of[key]);
    op.message.tag = answer_tag(key);
    op.group = words_.parameters;
    op.name = words_.take;
    op.deps[0] = out_.after(compute);
    if (step_.values) {
      op.effect.action = Action::copy;
      op.effect.write = whole(TrainingBuffer::Kind::parameters, key);
    }
    co_yield out_.emit();
    if (step_.values) co_yield call_on(receiving_from(key), TrainingCall::take_parameters, key);
    for (const GradientBucket::Part& part : servers_.key(key).parts) {
      OfLayer& of = ready_[part.layer];
      for (std::size_t i = 0; i < of.ways.size(); ++i)
        if (of.ways[i] == receiving_from(key)) of.after[i] = out_.after(of.ways[i]);
    }
  }

  Ops update_own(std::size_t key) {
    Work update = stage_.optimizer;
    update.flops = update.flops * servers_.share_of(key);
    update.bytes = update.bytes * servers_.share_of(key);
    co_yield work(update, words_.optimizer, words_.update);
    if (step_.values) co_yield call(ServerCall::local_update, key);
  }
};

}  // namespace

int worker_streams_of(const ServerPlan& plan) { return 1 + 2 * std::min(plan.servers, kWorkerWays); }

std::unique_ptr<Program> parameter_worker(Actor, const ServerPlan& plan, const PassTables& tables,
                                          const CentralWords& words) {
  return std::make_unique<ParameterWorker>(plan, tables, words);
}

}  // namespace trainyard
