#include "scenarios/src/post_training/rank_loads.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace trainyard {
namespace {

/// Deals samples to ranks, the longest first and back and forth, and returns the numbers of each rank in their order.
std::vector<std::vector<std::size_t>> dealt_samples(const std::vector<double>& tokens, std::size_t ranks) {
  std::vector<std::size_t> longest_first(tokens.size());
  std::iota(longest_first.begin(), longest_first.end(), std::size_t{0});
  std::ranges::stable_sort(longest_first, [&](std::size_t a, std::size_t b) { return tokens[a] > tokens[b]; });
  std::vector<std::vector<std::size_t>> shares(ranks);
  for (std::size_t i = 0; i < longest_first.size(); ++i) {
    const std::size_t turn = i / ranks, position = i % ranks;
    shares[turn % 2 == 0 ? position : ranks - 1 - position].push_back(longest_first[i]);
  }
  for (std::vector<std::size_t>& share : shares) std::ranges::sort(share);
  return shares;
}

}  // namespace

RankLoads rank_loads(const PostTrainingChoice& choice, const Network& network, int ranks) {
  RankLoads loads;
  if (!choice.has_dynamic_batches()) return loads;
  const auto count = static_cast<std::size_t>(choice.samples()), all_ranks = static_cast<std::size_t>(ranks);
  std::vector<double> tokens;
  for (std::size_t i = 0; i < count; ++i) tokens.push_back(choice.answers[i] + choice.read_tokens(i));
  // Causal attention computes half of the pairs of tokens.
  const double linear = network.model_flops_per_token().value,
               attention =
                   network.attention_flops_per_token().value / 2 / static_cast<double>(network.tokens_per_sample);
  const auto work = [&](double length) { return length * (linear + attention * length); };
  const std::vector<std::vector<std::size_t>> shares = dealt_samples(tokens, all_ranks);
  const auto work_of = [&](const std::vector<std::size_t>& share, std::size_t first, std::size_t last) {
    double sum = 0;
    for (std::size_t i = first; i < last; ++i) sum += work(tokens[share[i]]);
    return sum;
  };
  const auto steps = static_cast<std::size_t>(choice.samples() / choice.training_samples);
  double in_steps = 0, in_pass = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    double fullest = 0;
    for (const std::vector<std::size_t>& share : shares)
      fullest = std::max(fullest, work_of(share, step * share.size() / steps, (step + 1) * share.size() / steps));
    in_steps += fullest;
  }
  for (const std::vector<std::size_t>& share : shares) in_pass = std::max(in_pass, work_of(share, 0, share.size()));
  const double equal = static_cast<double>(count) / ranks * work(static_cast<double>(choice.packs->tokens));
  loads.training = in_steps / equal;
  loads.passes = in_pass / equal;
  return loads;
}

}  // namespace trainyard
