#include "scenarios/src/post_training/engine_run.hpp"

#include <algorithm>
#include <deque>
#include <map>

namespace trainyard {
namespace {

struct Sequence {
  std::size_t index = 0;
  double generated = 0, remaining = 0;
};

/// One engine, with the sequences that run and wait.
class EngineClock {
 public:
  EngineClock(const GenerationCosts& costs, const std::vector<PlannedAnswer>& answers, const EngineLimits& limits)
      : costs_(costs), answers_(answers), limits_(limits) {
    run_.ends.resize(answers.size());
    for (std::size_t i = 0; i < answers.size(); ++i) waiting_.push_back({i, 0, answers[i].tokens});
  }

  EngineRun run() {
    while (!(waiting_.empty() && running_.empty())) {
      admit();
      advance();
    }
    return std::move(run_);
  }

 private:
  const GenerationCosts& costs_;
  const std::vector<PlannedAnswer>& answers_;
  const EngineLimits& limits_;
  std::deque<Sequence> waiting_;
  std::vector<Sequence> running_;       // oldest first
  std::map<std::size_t, int> prompts_;  // running sequences by prompt
  EngineRun run_;

  /// Keys and values of a sequence besides those of its prompt, after `ahead` further tokens.
  Bytes own_cache(const Sequence& sequence, double ahead) const {
    const double prompt = limits_.prompt_tokens, more = std::min(ahead, sequence.remaining);
    return costs_.cache(prompt + sequence.generated + more) - costs_.cache(prompt);
  }

  /// Keys and values of all running sequences after `ahead` further tokens of each.
  Bytes cache_after(double ahead) const {
    Bytes all = static_cast<double>(prompts_.size()) * costs_.cache(limits_.prompt_tokens);
    for (const Sequence& sequence : running_) all += own_cache(sequence, ahead);
    return all;
  }

  void admit() {
    Bytes cache = cache_after(limits_.reserved_tokens);
    double tokens = 0;
    while (!waiting_.empty() && running_.size() < static_cast<std::size_t>(limits_.most_sequences)) {
      const Sequence& next = waiting_.front();
      const std::size_t prompt = answers_[next.index].prompt;
      const bool shares = prompts_.contains(prompt);
      const Bytes grown =
          cache + own_cache(next, limits_.reserved_tokens) + (shares ? Bytes{} : costs_.cache(limits_.prompt_tokens));
      if (grown > costs_.room() && !running_.empty()) break;
      cache = grown;
      tokens += next.generated + (shares ? 0 : limits_.prompt_tokens);
      ++prompts_[prompt];
      running_.push_back(next);
      waiting_.pop_front();
    }
    if (tokens == 0) return;
    const Seconds time = costs_.prefill(tokens);
    run_.prefill += time;
    run_.time += time;
  }

  void leave(std::size_t prompt) {
    if (--prompts_.at(prompt) == 0) prompts_.erase(prompt);
  }

  /// Number of decode steps until the next end, at most `reserved_tokens`.
  double next_steps() const {
    double steps = limits_.reserved_tokens;
    for (const Sequence& sequence : running_) steps = std::min(steps, sequence.remaining);
    return steps;
  }

  void preempt_until_it_fits() {
    while (running_.size() > 1 && cache_after(next_steps()) > costs_.room()) {
      leave(answers_[running_.back().index].prompt);
      waiting_.push_front(running_.back());
      running_.pop_back();
      ++run_.preemptions;
    }
  }

  void advance() {
    preempt_until_it_fits();
    const double steps = next_steps();
    double context = 0;
    for (const Sequence& sequence : running_) context += limits_.prompt_tokens + sequence.generated;
    const auto batch = static_cast<double>(running_.size());
    // The mean context of these steps: the first one sees it as it is now, the last one `steps` - 1 tokens more.
    const DecodeTime step = costs_.decode(static_cast<int>(running_.size()), context / batch + (steps - 1) / 2);
    run_.cache_peak = std::max(run_.cache_peak, cache_after(steps));
    run_.decode.products += steps * step.products;
    run_.decode.cache += steps * step.cache;
    run_.decode.exchanges += steps * step.exchanges;
    run_.decode.host += steps * step.host;
    run_.time += steps * step.sum();
    run_.steps += steps;
    run_.tokens += steps * batch;
    for (Sequence& sequence : running_) {
      sequence.generated += steps;
      sequence.remaining -= steps;
      if (sequence.remaining > 0) continue;
      run_.ends[sequence.index] = run_.time;
      leave(answers_[sequence.index].prompt);
    }
    std::erase_if(running_, [](const Sequence& sequence) { return sequence.remaining <= 0; });
  }
};

}  // namespace

EngineRun run_engine(const GenerationCosts& costs, const std::vector<PlannedAnswer>& answers,
                     const EngineLimits& limits) {
  return EngineClock(costs, answers, limits).run();
}

}  // namespace trainyard
