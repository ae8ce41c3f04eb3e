#include "server_replay.hpp"

#include "sim/error.hpp"
#include "tests/seeds/plain_training.hpp"

namespace trainyard::test {
namespace {

using Eigen::VectorXd;

/// Keeps all versions of the weights of every key, and the versions that workers pulled.
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
    for (std::size_t key = 0; key < plan.keys(); ++key) history_[key] = {numbers_of_key(key, network_.initial())};
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
  std::vector<std::vector<VectorXd>> history_;                  // indexed by key and version
  std::vector<VectorXd> sums_;                                  // indexed by key
  std::vector<std::vector<std::vector<std::uint32_t>>> pulls_;  // versions, indexed by worker, key and step
  std::vector<std::vector<int>> pushes_;                        // numbers of pushes so far, indexed by worker and key
  std::map<std::pair<int, int>, Step> steps_;                   // indexed by worker and step

  VectorXd numbers_of_key(std::size_t key, const VectorXd& all) const {
    return network_.of_bucket(plan_.key(key), all);
  }

  /// Returns what the worker of the event pushes next for its key: the gradient, or, if the servers mix weights, the
  /// weights that the worker has updated. Counts this push.
  VectorXd next_push(const ServerEvent& event) {
    const int step = pushes_[static_cast<std::size_t>(event.worker)][event.key]++;
    const auto [entry, is_new] = steps_.try_emplace({event.worker, step});
    if (is_new) compute(event.worker, step, entry->second);
    const VectorXd gradient = numbers_of_key(event.key, entry->second.gradient);
    if (!plan_.mixes()) return gradient;
    return numbers_of_key(event.key, entry->second.weights) - task_.rule.learning_rate * gradient;
  }

  void compute(int worker, int step, Step& result) {
    result.weights = network_.initial();
    for (std::size_t key = 0; key < plan_.keys(); ++key) {
      const std::vector<std::uint32_t>& pulls = pulls_[static_cast<std::size_t>(worker)][key];
      if (pulls.size() <= static_cast<std::size_t>(step))
        throw InternalError("a gradient was pushed before its weights were pulled");
      network_.put(plan_.key(key), history_[key].at(pulls[static_cast<std::size_t>(step)]), result.weights);
    }
    const Eigen::Index samples_each = task_.micro_batch_size, global_batch = samples_each * plan_.workers();
    result.gradient = network_.gradient(result.weights, step * global_batch + worker * samples_each,
                                        static_cast<double>(global_batch));
  }
};

}  // namespace

VectorXd replay_servers(const TrainingTask& task, const ServerPlan& plan, const std::vector<ServerEvent>& events) {
  if (plan.base.step.micro_batches != 1) throw InternalError("a replay takes steps of one micro-batch");
  ServerReplay replay(task, plan);
  for (const ServerEvent& event : events) replay.apply(event);
  return replay.weights();
}

}  // namespace trainyard::test
