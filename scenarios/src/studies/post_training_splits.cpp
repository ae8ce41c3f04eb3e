#include "scenarios/src/studies/post_training_splits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "scenarios/src/running/simulate.hpp"
#include "sim/process/parallel.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

Scenario with_split(const Scenario& s, int nodes) {
  return read_again(s, {{"post_training.generation.nodes", fmt::format("{}", nodes)}});
}

/// Returns the numbers of nodes that may generate. If these are too many to simulate all of them, it leaves out those
/// that do not suit the plan or the engines.
std::vector<int> split_candidates(const Scenario& s) {
  const int most = s.post_training->machine_nodes - s.post_training->critic_nodes() - 1;
  std::vector<int> candidates;
  for (int nodes = 1; nodes <= most; ++nodes) {
    try {
      if (most > kMostSplits) with_split(s, nodes);
      candidates.push_back(nodes);
    } catch (const UserError&) {
    }
  }
  return candidates;
}

PostTrainingSplit simulated_split(const Scenario& s, int nodes) {
  const PostTrainingChoice& choice = *s.post_training;
  const int gpus = choice.generators.node.gpus;
  PostTrainingSplit split{.nodes = nodes,
                          .generation_gpus = nodes * gpus,
                          .training_gpus = (choice.machine_nodes - choice.critic_nodes() - nodes) * gpus};
  try {
    const PostTrainingResult r = *simulate_here(with_split(s, nodes), {.critical_path = false}).post_training;
    split.step_time = r.step_time;
    split.generation = r.generation;
    split.training_half = r.training + r.log_probabilities + r.loop;
    split.tokens_per_s_per_gpu = r.tokens_per_s_per_gpu;
  } catch (const UserError& e) {
    split.error = e.what();
  }
  return split;
}

}  // namespace

std::vector<PostTrainingSplit> post_training_splits(const Scenario& s) {
  if (!s.post_training || !s.post_training->has_own_nodes || s.post_training->machine_nodes < 3) return {};
  const std::vector<int> candidates = split_candidates(s);
  const int candidate_count = static_cast<int>(candidates.size()), count = std::min(candidate_count, kMostSplits);
  std::set<int> numbers{s.post_training->nodes};
  for (int i = 1; i <= count; ++i)
    numbers.insert(candidates[static_cast<std::size_t>(
        std::clamp(i * (candidate_count + 1) / (count + 1), 1, candidate_count) - 1)]);
  const std::vector<int> all(numbers.begin(), numbers.end());
  std::vector<PostTrainingSplit> splits = all_in_parallel(
      all.size(), processors(), [&](std::size_t i) { return simulated_split(s, all[i]); },
      [](std::size_t, const PostTrainingSplit&) {});
  sort_stably(splits, [](const PostTrainingSplit& a, const PostTrainingSplit& b) {
    return a.error.empty() != b.error.empty() ? a.error.empty() : a.step_time < b.step_time;
  });
  return splits;
}

}  // namespace trainyard
