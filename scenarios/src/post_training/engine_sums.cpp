// Sums over the runs of engines, and the times of their answers.
#include "scenarios/src/post_training/engine_run.hpp"

namespace trainyard {

void EngineRun::add(const EngineRun& run) {
  time += run.time;
  prefill += run.prefill;
  call_wait += run.call_wait;
  decode.products += run.decode.products;
  decode.cache += run.decode.cache;
  decode.exchanges += run.decode.exchanges;
  decode.host += run.decode.host;
  tokens += run.tokens;
  prefill_tokens += run.prefill_tokens;
  steps += run.steps;
  token_seconds += run.token_seconds;
  preemptions += run.preemptions;
  refusals += run.refusals;
  call_time += run.call_time;
  recomputed += run.recomputed;
}

EngineRun EngineRun::mean_since(const EngineRun& before, double count) const {
  EngineRun mean;
  mean.time = (time - before.time) / count;
  mean.prefill = (prefill - before.prefill) / count;
  mean.call_wait = (call_wait - before.call_wait) / count;
  mean.decode.products = (decode.products - before.decode.products) / count;
  mean.decode.cache = (decode.cache - before.decode.cache) / count;
  mean.decode.exchanges = (decode.exchanges - before.decode.exchanges) / count;
  mean.decode.host = (decode.host - before.decode.host) / count;
  mean.tokens = (tokens - before.tokens) / count;
  mean.prefill_tokens = (prefill_tokens - before.prefill_tokens) / count;
  mean.steps = (steps - before.steps) / count;
  mean.token_seconds = (token_seconds - before.token_seconds) / count;
  mean.preemptions = preemptions - before.preemptions;
  mean.refusals = refusals - before.refusals;
  mean.call_time = (call_time - before.call_time) / count;
  mean.recomputed = (recomputed - before.recomputed) / count;
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
