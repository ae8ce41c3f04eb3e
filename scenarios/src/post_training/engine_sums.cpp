// Sums over the runs of engines, and the times of their answers.
#include "scenarios/src/post_training/engine_run.hpp"

#include <type_traits>

namespace trainyard {

namespace {

/// Calls `fold` with each sum of a run and the same sum of another run.
template <class Fold>
void fold_sums(EngineRun& run, const EngineRun& other, Fold fold) {
  fold(run.time, other.time);
  fold(run.prefill, other.prefill);
  fold(run.call_wait, other.call_wait);
  fold(run.decode.products, other.decode.products);
  fold(run.decode.cache, other.decode.cache);
  fold(run.decode.exchanges, other.decode.exchanges);
  fold(run.decode.host, other.decode.host);
  fold(run.tokens, other.tokens);
  fold(run.prefill_tokens, other.prefill_tokens);
  fold(run.steps, other.steps);
  fold(run.token_seconds, other.token_seconds);
  fold(run.preemptions, other.preemptions);
  fold(run.refusals, other.refusals);
  fold(run.call_time, other.call_time);
  fold(run.recomputed, other.recomputed);
}

}  // namespace

void EngineRun::add(const EngineRun& run) {
  fold_sums(*this, run, [](auto& sum, const auto& more) { sum += more; });
}

EngineRun EngineRun::mean_since(const EngineRun& before, double count) const {
  EngineRun mean;
  mean.add(*this);
  fold_sums(mean, before, [count]<class Sum>(Sum& sum, const Sum& earlier) {
    if constexpr (std::is_integral_v<Sum>)
      sum -= earlier;
    else
      sum = (sum - earlier) / count;
  });
  return mean;
}

AnswerTimes answer_times(const std::vector<const EngineRun*>& runs, Seconds from) {
  std::vector<Seconds> firsts;
  AnswerTimes times;
  double longer_answers = 0;
  for (const EngineRun* run : runs)
    for (std::size_t i = 0; i < run->ends.size(); ++i) {
      if (run->ends[i] <= from) continue;
      firsts.push_back(run->first_tokens[i] - run->arrivals[i] + run->request);
      times.first_token += firsts.back();
      if (run->answer_tokens[i] < 2) continue;
      times.token += (run->ends[i] - run->first_tokens[i]) / (run->answer_tokens[i] - 1);
      longer_answers += 1;
    }
  if (firsts.empty()) return times;
  times.first_token = times.first_token / static_cast<double>(firsts.size());
  if (longer_answers > 0) times.token = times.token / longer_answers;
  const auto of_hundred = [&firsts](std::size_t percent) {
    const auto place = static_cast<std::ptrdiff_t>((firsts.size() * percent + 99) / 100 - 1);
    std::nth_element(firsts.begin(), firsts.begin() + place, firsts.end());
    return firsts[static_cast<std::size_t>(place)];
  };
  times.median_first_token = of_hundred(50);
  times.late_first_token = of_hundred(99);
  return times;
}

}  // namespace trainyard
