#include "scenarios/src/post_training/engine_run.hpp"

#include <cmath>
#include <utility>

namespace trainyard {

EngineClock::EngineClock(const GenerationCosts& costs, const EngineLimits& limits)
    : costs_(costs),
      limits_(limits),
      prompt_cache_(costs.cache(limits.prompt_tokens)),
      states_(costs.states()),
      free_sandboxes_(static_cast<std::size_t>(limits.sandboxes)) {
  run_.request = limits.request;
}

std::size_t EngineClock::add(const PlannedAnswer& answer) {
  Sequence sequence;
  sequence.index = answers_.size();
  sequence.remaining = answer.tokens;
  waiting_.push_back(sequence);
  answers_.push_back(answer);
  if (answer.calls.size() > most_calls(answer)) answers_.back().calls.resize(most_calls(answer));
  has_calls_ = has_calls_ || !answers_.back().calls.empty();
  run_.starts.emplace_back();
  run_.ends.emplace_back();
  run_.first_tokens.emplace_back();
  run_.arrivals.push_back(run_.time);
  run_.answer_tokens.push_back(answer.tokens);
  return sequence.index;
}

/// Returns the number of tokens until the next call, or until the end of the answer.
double EngineClock::to_next_call(const Sequence& s) const {
  if (!has_calls_) return s.remaining;
  const std::vector<Seconds>& calls = answers_[s.index].calls;
  if (s.calls >= calls.size()) return s.remaining;
  const auto parts = static_cast<double>(calls.size() + 1), until_call = static_cast<double>(s.calls + 1);
  return std::floor(answers_[s.index].tokens * until_call / parts) - s.generated;
}

/// Returns the bytes of a sequence's states, and of its keys and values besides those of its prompt, after `ahead`
/// further tokens.
Bytes EngineClock::own_cache(const Sequence& s, double ahead) const {
  const double more = std::min(ahead, s.remaining);
  return states_ + costs_.cache(context(s) + more) - prompt_cache_;
}

/// Returns the bytes for which there must be room before the sequence is admitted, besides those of its prompt.
Bytes EngineClock::admission_cache(const Sequence& s) const {
  if (limits_.whole_answer == 0) return own_cache(s, limits_.reserved_tokens);
  return states_ + costs_.cache(limits_.whole_answer) - prompt_cache_;
}

/// Returns the bytes that the admitted sequences may need before the next one is admitted.
Bytes EngineClock::cache_of_admitted() const {
  if (limits_.whole_answer == 0) return cache_after(limits_.reserved_tokens);
  return static_cast<double>(prompts_.size()) * prompt_cache_ +
         static_cast<double>(admitted()) * admission_cache(Sequence{});
}

/// Returns the bytes of keys, values and states of all sequences after `ahead` further tokens of each running one.
Bytes EngineClock::cache_after(double ahead) const {
  Bytes all = static_cast<double>(prompts_.size()) * prompt_cache_;
  for (const Sequence& s : running_) all += own_cache(s, ahead);
  for (const Sequence& s : prefilling_) all += own_cache(s, ahead);
  for (const Sequence& s : away_)
    if (s.has_cache) all += own_cache(s, 0);
  return all;
}

void EngineClock::leave(std::size_t prompt) {
  if (--prompts_.at(prompt) == 0) prompts_.erase(prompt);
}

/// Gives a sequence the token that comes at `time` with the last of its keys and values.
void EngineClock::take_token(Sequence& s, Seconds time) {
  if (to_next_call(s) < 1) return;
  if (s.generated == 0) run_.first_tokens[s.index] = time;
  s.generated += 1;
  s.remaining -= 1;
  run_.tokens += 1;
  run_.prefill_tokens += 1;
  in_flight_ += 1;
}

/// Adds `tokens` of the waiting tokens of a sequence to those of a pass, whose `length` and `before` are sums until
/// `means_of` divides them.
void EngineClock::add_prompt(PromptTokens& prompts, const Sequence& s, double tokens) const {
  prompts.count += tokens;
  prompts.length += tokens * tokens;
  prompts.before += tokens * (context(s) - s.pending);
}

/// Returns `count` of those tokens.
PromptTokens EngineClock::means_of(const PromptTokens& sums, double count) {
  return {count, sums.length / sums.count, sums.before / sums.count};
}

/// Computes the waiting tokens of all sequences that start, in passes of their own.
void EngineClock::spend_prefill() {
  PromptTokens prompts;
  for (const Sequence& s : running_) add_prompt(prompts, s, s.pending);
  const double all = prompts.count;
  const Seconds begin = run_.time;
  double computed = 0, end_of_pass = 0, recomputed = 0;
  Seconds end = begin;
  for (Sequence& s : running_) {
    if (!std::exchange(s.starts, false) || all == 0) continue;
    if (s.is_recomputed) recomputed += s.pending;
    computed += std::exchange(s.pending, 0);
    if (computed > end_of_pass) {
      end_of_pass = limits_.pass_tokens > 0
                        ? std::min(all, std::ceil(computed / limits_.pass_tokens) * limits_.pass_tokens)
                        : all;
      end = begin + costs_.prefill(means_of(prompts, end_of_pass));
    }
    take_token(s, end);
  }
  run_.prefill += end - begin;
  if (recomputed > 0) run_.recomputed += recomputed / all * (end - begin);
  run_.time = end;
}

/// Lets a sequence run as soon as `tokens` tokens are computed.
void EngineClock::start(Sequence s, double tokens) {
  s.pending = tokens;
  s.starts = true;
  if (limits_.chunk > 0)
    prefilling_.push_back(s);
  else
    running_.push_back(s);
}

/// Lets those sequences run that no chunk has to precede.
void EngineClock::run_computed() {
  while (!prefilling_.empty() && prefilling_.front().pending <= 0) {
    running_.push_back(prefilling_.front());
    prefilling_.pop_front();
  }
}

/// Lets sequences run again whose calls have ended.
void EngineClock::take_back() {
  for (std::size_t i = 0; i < away_.size();) {
    Sequence s = away_[i];
    if (s.back > run_.time) {
      ++i;
      continue;
    }
    away_.erase(away_.begin() + static_cast<std::ptrdiff_t>(i));
    run_.call_time += answers_[s.index].calls[s.calls - 1];
    s.added += limits_.call_tokens;
    s.is_recomputed = false;
    if (s.has_cache) {
      if (limits_.call_tokens > 0)
        start(s, limits_.call_tokens);
      else
        running_.push_back(s);
    } else {
      s.has_cache = true;
      waiting_.push_front(s);
    }
  }
  if (limits_.chunk == 0) spend_prefill();
}

void EngineClock::admit() {
  if (waiting_.empty() || admitted() >= static_cast<std::size_t>(limits_.most_sequences)) return;
  Bytes cache = cache_of_admitted();
  while (!waiting_.empty() && admitted() < static_cast<std::size_t>(limits_.most_sequences)) {
    const Sequence& next = waiting_.front();
    const std::size_t prompt = answers_[next.index].prompt;
    const bool shares = prompts_.contains(prompt);
    const Bytes grown = cache + admission_cache(next) + (shares ? Bytes{} : prompt_cache_);
    if (grown > costs_.room() && is_generating()) {
      ++run_.refusals;
      break;
    }
    cache = grown;
    const double uncomputed = next.generated + next.added + (shares ? 0 : limits_.prompt_tokens);
    ++prompts_[prompt];
    if (next.generated == 0) run_.starts[next.index] = run_.time;
    Sequence admitted_next = next;
    admitted_next.is_recomputed = next.generated > 0;
    start(admitted_next, uncomputed);
    waiting_.pop_front();
  }
  if (limits_.chunk == 0) spend_prefill();
}

/// Returns the number of decode steps until the next end or call, at most `reserved_tokens`; 1 beside a chunk.
double EngineClock::next_steps() const {
  double steps = prefilling_.empty() ? limits_.reserved_tokens : 1;
  for (const Sequence& s : running_) steps = std::min(steps, to_next_call(s));
  return steps;
}

/// Returns true if the next steps need more memory than the cache has. Notes the bytes for the planned part.
bool EngineClock::exceeds_room() {
  part_.counted_steps = next_steps();
  part_.cache = cache_after(part_.counted_steps);
  return part_.cache > costs_.room();
}

void EngineClock::preempt_until_it_fits() {
  while (running_.size() + prefilling_.size() > 1 && exceeds_room()) {
    const Sequence youngest = prefilling_.empty() ? running_.back() : prefilling_.back();
    leave(answers_[youngest.index].prompt);
    waiting_.push_front(youngest);
    if (prefilling_.empty())
      running_.pop_back();
    else
      prefilling_.pop_back();
    ++run_.preemptions;
    part_.counted_steps = -1;
  }
  for (auto s = away_.rbegin(); s != away_.rend() && exceeds_room(); ++s) {
    if (!s->has_cache) continue;
    s->has_cache = false;
    leave(answers_[s->index].prompt);
    ++run_.preemptions;
    part_.counted_steps = -1;
  }
}

void EngineClock::plan_part() {
  if (part_.exists) return;
  part_begin_ = run_.time;
  take_back();
  if (open_) admit();
  run_computed();
  part_ = {};
  part_.begin = part_.end = run_.time;
  part_.exists = true;
  Seconds back{std::numeric_limits<double>::infinity()};
  for (const Sequence& s : away_) back = std::min(back, s.back);
  if (running_.empty() && prefilling_.empty()) {
    part_.end = back;
    return;
  }
  // Answers that the pass of their prompt has ended leave first, in a part without steps.
  const bool has_steps = next_steps() > 0;
  if (has_steps) preempt_until_it_fits();
  if (has_steps && !prefilling_.empty()) return plan_chunk();
  part_.steps = part_.counted_steps >= 0 ? part_.counted_steps : next_steps();
  double contexts = 0;
  for (const Sequence& s : running_) contexts += context(s);
  const auto batch = static_cast<double>(running_.size());
  // The mean context of these steps: the first one sees it as it is now, the last one `steps` - 1 tokens more.
  part_.step = costs_.decode(static_cast<int>(running_.size()), contexts / batch + (part_.steps - 1) / 2);
  const Seconds step = part_.step.sum();
  if (has_steps && back < part_.begin + part_.steps * step)
    part_.steps = std::clamp(std::ceil((back - part_.begin) / step), 1.0, part_.steps);
  part_.end = part_.begin + part_.steps * step;
}

/// Plans one step with the next tokens of prompts.
void EngineClock::plan_chunk() {
  const double batch = static_cast<double>(running_.size()), room = std::max(1.0, limits_.chunk - batch);
  double contexts = 0;
  PromptTokens prompts;
  double recomputed = 0;
  for (const Sequence& s : running_) contexts += context(s);
  for (const Sequence& s : prefilling_) {
    const double tokens = std::min(s.pending, room - prompts.count);
    add_prompt(prompts, s, tokens);
    if (s.is_recomputed) recomputed += tokens;
    if (prompts.count >= room) break;
  }
  recomputed_share_ = recomputed / prompts.count;
  if (!running_.empty()) {
    part_.steps = 1;
    part_.step = costs_.decode(static_cast<int>(running_.size()), contexts / batch);
  }
  part_.prompt_tokens = prompts.count;
  part_.prefill = costs_.prefill_beside(static_cast<int>(running_.size()), means_of(prompts, prompts.count));
  part_.end = part_.begin + part_.steps * part_.step.sum() + part_.prefill;
}

/// Takes the tokens that a chunk has computed off the sequences that wait for them.
void EngineClock::compute_chunk(double tokens) {
  if (tokens == 0) return;
  for (Sequence& s : prefilling_) {
    const double part = std::min(s.pending, tokens);
    s.pending -= part;
    tokens -= part;
    if (s.pending > 0) break;
    take_token(s, run_.time);
  }
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
  if (running_.empty() && part.prompt_tokens == 0) {
    run_.call_wait += part.end - run_.time;
    run_.time = part.end;
    return ended;
  }
  const auto batch = static_cast<double>(running_.size());
  run_.cache_peak = std::max(run_.cache_peak, part.counted_steps == part.steps ? part.cache : cache_after(part.steps));
  run_.prefill += part.prefill;
  if (part.prompt_tokens > 0) run_.recomputed += recomputed_share_ * part.prefill;
  run_.time += part.prefill;
  const Seconds first_token = run_.time + part.step.sum();
  run_.token_seconds += (in_flight_ + batch * part.steps / 2) * (part.steps * part.step.sum().value);
  run_.decode.products += part.steps * part.step.products;
  run_.decode.cache += part.steps * part.step.cache;
  run_.decode.exchanges += part.steps * part.step.exchanges;
  run_.decode.host += part.steps * part.step.host;
  run_.time += part.steps * part.step.sum();
  run_.steps += part.steps;
  run_.tokens += part.steps * batch;
  in_flight_ += part.steps * batch;
  compute_chunk(part.prompt_tokens);
  std::size_t still = 0;  // sequences that go on, which move to the front
  for (Sequence& s : running_) {
    if (s.generated == 0) run_.first_tokens[s.index] = first_token;
    s.generated += part.steps;
    s.remaining -= part.steps;
    if (s.remaining <= 0) {
      run_.ends[s.index] = run_.time;
      leave(answers_[s.index].prompt);
      ended.push_back(s.index);
      in_flight_ -= s.generated;
    } else if (has_calls_ && s.calls < answers_[s.index].calls.size() && to_next_call(s) <= 0) {
      call_tool(s);
    } else {
      if (&running_[still] != &s) running_[still] = s;
      ++still;
    }
  }
  running_.resize(still);
  return ended;
}

std::vector<std::size_t> EngineClock::advance_to(Seconds time) {
  plan_part();
  if (time < part_.end && part_.prompt_tokens == 0) {
    const bool decodes = !running_.empty();
    if (decodes) part_.steps = std::clamp(std::ceil((time - part_.begin) / part_.step.sum()), 0.0, part_.steps);
    part_.end = decodes ? part_.begin + part_.steps * part_.step.sum() : std::max(time, part_.begin);
  }
  return advance();
}

void EngineClock::give_up_cache() {
  for (auto s = prefilling_.rbegin(); s != prefilling_.rend(); ++s) waiting_.push_front(*s);
  for (auto s = running_.rbegin(); s != running_.rend(); ++s) waiting_.push_front(*s);
  prefilling_.clear();
  running_.clear();
  for (Sequence& s : away_) s.has_cache = false;
  prompts_.clear();
}

EngineRun run_engine_for(const GenerationCosts& costs, const std::vector<PlannedAnswer>& answers,
                         const EngineLimits& limits, std::size_t concurrency) {
  EngineClock clock(costs, limits);
  std::size_t next = 0;
  const auto add = [&](std::size_t count) {
    for (; count > 0 && next < answers.size(); --count) clock.add(answers[next++]);
  };
  add(concurrency == 0 ? answers.size() : concurrency);
  while (clock.has_work()) add(clock.advance().size());
  return clock.run();
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
