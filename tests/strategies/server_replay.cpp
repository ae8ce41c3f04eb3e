#include "server_replay.hpp"

#include "sim/error.hpp"
#include "tests/seeds/plain_training.hpp"

namespace trainyard::test {
namespace {

using Eigen::VectorXd;

/// The history of the weights by key and version, and the pulled versions.
class ServerReplay {
 public:
  ServerReplay(const TrainingTask& task, const ServerPlan& plan)
      : task_(task),
        plan_(plan),
        network_(task),
        history_(plan.keys()),
        sums_(plan.keys()),
        pulls_(static_cast<std::size_t>(plan.workers()), std::vector<std::vector<std::uint32_t>>(plan.keys())),
        pushes_(static_cast<std::size_t>(plan.workers()), std::vector<int>(plan.keys())) {
    for (std::size_t key = 0; key < plan.keys(); ++key) history_[key] = {of_key(key, network_.initial())};
  }

  void apply(const ServerEvent& event) {
    const auto w = static_cast<std::size_t>(event.worker);
    VectorXd weights = history_[event.key].back();
    const double rate = task_.rule.learning_rate;
    switch (event.type) {
      case ServerEvent::Type::pulled:
        pulls_[w][event.key].push_back(event.version);
        return;
      case ServerEvent::Type::added:
        if (sums_[event.key].size() == 0)
          sums_[event.key] = next_push(event);
        else
          sums_[event.key] += next_push(event);
        return;
      case ServerEvent::Type::updated:
        sums_[event.key] *= plan_.workers() / static_cast<double>(plan_.workers() - plan_.backup_workers);
        weights -= rate * sums_[event.key];
        sums_[event.key].resize(0);
        break;
      case ServerEvent::Type::applied:
        if (plan_.mixes())
          weights += plan_.mixing_shares[w] * (next_push(event) - weights);
        else
          weights -= rate * next_push(event);
        break;
      case ServerEvent::Type::dropped:
        next_push(event);
        return;
    }
    history_[event.key].push_back(weights);
  }

  VectorXd weights() const {
    VectorXd all = network_.initial();
    for (std::size_t key = 0; key < plan_.keys(); ++key) network_.put(plan_.key(key), history_[key].back(), all);
    return all;
  }

 private:
  struct Step {
    VectorXd weights, gradient;
  };
  const TrainingTask& task_;
  const ServerPlan& plan_;
  PlainNetwork network_;
  std::vector<std::vector<VectorXd>> history_;                  // by key and version
  std::vector<VectorXd> sums_;                                  // by key
  std::vector<std::vector<std::vector<std::uint32_t>>> pulls_;  // by worker, key and step: the version
  std::vector<std::vector<int>> pushes_;                        // by worker and key: number of pushes so far
  std::map<std::pair<int, int>, Step> steps_;                   // by worker and step

  VectorXd of_key(std::size_t key, const VectorXd& all) const { return network_.of_bucket(plan_.key(key), all); }

  /// The gradient of a key that the worker pushes in its next step.
  VectorXd next_push(const ServerEvent& event) {
    const int step = pushes_[static_cast<std::size_t>(event.worker)][event.key]++;
    const auto [at, fresh] = steps_.try_emplace({event.worker, step});
    if (fresh) compute(event.worker, step, at->second);
    const VectorXd gradient = of_key(event.key, at->second.gradient);
    if (!plan_.mixes()) return gradient;
    return of_key(event.key, at->second.weights) - task_.rule.learning_rate * gradient;
  }

  void compute(int worker, int step, Step& result) {
    result.weights = network_.initial();
    for (std::size_t key = 0; key < plan_.keys(); ++key) {
      const std::vector<std::uint32_t>& pulls = pulls_[static_cast<std::size_t>(worker)][key];
      if (pulls.size() <= static_cast<std::size_t>(step))
        throw InternalError("a gradient was pushed before its weights were pulled");
      network_.put(plan_.key(key), history_[key].at(pulls[static_cast<std::size_t>(step)]), result.weights);
    }
    const Eigen::Index samples_each = task_.micro_batch_size, global = samples_each * plan_.workers();
    result.gradient =
        network_.gradient(result.weights, step * global + worker * samples_each, static_cast<double>(global));
  }
};

}  // namespace

VectorXd replay_servers(const TrainingTask& task, const ServerPlan& plan, const std::vector<ServerEvent>& events) {
  if (plan.base.step.micro_batches != 1) throw InternalError("a replay takes steps of one micro-batch");
  ServerReplay all(task, plan);
  for (const ServerEvent& event : events) all.apply(event);
  return all.weights();
}

}  // namespace trainyard::test
