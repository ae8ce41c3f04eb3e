#include "scenarios/src/studies/post_training_splits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "scenarios/src/running/simulate.hpp"
#include "sim/process/parallel.hpp"

namespace trainyard {
namespace {

PostTrainingSplit simulated_split(const Scenario& s, int nodes) {
  const PostTrainingChoice& choice = *s.post_training;
  const int gpus = choice.generators.node.gpus;
  PostTrainingSplit split{nodes, nodes * gpus, (choice.machine_nodes - nodes) * gpus};
  try {
    SimulateOptions options;
    options.critical_path = false;
    const Scenario changed = read_again(s, {{"post_training.generation.nodes", fmt::format("{}", nodes)}});
    const PostTrainingResult r = *simulate_here(changed, options).post_training;
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
  const int nodes = s.post_training->machine_nodes, count = std::min(nodes - 1, kMostSplits);
  std::set<int> numbers{s.post_training->nodes};
  for (int i = 1; i <= count; ++i) numbers.insert(std::clamp(i * nodes / (count + 1), 1, nodes - 1));
  const std::vector<int> all(numbers.begin(), numbers.end());
  std::vector<PostTrainingSplit> splits = all_in_parallel(
      all.size(), processors(), [&](std::size_t i) { return simulated_split(s, all[i]); },
      [](std::size_t, const PostTrainingSplit&) {});
  std::stable_sort(splits.begin(), splits.end(), [](const PostTrainingSplit& a, const PostTrainingSplit& b) {
    return a.error.empty() != b.error.empty() ? a.error.empty() : a.step_time < b.step_time;
  });
  return splits;
}

}  // namespace trainyard
