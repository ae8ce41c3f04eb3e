#include "strategies/servers/server_numerics.hpp"

#include <cmath>
#include <map>

#include "sim/error.hpp"

namespace trainyard {
namespace {

/// A key's elements, as they lie in vectors by layer, and in one of its own from the first on.
template <class Of, class Do>
void with_parts(const ServerPlan& plan, std::size_t key, Of of_layer, Eigen::VectorXd& own, Do act) {
  Eigen::Index at = 0;
  for (const GradientBucket::Part& part : plan.key(key).parts) {
    double before = part.first;
    const Layer& layer = plan.base.step.network->layers[static_cast<std::size_t>(part.layer)];
    for (int tensor = 0; tensor < part.tensor; ++tensor)
      before += layer.parameters[static_cast<std::size_t>(tensor)].elements;
    const auto length = static_cast<Eigen::Index>(part.elements);
    act(of_layer(part.layer).segment(static_cast<Eigen::Index>(before), length), own.segment(at, length));
    at += length;
  }
}

Eigen::VectorXd of_key(const ServerPlan& plan, std::size_t key, std::vector<Eigen::VectorXd>& by_layer) {
  Eigen::VectorXd own(static_cast<Eigen::Index>(plan.key(key).elements));
  with_parts(
      plan, key, [&](int l) -> Eigen::VectorXd& { return by_layer[static_cast<std::size_t>(l)]; }, own,
      [](auto layer, auto mine) { mine = layer; });
  return own;
}

Eigen::VectorXd of_key(const ServerPlan& plan, std::size_t key, Mlp& mlp) {
  Eigen::VectorXd own(static_cast<Eigen::Index>(plan.key(key).elements));
  with_parts(
      plan, key, [&](int l) -> Eigen::VectorXd& { return mlp.parameters(l); }, own,
      [](auto layer, auto mine) { mine = layer; });
  return own;
}

void put_key(const ServerPlan& plan, std::size_t key, Eigen::VectorXd own, Mlp& mlp) {
  with_parts(
      plan, key, [&](int l) -> Eigen::VectorXd& { return mlp.parameters(l); }, own,
      [](auto layer, auto mine) { layer = mine; });
}

/// First sample and number of samples of a worker's micro-batch.
std::pair<Eigen::Index, Eigen::Index> samples(const NumericTask& task, const ServerPlan& plan, int worker, int step,
                                              int micro_batch) {
  const int share = task.global_batch / plan.workers(), size = share / plan.base.step.micro_batches;
  return {step * task.global_batch + worker * share + micro_batch * size, size};
}

double scale_of_sum(const NumericTask& task, const ServerPlan& plan) {
  return task.learning_rate * plan.workers() / (plan.workers() - plan.backup_workers);
}

}  // namespace

ServerNumerics::ServerNumerics(const NumericTask& task, const ServerPlan& plan)
    : task_(task), plan_(plan), sums_(plan.keys()) {
  for (int w = 0; w < plan.workers(); ++w) {
    Worker& worker = workers_.emplace_back(Worker{Mlp(task.shape, task.seed), 0, {}, {}, {}});
    worker.activations.resize(static_cast<std::size_t>(task.shape.layers()) + 1);
    for (int layer = 0; layer < task.shape.layers(); ++layer) {
      worker.gradients.emplace_back(Eigen::VectorXd::Zero(task.shape.parameters(layer)));
      worker.mlp.parameters(layer).setConstant(std::nan(""));
    }
  }
}

/// A server's weights of a key, and how often they were updated.
Eigen::VectorXd& ServerNumerics::held(std::size_t key) const {
  return values_->buffer(plan_.workers() + plan_.server_of[key], static_cast<std::uint16_t>(kParameters + key));
}

void ServerNumerics::attach(Values& values) {
  values_ = &values;
  Mlp initial(task_.shape, task_.seed);
  for (std::size_t key = 0; key < plan_.keys(); ++key) {
    const Eigen::VectorXd own = of_key(plan_, key, initial);
    held(key) = Eigen::VectorXd::Zero(own.size() + 1);
    held(key).head(own.size()) = own;
  }
  const auto on = [&values](auto call, auto function) { values.on_call(static_cast<std::uint16_t>(call), function); };
  on(TrainingCall::forward, [this](Actor a, const Op& op) { forward(a, op.effect.read.buffer, op.effect.read.chunk); });
  on(TrainingCall::backward,
     [this](Actor a, const Op& op) { backward(a, op.effect.read.buffer, op.effect.read.chunk); });
  on(TrainingCall::take_parameters, [this](Actor a, const Op& op) { take(a, op.effect.read.buffer); });
  on(TrainingCall::fill_bucket, [this](Actor a, const Op& op) {
    Worker& worker = workers_[static_cast<std::size_t>(a)];
    const std::size_t key = op.effect.read.buffer;
    values_->buffer(a, op.effect.read.buffer) =
        plan_.mixes() ? of_key(plan_, key, worker.mlp) : of_key(plan_, key, worker.gradients);
    if (key + 1 != plan_.keys()) return;  // keys are pushed in their order: the step is over
    for (Eigen::VectorXd& gradient : worker.gradients) gradient.setZero();
    ++worker.step;
  });
  on(ServerCall::local_update, [this](Actor a, const Op& op) {
    Worker& worker = workers_[static_cast<std::size_t>(a)];
    const std::size_t key = op.effect.read.buffer;
    put_key(plan_, key, of_key(plan_, key, worker.mlp) - task_.learning_rate * of_key(plan_, key, worker.gradients),
            worker.mlp);
  });
  for (const ServerCall call :
       {ServerCall::first, ServerCall::add, ServerCall::update, ServerCall::apply, ServerCall::drop})
    on(call, [this, call](Actor, const Op& op) { deal_with(call, op); });
}

Mlp ServerNumerics::weights() const {
  Mlp mlp(task_.shape, task_.seed);
  for (std::size_t key = 0; key < plan_.keys(); ++key) put_key(plan_, key, held(key).head(held(key).size() - 1), mlp);
  return mlp;
}

void ServerNumerics::take(int w, std::size_t key) {
  const Eigen::VectorXd& got = values_->buffer(w, static_cast<std::uint16_t>(kParameters + key));
  const Eigen::Index size = got.size() - 1;
  put_key(plan_, key, got.head(size), workers_[static_cast<std::size_t>(w)].mlp);
  events_.push_back({ServerEvent::What::pulled, w, key, static_cast<std::uint32_t>(got[size])});
}

void ServerNumerics::forward(int w, int layer, int micro_batch) {
  Worker& worker = workers_[static_cast<std::size_t>(w)];
  if (layer == 0) {
    const auto [first, count] = samples(task_, plan_, w, worker.step, micro_batch);
    worker.activations[0] = task_.inputs.middleCols(first, count);
  }
  const auto l = static_cast<std::size_t>(layer);
  worker.activations[l + 1] = worker.mlp.forward(layer, worker.activations[l]);
}

void ServerNumerics::backward(int w, int layer, int micro_batch) {
  Worker& worker = workers_[static_cast<std::size_t>(w)];
  const auto l = static_cast<std::size_t>(layer);
  if (layer + 1 == task_.shape.layers()) {
    const auto [first, count] = samples(task_, plan_, w, worker.step, micro_batch);
    worker.gradient =
        worker.mlp.loss_gradient(worker.activations[l + 1], task_.targets.middleCols(first, count), task_.global_batch);
  }
  worker.gradient = worker.mlp.backward(layer, worker.activations[l], worker.activations[l + 1], worker.gradient,
                                        worker.gradients[l]);
}

void ServerNumerics::deal_with(ServerCall call, const Op& op) {
  const std::size_t key = op.effect.write.buffer;
  const int worker = op.effect.read.chunk;
  const Eigen::VectorXd& came = values_->buffer(op.actor, op.effect.read.buffer);
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
    const auto [first, count] = samples(task_, plan_, worker, step, 0);
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
