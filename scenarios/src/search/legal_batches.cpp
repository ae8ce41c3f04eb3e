#include "scenarios/src/search/legal_batches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "scenarios/src/search/plan_judge.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kUsualMicroBatches[] = {1, 2, 4, 8};

std::string batch_with_change(std::int64_t batch, std::int64_t old_batch) {
  return fmt::format("{} ({:+.1f} %)", batch, (static_cast<double>(batch) / static_cast<double>(old_batch) - 1) * 100);
}

/// Returns the integers nearest to `batch`, below and above, that `divides` accepts, up to twice the batch.
template <class Divides>
std::vector<std::int64_t> nearest_batches(std::int64_t batch, const Divides& divides) {
  std::vector<std::int64_t> near;
  for (const int direction : {-1, 1}) {
    std::int64_t n = batch;
    while (n > 0 && n <= 2 * batch && !divides(n)) n += direction;
    if (n > 0 && n <= 2 * batch) near.push_back(n);
  }
  return near;
}

}  // namespace

std::size_t LegalSplits::dividing(std::int64_t batch) const {
  return static_cast<std::size_t>(std::ranges::count_if(replicas, [batch](std::int64_t n) { return batch % n == 0; }));
}

std::int64_t LegalSplits::best_batch(std::int64_t wanted, std::int64_t least, std::int64_t most) const {
  std::int64_t best = 0;
  std::size_t most_divisors = 0;
  const auto distance = [wanted](std::int64_t batch) { return std::abs(batch - wanted); };
  for (std::int64_t batch = std::max<std::int64_t>(1, least); batch <= most; ++batch) {
    const std::size_t count = dividing(batch);
    if (count > most_divisors || (count == most_divisors && count > 0 && distance(batch) < distance(best))) {
      best = batch;
      most_divisors = count;
    }
  }
  return best;
}

std::vector<std::int64_t> LegalSplits::promising_batches(std::int64_t wanted, std::int64_t least, std::int64_t most,
                                                         std::size_t most_batches) const {
  struct DivisibleBatch {
    std::int64_t batch = 0;
    std::set<std::int64_t> divisors;
  };
  std::vector<DivisibleBatch> promising;
  for (std::int64_t batch = most; batch >= std::max<std::int64_t>(1, least); --batch) {
    DivisibleBatch candidate{batch, {}};
    for (const std::int64_t n : replicas)
      for (const std::int64_t micro_batch : kUsualMicroBatches)
        if (batch % (n * micro_batch) == 0) candidate.divisors.insert(n * micro_batch);
    const auto has_all = [&candidate](const DivisibleBatch& larger) {
      return std::includes(larger.divisors.begin(), larger.divisors.end(), candidate.divisors.begin(),
                           candidate.divisors.end());
    };
    if (!candidate.divisors.empty() && batch != wanted && std::ranges::none_of(promising, has_all))
      promising.push_back(std::move(candidate));
  }
  sort_stably(promising,
              [](const DivisibleBatch& a, const DivisibleBatch& b) { return a.divisors.size() > b.divisors.size(); });
  std::vector<std::int64_t> batches;
  if (dividing(wanted) > 0) batches.push_back(wanted);
  for (const DivisibleBatch& candidate : promising)
    if (batches.size() < most_batches) batches.push_back(candidate.batch);
  return batches;
}

std::string LegalSplits::why_none(std::int64_t batch) const {
  if (replicas.empty() && refusal.empty())
    return fmt::format("no split of the model over {} has the values of --vary", counted_noun(gpus, "GPU"));
  if (replicas.empty())
    return fmt::format("no split of the model over {} is a plan; the first: {}", counted_noun(gpus, "GPU"), refusal);
  std::int64_t common = 0;
  for (const std::int64_t n : replicas) common = std::gcd(common, n);
  std::string text = common > 1 && batch % common != 0 ? fmt::format(
                                                             "each split of the model over {0} GPUs has a multiple of "
                                                             "{1} replicas, but the batch of {2} is no multiple of {1}",
                                                             gpus, common, batch)
                                                       : fmt::format(
                                                             "the batch of {} is no multiple of the number of replicas "
                                                             "in any split of the model over {}, which is {} or more",
                                                             batch, counted_noun(gpus, "GPU"), replicas.front());
  std::vector<std::string> words;
  for (const std::int64_t near : nearest_batches(batch, [this](std::int64_t n) { return dividing(n) > 0; }))
    words.push_back(batch_with_change(near, batch));
  if (!words.empty()) text += fmt::format("; nearest batches: {}", fmt::join(words, ", "));
  // A near batch that divides among flexible_batch numbers of replicas has flexible_batch plans.
  const std::int64_t flexible_batch = best_batch(batch, batch - batch / 4, batch + batch / 4);
  if (flexible_batch > 0 && !words.empty() && words.front() != batch_with_change(flexible_batch, batch) &&
      words.back() != batch_with_change(flexible_batch, batch))
    text += fmt::format("; {} divides among {} of the {} numbers of replicas", batch_with_change(flexible_batch, batch),
                        dividing(flexible_batch), replicas.size());
  return text;
}

LegalSplits legal_splits(const PlanQuestion& original, const PlanSpaceOptions& options) {
  PlanQuestion question = original;
  LegalSplits splits;
  splits.gpus = question.base.cluster.gpus();
  question.base.global_batch_size = splits.gpus;  // a batch that divides among all numbers of replicas
  question.own.reset();
  PlanSpaceOptions small_space = options;
  std::erase_if(small_space.vary, [](const PlanSpaceOptions::Axis& axis) {
    return axis.path == "plan.micro_batch_size" || axis.path == "plan.recompute";
  });
  small_space.vary.push_back({"plan.micro_batch_size", {"1"}});
  small_space.vary.push_back({"plan.recompute", {"none"}});
  const PlanSpace space(question, small_space);
  PlanJudge judge(question.base, space);
  std::set<std::int64_t> replicas;
  for (const PlanPoint& group : space.groups()) {
    if (replicas.contains(space.data(group))) continue;
    for (const PlanPoint& point : space.points(group)) {
      const std::string refusal = judge.refusal(point);
      if (refusal.empty()) {
        replicas.insert(space.data(group));
        break;
      }
      if (splits.refusal.empty()) splits.refusal = refusal;
    }
  }
  splits.replicas.assign(replicas.begin(), replicas.end());
  return splits;
}

}  // namespace trainyard
