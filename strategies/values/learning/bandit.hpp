#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <deque>
#include <span>

#include "strategies/values/learning/task_choice.hpp"

namespace trainyard {

/// A softmax policy of a bandit that learns by groups of answers to one prompt, as GRPO does (Shao et al. 2024,
/// equation 3, without the penalty): the advantage of an answer is its reward less the mean of its group, over the
/// standard deviation; the gradient has the clipped importance ratio of PPO (Schulman et al. 2017, equation 7).
/// Deterministic by the seed.
class BanditPolicy {
 public:
  BanditPolicy(const BanditChoice&, std::uint64_t seed);

  /// Trains one step in `updates` updates of equally many groups. `missed`: for each group, the number of steps between
  /// the policy that gives its answers and the present one. `answers`: number of answers in a group.
  void train(std::span<const int> missed, int answers, int updates);
  double regret() const;    ///< mean over contexts of the best probability of a reward less that of the policy
  double accuracy() const;  ///< mean over contexts of the probability with which the policy gives the best answer
  /// Returns the share of the answers of the last step whose importance ratio was beyond the clip.
  double clipped_share() const { return clipped_; }
  Eigen::Index size() const { return policies_.back().size(); }

 private:
  BanditChoice choice_;
  std::uint64_t seed_, steps_ = 0;
  Eigen::MatrixXd rewards_;               // context x action: probability of a reward
  std::deque<Eigen::MatrixXd> policies_;  // context x action: logits of the last policies, the newest last
  double clipped_ = 0;
};

}  // namespace trainyard
