#include "strategies/values/server_numerics.hpp"

#include <cmath>
#include <map>

#include "sim/error.hpp"
#include "strategies/values/training_values.hpp"

namespace trainyard {
namespace {

using Buffer = TrainingBuffer::Kind;

/// Of gradients by layer, or of a network's parameters.
template <class ByLayer>
Eigen::VectorXd of_key(const ServerPlan& plan, std::size_t key, const ByLayer& by_layer) {
  return gathered(*plan.base.step.network, plan.key(key), by_layer);
}

void put_key(const ServerPlan& plan, std::size_t key, const Eigen::VectorXd& own, Mlp& mlp) {
  scatter(*plan.base.step.network, plan.key(key), own, mlp);
}

double scale_of_sum(const NumericTask& task, const ServerPlan& plan) {
  return task.learning_rate * plan.workers() / (plan.workers() - plan.backup_workers);
}

}  // namespace

ServerNumerics::ServerNumerics(const NumericTask& task, const ServerPlan& plan)
    : task_(task), plan_(plan), workers_(static_cast<std::size_t>(plan.workers()), Worker(task)), sums_(plan.keys()) {
  for (Worker& worker : workers_) worker.spoil_parameters(std::nan(""));
}

/// A server's weights of a key, and how often they were updated.
Eigen::VectorXd& ServerNumerics::held(std::size_t key) const {
  return buffer_of(*values_, plan_.workers() + plan_.server_of[key], Buffer::parameters, key);
}

void ServerNumerics::attach(Values& values) {
  values_ = &values;
  Mlp initial(task_.shape, task_.seed);
  for (std::size_t key = 0; key < plan_.keys(); ++key) {
    const Eigen::VectorXd own = of_key(plan_, key, initial);
    held(key) = Eigen::VectorXd::Zero(own.size() + 1);
    held(key).head(own.size()) = own;
  }
  CallDispatcher calls(values);
  calls.on(TrainingCall::forward, [this](Actor a, const CallArguments& call) {
    of(a).forward(task_, call.index, samples(a, call.micro_batch));
  });
  calls.on(TrainingCall::backward, [this](Actor a, const CallArguments& call) {
    of(a).backward(task_, call.index, samples(a, call.micro_batch), task_.global_batch);
  });
  calls.on(TrainingCall::take_parameters, [this](Actor a, const CallArguments& call) { take(a, call.bucket()); });
  calls.on(TrainingCall::fill_bucket, [this](Actor a, const CallArguments& call) { push(a, call.bucket()); });
  calls.on(ServerCall::local_update, [this](Actor a, const CallArguments& call) { update_own(a, call.bucket()); });
  for (const ServerCall what :
       {ServerCall::first, ServerCall::add, ServerCall::update, ServerCall::apply, ServerCall::drop})
    calls.on(what, [this, what](Actor a, const CallArguments& call) { process(what, a, ServerPush::of(call)); });
}

Mlp ServerNumerics::weights() const {
  Mlp mlp(task_.shape, task_.seed);
  for (std::size_t key = 0; key < plan_.keys(); ++key) put_key(plan_, key, held(key).head(held(key).size() - 1), mlp);
  return mlp;
}

Samples ServerNumerics::samples(Actor worker, int micro_batch) {
  return samples_of(task_, plan_.workers(), plan_.base.step.micro_batches, of(worker).step, worker, micro_batch);
}

void ServerNumerics::take(Actor worker, std::size_t key) {
  const Eigen::VectorXd& got = buffer_of(*values_, worker, Buffer::parameters, key);
  const Eigen::Index size = got.size() - 1;
  put_key(plan_, key, got.head(size), of(worker).mlp);
  events_.push_back({ServerEvent::What::pulled, worker, key, static_cast<std::uint32_t>(got[size])});
}

void ServerNumerics::push(Actor actor, std::size_t key) {
  Worker& worker = of(actor);
  buffer_of(*values_, actor, Buffer::gradients, key) =
      plan_.mixes() ? of_key(plan_, key, worker.mlp) : of_key(plan_, key, worker.gradients);
  if (key + 1 != plan_.keys()) return;  // keys are pushed in their order: the step is over
  worker.clear_gradients();
  ++worker.step;
}

void ServerNumerics::update_own(Actor actor, std::size_t key) {
  Worker& worker = of(actor);
  put_key(plan_, key, of_key(plan_, key, worker.mlp) - task_.learning_rate * of_key(plan_, key, worker.gradients),
          worker.mlp);
}

void ServerNumerics::process(ServerCall call, Actor server, const ServerPush& push) {
  const std::size_t key = push.key;
  const int worker = push.worker;
  const Eigen::VectorXd& came = values_->buffer(server, push.arrival);
  Eigen::VectorXd& all = held(key);
  auto weights = all.head(all.size() - 1);
  switch (call) {
    case ServerCall::first:
      sums_[key] = came;
      events_.push_back({ServerEvent::What::added, worker, key, 0});
      return;
    case ServerCall::add:
      sums_[key] += came;
      events_.push_back({ServerEvent::What::added, worker, key, 0});
      return;
    case ServerCall::update:
      weights -= scale_of_sum(task_, plan_) * sums_[key];
      events_.push_back({ServerEvent::What::updated, 0, key, 0});
      break;
    case ServerCall::apply:
      if (plan_.mixes())
        weights += plan_.worker_weights[static_cast<std::size_t>(worker)] * (came - weights);
      else
        weights -= task_.learning_rate * came;
      events_.push_back({ServerEvent::What::applied, worker, key, 0});
      break;
    default:
      events_.push_back({ServerEvent::What::dropped, worker, key, 0});
      return;
  }
  all[all.size() - 1] += 1;
}

namespace {

/// Knows weights by key and version, and what was pulled.
class Replay {
 public:
  Replay(const NumericTask& task, const ServerPlan& plan)
      : task_(task),
        plan_(plan),
        history_(plan.keys()),
        sums_(plan.keys()),
        pulls_(static_cast<std::size_t>(plan.workers()), std::vector<std::vector<std::uint32_t>>(plan.keys())),
        pushes_(static_cast<std::size_t>(plan.workers()), std::vector<int>(plan.keys())) {
    Mlp initial(task.shape, task.seed);
    for (std::size_t key = 0; key < plan.keys(); ++key) history_[key] = {of_key(plan, key, initial)};
  }

  void happens(const ServerEvent& event) {
    const auto w = static_cast<std::size_t>(event.worker);
    Eigen::VectorXd weights = history_[event.key].back();
    switch (event.what) {
      case ServerEvent::What::pulled:
        pulls_[w][event.key].push_back(event.version);
        return;
      case ServerEvent::What::added:
        if (sums_[event.key].size() == 0)
          sums_[event.key] = next_push(event);
        else
          sums_[event.key] += next_push(event);
        return;
      case ServerEvent::What::updated:
        weights -= scale_of_sum(task_, plan_) * sums_[event.key];
        sums_[event.key].resize(0);
        break;
      case ServerEvent::What::applied:
        if (plan_.mixes())
          weights += plan_.worker_weights[w] * (next_push(event) - weights);
        else
          weights -= task_.learning_rate * next_push(event);
        break;
      case ServerEvent::What::dropped:
        next_push(event);
        return;
    }
    history_[event.key].push_back(weights);
  }

  Mlp weights() const {
    Mlp mlp(task_.shape, task_.seed);
    for (std::size_t key = 0; key < plan_.keys(); ++key) put_key(plan_, key, history_[key].back(), mlp);
    return mlp;
  }

 private:
  const NumericTask& task_;
  const ServerPlan& plan_;
  std::vector<std::vector<Eigen::VectorXd>> history_;           // by key and version
  std::vector<Eigen::VectorXd> sums_;                           // by key
  std::vector<std::vector<std::vector<std::uint32_t>>> pulls_;  // by worker, key and step: the version
  std::vector<std::vector<int>> pushes_;                        // by worker and key: so far
  struct Step {
    Mlp mlp;
    std::vector<Eigen::VectorXd> gradients;
  };
  std::map<std::pair<int, int>, Step> steps_;  // by worker and step

  /// What the worker pushes of a key: of its next step.
  Eigen::VectorXd next_push(const ServerEvent& event) {
    const int step = pushes_[static_cast<std::size_t>(event.worker)][event.key]++;
    const auto [at, fresh] = steps_.try_emplace({event.worker, step}, Step{Mlp(task_.shape, task_.seed), {}});
    if (fresh) compute(event.worker, step, at->second);
    Eigen::VectorXd gradient = of_key(plan_, event.key, at->second.gradients);
    if (!plan_.mixes()) return gradient;
    return of_key(plan_, event.key, at->second.mlp) - task_.learning_rate * gradient;
  }

  void compute(int worker, int step, Step& of) {
    for (std::size_t key = 0; key < plan_.keys(); ++key) {
      const std::vector<std::uint32_t>& pulls = pulls_[static_cast<std::size_t>(worker)][key];
      if (pulls.size() <= static_cast<std::size_t>(step))
        throw InternalError("a gradient was pushed before the weights that it is of were pulled");
      put_key(plan_, key, history_[key].at(pulls[static_cast<std::size_t>(step)]), of.mlp);
    }
    const auto [first, count] = samples_of(task_, plan_.workers(), 1, step, worker, 0);
    of.gradients = of.mlp.gradients(task_.inputs.middleCols(first, count), task_.targets.middleCols(first, count),
                                    task_.global_batch);
  }
};

}  // namespace

Mlp replay(const NumericTask& task, const ServerPlan& plan, const std::vector<ServerEvent>& events) {
  if (plan.base.step.micro_batches != 1) throw InternalError("a replay takes steps of one micro-batch");
  Replay all(task, plan);
  for (const ServerEvent& event : events) all.happens(event);
  return all.weights();
}

}  // namespace trainyard
