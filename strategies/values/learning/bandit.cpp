#include "strategies/values/learning/bandit.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "strategies/values/learning/draws.hpp"

namespace trainyard {
namespace {

constexpr std::size_t kMostPolicies = 64;  ///< policies that answers may still come from
constexpr int kMostContexts = 1 << 12, kMostActions = 1 << 10;

Eigen::RowVectorXd action_probabilities(const Eigen::RowVectorXd& logits) {
  const Eigen::RowVectorXd powers = (logits.array() - logits.maxCoeff()).exp();
  return powers / powers.sum();
}

int drawn_action(const Eigen::RowVectorXd& probabilities, double uniform) {
  int action = 0;
  for (const auto last = static_cast<int>(probabilities.size()) - 1; action < last; ++action) {
    uniform -= probabilities[action];
    if (uniform < 0) break;
  }
  return action;
}

const Registration register_bandit{
    learning_tasks(), "bandit",
    TaskKind{
        "a small policy that learns from right and wrong answers, with the staleness of a post-training loop",
        [](Fields& learn, TaskChoice& choice) {
          choice.bandit.contexts = learn.integer_within<int>(
              {"contexts", "Number of contexts of the bandit, which stand for prompts, for example 32."}, 1,
              kMostContexts, 64);
          choice.bandit.actions = learn.integer_within<int>(
              {"actions", "Number of actions in each context, which stand for answers, for example 8."}, 2,
              kMostActions, 16);
          choice.bandit.rate =
              learn.number({"policy_rate", "Learning rate of the bandit's policy, for example 0.5."}, 0, 1e6, 1);
          choice.bandit.ratio_clip = learn.number(
              {"ratio_clip",
               "Distance of the importance ratio from 1 beyond which an answer is not trained on, for example 0.3."},
              0, 1e6, 0.2);
        },
        nullptr}};

}  // namespace

BanditPolicy::BanditPolicy(const BanditChoice& choice, std::uint64_t seed)
    : choice_(choice), seed_(seed), rewards_(choice.contexts, choice.actions) {
  Draws draws(hash_numbers({seed, 0}));
  for (Eigen::Index c = 0; c < rewards_.rows(); ++c)
    for (Eigen::Index a = 0; a < rewards_.cols(); ++a) rewards_(c, a) = draws.uniform();
  policies_.emplace_back(Eigen::MatrixXd::Zero(choice.contexts, choice.actions));
}

void BanditPolicy::train(std::span<const int> missed, int answers, int updates) {
  Draws draws(hash_numbers({seed_, ++steps_}));
  Eigen::MatrixXd now = policies_.back();
  const std::size_t groups = missed.size(), an_update = std::max<std::size_t>(1, groups / updates);
  double beyond = 0;
  for (std::size_t first = 0; first < groups; first += an_update) {
    Eigen::MatrixXd gradient = Eigen::MatrixXd::Zero(now.rows(), now.cols());
    const std::size_t end = std::min(groups, first + an_update);
    for (std::size_t g = first; g < end; ++g) {
      const Eigen::Index context = draws.integer_below(choice_.contexts);
      const std::size_t age = std::min(static_cast<std::size_t>(missed[g]), policies_.size() - 1);
      const Eigen::RowVectorXd old = action_probabilities(policies_[policies_.size() - 1 - age].row(context)),
                               present = action_probabilities(now.row(context));
      std::vector<int> actions(static_cast<std::size_t>(answers));
      Eigen::VectorXd rewards(answers);
      for (int i = 0; i < answers; ++i) {
        actions[i] = drawn_action(old, draws.uniform());
        rewards[i] = draws.uniform() < rewards_(context, actions[i]) ? 1 : 0;
      }
      const double mean = rewards.mean(), deviation = std::sqrt((rewards.array() - mean).square().mean());
      if (deviation == 0) continue;  // no answer is better than another
      for (int i = 0; i < answers; ++i) {
        const int action = actions[i];
        const double advantage = (rewards[i] - mean) / deviation, ratio = present[action] / old[action];
        const bool is_clipped = advantage > 0 ? ratio > 1 + choice_.ratio_clip : ratio < 1 - choice_.ratio_clip;
        if (is_clipped) {
          ++beyond;
          continue;
        }
        const double scale = ratio * advantage / answers;
        gradient.row(context) -= scale * present;
        gradient(context, action) += scale;
      }
    }
    now += choice_.rate * gradient;
  }
  clipped_ = beyond / (static_cast<double>(groups) * answers);
  policies_.push_back(std::move(now));
  if (policies_.size() > kMostPolicies) policies_.pop_front();
}

double BanditPolicy::regret() const {
  double sum = 0;
  for (Eigen::Index c = 0; c < rewards_.rows(); ++c)
    sum += rewards_.row(c).maxCoeff() - action_probabilities(policies_.back().row(c)).dot(rewards_.row(c));
  return sum / static_cast<double>(rewards_.rows());
}

double BanditPolicy::accuracy() const {
  double sum = 0;
  for (Eigen::Index c = 0; c < rewards_.rows(); ++c) {
    Eigen::Index best = 0;
    rewards_.row(c).maxCoeff(&best);
    sum += action_probabilities(policies_.back().row(c))[best];
  }
  return sum / static_cast<double>(rewards_.rows());
}

}  // namespace trainyard
