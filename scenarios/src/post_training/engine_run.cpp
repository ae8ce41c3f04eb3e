#include "scenarios/src/post_training/engine_run.hpp"

#include <cmath>
#include <utility>

namespace trainyard {

EngineClock::EngineClock(const GenerationCosts& costs, const EngineLimits& limits)
    : costs_(costs),
      limits_(limits),
      prompt_cache_(costs.cache(limits.prompt_tokens)),
      states_(costs.states()),
      free_sandboxes_(static_cast<std::size_t>(limits.sandboxes)) {}

std::size_t EngineClock::add(const PlannedAnswer& answer) {
  Sequence sequence;
  sequence.index = static_cast<std::uint32_t>(answers_.size());
  sequence.remaining = answer.tokens;
  answers_.push_back(answer);
  const auto most_calls = static_cast<std::size_t>(std::max(1.0, answer.tokens) - 1);
  if (answer.calls.size() > most_calls) answers_.back().calls.resize(most_calls);
  sequence.most_calls = static_cast<std::uint32_t>(answers_.back().calls.size());
  waiting_.push_back(sequence);
  run_.starts.emplace_back();
  run_.ends.emplace_back();
  return sequence.index;
}

/// Returns the number of tokens until the next call, or until the end of the answer.
double EngineClock::to_next_call(const Sequence& s) const {
  if (s.calls >= s.most_calls) return s.remaining;
  const auto parts = static_cast<double>(s.most_calls + 1), until_call = static_cast<double>(s.calls + 1);
  return std::floor(answers_[s.index].tokens * until_call / parts) - s.generated;
}

/// Returns the bytes of a sequence's states, and of its keys and values besides those of its prompt, after `ahead`
/// further tokens.
Bytes EngineClock::own_cache(const Sequence& s, double ahead) const {
  const double more = std::min(ahead, s.remaining);
  return states_ + costs_.cache(context(s) + more) - prompt_cache_;
}

/// Returns the bytes of keys, values and states of all sequences after `ahead` further tokens of each running one.
Bytes EngineClock::cache_after(double ahead) const {
  Bytes all = static_cast<double>(prompts_.size()) * prompt_cache_;
  for (const Sequence& s : running_) all += own_cache(s, ahead);
  for (const Sequence& s : away_)
    if (s.has_cache) all += own_cache(s, 0);
  return all;
}

void EngineClock::leave(std::size_t prompt) {
  if (--prompts_.at(prompt) == 0) prompts_.erase(prompt);
}

void EngineClock::spend_prefill(double tokens) {
  if (tokens == 0) return;
  const Seconds time = costs_.prefill(tokens);
  run_.prefill += time;
  run_.time += time;
}

/// Lets sequences run again whose calls have ended.
void EngineClock::take_back() {
  double tokens = 0;
  for (std::size_t i = 0; i < away_.size();) {
    Sequence s = away_[i];
    if (s.back > run_.time) {
      ++i;
      continue;
    }
    away_.erase(away_.begin() + static_cast<std::ptrdiff_t>(i));
    s.added += limits_.call_tokens;
    if (s.has_cache) {
      tokens += limits_.call_tokens;
      start(s);
    } else {
      s.has_cache = true;
      waiting_.push_front(s);
    }
  }
  spend_prefill(tokens);
}

void EngineClock::admit() {
  if (waiting_.empty() || running_.size() + away_.size() >= static_cast<std::size_t>(limits_.most_sequences)) return;
  Bytes cache = cache_after(limits_.reserved_tokens);
  double tokens = 0;
  while (!waiting_.empty() && running_.size() + away_.size() < static_cast<std::size_t>(limits_.most_sequences)) {
    const Sequence& next = waiting_.front();
    const std::size_t prompt = answers_[next.index].prompt;
    const bool shares = prompts_.contains(prompt);
    const Bytes grown = cache + own_cache(next, limits_.reserved_tokens) + (shares ? Bytes{} : prompt_cache_);
    if (grown > costs_.room() && is_generating()) {
      ++run_.refusals;
      break;
    }
    cache = grown;
    tokens += next.generated + next.added + (shares ? 0 : limits_.prompt_tokens);
    ++prompts_[prompt];
    if (next.generated == 0) run_.starts[next.index] = run_.time;
    start(next);
    waiting_.pop_front();
  }
  spend_prefill(tokens);
}

/// Adds a sequence to those that run.
void EngineClock::start(const Sequence& s) {
  least_next_ = std::min(least_next_, to_next_call(s));
  running_.push_back(s);
}

double EngineClock::preempt_until_it_fits() {
  fitted_steps_ = next_steps();
  fitted_cache_ = cache_after(fitted_steps_);
  while (running_.size() > 1 && fitted_cache_ > costs_.room()) {
    leave(answers_[running_.back().index].prompt);
    waiting_.push_front(running_.back());
    running_.pop_back();
    ++run_.preemptions;
    least_next_ = std::numeric_limits<double>::infinity();
    for (const Sequence& s : running_) least_next_ = std::min(least_next_, to_next_call(s));
    fitted_steps_ = next_steps();
    fitted_cache_ = cache_after(fitted_steps_);
  }
  for (auto s = away_.rbegin(); s != away_.rend() && fitted_cache_ > costs_.room(); ++s) {
    if (!s->has_cache) continue;
    s->has_cache = false;
    leave(answers_[s->index].prompt);
    ++run_.preemptions;
    fitted_cache_ = cache_after(fitted_steps_);
  }
  return fitted_steps_;
}

void EngineClock::plan_part() {
  if (part_.exists) return;
  part_begin_ = run_.time;
  take_back();
  if (open_) admit();
  part_ = {run_.time, run_.time, 0, {}, true};
  Seconds back{std::numeric_limits<double>::infinity()};
  for (const Sequence& s : away_) back = std::min(back, s.back);
  if (running_.empty()) {
    part_.end = back;
    return;
  }
  part_.steps = preempt_until_it_fits();
  double contexts = 0;
  for (const Sequence& s : running_) contexts += context(s);
  const auto batch = static_cast<double>(running_.size());
  // The mean context of these steps: the first one sees it as it is now, the last one `steps` - 1 tokens more.
  part_.step = costs_.decode(static_cast<int>(running_.size()), contexts / batch + (part_.steps - 1) / 2);
  const Seconds step = part_.step.sum();
  if (back < part_.begin + part_.steps * step)
    part_.steps = std::clamp(std::ceil((back - part_.begin) / step), 1.0, part_.steps);
  part_.end = part_.begin + part_.steps * step;
}

Seconds EngineClock::next_end() {
  plan_part();
  return part_.end;
}

void EngineClock::call_tool(Sequence& s) {
  Seconds begin = run_.time;
  const Seconds length = answers_[s.index].calls[s.calls++];
  if (!free_sandboxes_.empty()) {
    Seconds& sandbox = *std::ranges::min_element(free_sandboxes_);
    begin = std::max(begin, sandbox);
    sandbox = begin + length;
  }
  s.back = begin + length;
  away_.push_back(s);
}

std::vector<std::size_t> EngineClock::advance() {
  plan_part();
  const Part part = std::exchange(part_, {});
  std::vector<std::size_t> ended;
  if (running_.empty()) {
    run_.call_wait += part.end - run_.time;
    run_.time = part.end;
    return ended;
  }
  const std::size_t batch_size = running_.size();
  const auto batch = static_cast<double>(batch_size);
  run_.cache_peak = std::max(run_.cache_peak, part.steps == fitted_steps_ ? fitted_cache_ : cache_after(part.steps));
  run_.token_seconds += (in_flight_ + batch * part.steps / 2) * (part.steps * part.step.sum().value);
  in_flight_ += part.steps * batch;
  run_.decode.products += part.steps * part.step.products;
  run_.decode.cache += part.steps * part.step.cache;
  run_.decode.exchanges += part.steps * part.step.exchanges;
  run_.decode.host += part.steps * part.step.host;
  run_.time += part.steps * part.step.sum();
  run_.steps += part.steps;
  run_.tokens += part.steps * batch;
  std::size_t going = 0;  // sequences that go on, moved to the front
  least_next_ = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < batch_size; ++i) {
    Sequence& s = running_[i];
    s.generated += part.steps;
    s.remaining -= part.steps;
    if (s.remaining <= 0) {
      run_.ends[s.index] = run_.time;
      leave(answers_[s.index].prompt);
      ended.push_back(s.index);
      in_flight_ -= s.generated;
      continue;
    }
    const double next = to_next_call(s);
    if (s.calls < s.most_calls && next <= 0) {
      call_tool(s);
    } else {
      least_next_ = std::min(least_next_, next);
      if (going != i) running_[going] = s;
      ++going;
    }
  }
  running_.resize(going);
  return ended;
}

std::vector<std::size_t> EngineClock::advance_to(Seconds time) {
  plan_part();
  if (time < part_.end) {
    const bool decodes = !running_.empty();
    if (decodes) part_.steps = std::clamp(std::ceil((time - part_.begin) / part_.step.sum()), 0.0, part_.steps);
    part_.end = decodes ? part_.begin + part_.steps * part_.step.sum() : std::max(time, part_.begin);
  }
  return advance();
}

void EngineClock::give_up_cache() {
  for (auto s = running_.rbegin(); s != running_.rend(); ++s) waiting_.push_front(*s);
  running_.clear();
  least_next_ = std::numeric_limits<double>::infinity();
  for (Sequence& s : away_) s.has_cache = false;
  prompts_.clear();
}

EngineRun run_engine(const GenerationCosts& costs, const std::vector<PlannedAnswer>& answers,
                     const EngineLimits& limits, Seconds most) {
  EngineClock clock(costs, limits);
  for (const PlannedAnswer& answer : answers) clock.add(answer);
  while (clock.has_work() && clock.next_end() <= most) clock.advance();
  if (clock.has_work() && clock.run().time < most) clock.advance_to(most);
  return clock.run();
}

}  // namespace trainyard
