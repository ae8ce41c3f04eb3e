#include "scenarios/src/post_training/asynchrony.hpp"

#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "sim/covered_time.hpp"

namespace trainyard {
namespace {

constexpr int kMeasuredSteps = 8;  ///< steps over which the mean is taken

/// The loop from its first policy on. A policy is counted by the steps of training before it.
class LoopClock {
 public:
  LoopClock(const GenerationCosts& costs, const EngineLimits& limits, const AsynchronousLoop& loop)
      : loop_(loop), warm_steps_(2 + 2 * static_cast<int>(std::ceil(loop.staleness))) {
    const auto engines = static_cast<std::size_t>(loop.engines);
    for (std::size_t e = 0; e < engines; ++e) engines_.emplace_back(costs, limits_of_engine(limits, e, engines));
    numbers_.resize(engines_.size());
  }

  AsynchronousRun run() {
    release();
    while (policy_ < warm_steps_ + kMeasuredSteps) {
      if (!training_end_ && has_groups()) begin_training();
      const std::optional<std::size_t> next = next_engine();
      const bool trains = training_end_ && !is_draining_;
      if (trains && (!next || *training_end_ <= engines_[*next].next_end()))
        end_training();
      else if (next)
        advance(*next, {});
      if (is_draining_ && !is_generating()) transfer_weights();
    }
    return result();
  }

 private:
  /// The policies that begin and end an answer.
  struct AnswerPolicies {
    int first = 0, last = 0;
  };
  struct Interval {
    Seconds begin, end;
  };

  const AsynchronousLoop& loop_;
  int warm_steps_, policy_ = 0;
  std::vector<EngineClock> engines_;
  std::vector<std::vector<std::size_t>> numbers_;  // indexed by engine: number of each of its answers in the whole loop
  std::vector<std::size_t> unfinished_;            // indexed by group: answers that have not ended
  std::vector<std::vector<AnswerPolicies>> policies_;  // indexed by group: those of its ended answers
  std::set<std::size_t> ready_by_number_;              // groups that have ended and are not trained on
  std::vector<std::size_t> ready_by_end_;
  std::size_t trained_ = 0, released_ = 0;
  std::size_t part_ = 0;                          // parts of this step that are trained on
  std::vector<Seconds> publications_{Seconds{}};  // begin of each policy
  std::optional<Seconds> training_end_;
  bool is_draining_ = false;
  Seconds now_, idle_since_;
  // The steps that count:
  AsynchronousRun sums_;
  std::vector<EngineRun> before_;
  std::vector<Interval> intervals_;
  double staleness_sum_ = 0, mixed_ = 0, answers_taken_ = 0;

  bool counts() const { return policy_ >= warm_steps_; }

  bool is_generating() const {
    return std::ranges::any_of(engines_, [](const EngineClock& e) { return e.is_generating(); });
  }

  std::optional<std::size_t> next_engine() {
    std::optional<std::size_t> first;
    for (std::size_t e = 0; e < engines_.size(); ++e) {
      if (is_draining_ ? !engines_[e].is_generating() : !engines_[e].has_work()) continue;
      if (!first || engines_[e].next_end() < engines_[*first].next_end()) first = e;
    }
    return first;
  }

  /// Lets engines start the groups that the present policy allows.
  void release() {
    const auto groups = static_cast<double>(loop_.groups);
    const auto most = static_cast<std::size_t>(std::floor((policy_ + 1 + loop_.staleness) * groups + 1e-9));
    const std::size_t group_answers = loop_.answers.size() / loop_.groups, count = (most - released_) * group_answers;
    std::vector<std::size_t> unfinished;
    for (const EngineClock& engine : engines_) unfinished.push_back(engine.unfinished());
    const std::vector<std::size_t> shares = levelled_shares(unfinished, count);
    std::size_t number = released_ * group_answers;
    for (std::size_t e = 0; e < engines_.size(); ++e)
      for (std::size_t i = 0; i < shares[e]; ++i, ++number) {
        PlannedAnswer answer = loop_.answers[number % loop_.answers.size()];
        answer.prompt = loop_.prefix_sharing ? number / group_answers : number;
        engines_[e].add(answer);
        numbers_[e].push_back(number);
      }
    released_ = most;
    unfinished_.resize(released_, group_answers);
    policies_.resize(released_);
  }

  int policy_at(Seconds time) const {
    return static_cast<int>(std::ranges::upper_bound(publications_, time) - publications_.begin()) - 1;
  }

  /// Runs the next part of an engine, at most to the decode step in progress at `most`.
  void advance(std::size_t e, std::optional<Seconds> most) {
    EngineClock& engine = engines_[e];
    const std::vector<std::size_t> ended = most ? engine.advance_to(*most) : engine.advance();
    const Seconds begin = engine.part_begin(), end = engine.run().time;
    now_ = std::max(now_, end);
    if (counts() && end > begin) intervals_.push_back({begin, end});
    for (const std::size_t index : ended) {
      const std::size_t group = numbers_[e][index] / (loop_.answers.size() / loop_.groups);
      policies_[group].push_back({policy_at(engine.run().starts[index]), policy_});
      if (--unfinished_[group] > 0) continue;
      ready_by_end_.push_back(group);
      ready_by_number_.insert(group);
    }
  }

  std::size_t groups_of_part() const { return loop_.groups / loop_.parts; }

  bool has_groups() const {
    const std::size_t groups = groups_of_part();
    if (ready_by_end_.size() < groups) return false;
    // By start, all groups up to this number must have ended.
    const std::size_t last = trained_ + groups - 1;
    return !loop_.by_start || *std::next(ready_by_number_.begin(), static_cast<std::ptrdiff_t>(groups - 1)) == last;
  }

  void begin_training() {
    const Seconds begin = std::max(now_, idle_since_);
    const auto parts = static_cast<double>(loop_.parts);
    if (counts()) sums_.waiting += begin - idle_since_ + loop_.fetch / parts;
    const std::size_t groups = groups_of_part();
    for (std::size_t i = 0; i < groups; ++i) {
      const std::size_t group = loop_.by_start ? *ready_by_number_.begin() : ready_by_end_[i];
      ready_by_number_.erase(group);
      for (const AnswerPolicies& policies : policies_[group]) take_answer(policies);
      policies_[group] = {};
    }
    if (loop_.by_start)
      std::erase_if(ready_by_end_, [&](std::size_t group) { return !ready_by_number_.contains(group); });
    else
      ready_by_end_.erase(ready_by_end_.begin(), ready_by_end_.begin() + static_cast<std::ptrdiff_t>(groups));
    trained_ += groups;
    training_end_ = begin + (loop_.fetch + loop_.training_half) / parts;
  }

  void take_answer(const AnswerPolicies& policies) {
    if (!counts()) return;
    const int staleness = policy_ - policies.first;
    answers_taken_ += 1;
    staleness_sum_ += staleness;
    if (policies.last > policies.first) mixed_ += 1;
    ++sums_.staleness[static_cast<std::uint32_t>(staleness)];
    sums_.most_staleness = std::max(sums_.most_staleness, staleness);
  }

  /// Ends a part of a step of training. At the end of the step, stops the engines, or closes their admission.
  void end_training() {
    const Seconds end = *training_end_;
    now_ = std::max(now_, end);
    if (++part_ < loop_.parts) {
      idle_since_ = end;
      training_end_.reset();
      return;
    }
    part_ = 0;
    is_draining_ = true;
    for (std::size_t e = 0; e < engines_.size(); ++e) {
      if (!loop_.partial_rollouts)
        engines_[e].set_open(false);
      else if (engines_[e].has_work())
        advance(e, end);
    }
    if (loop_.partial_rollouts) transfer_weights();
  }

  void transfer_weights() {
    Seconds begin = *training_end_;
    for (const EngineClock& engine : engines_) begin = std::max(begin, engine.run().time);
    const Seconds end = begin + loop_.weights;
    if (counts()) sums_.waiting += begin - *training_end_;
    for (EngineClock& engine : engines_) {
      engine.wait_until(end);
      engine.set_open(true);
      engine.give_up_cache();
    }
    now_ = idle_since_ = end;
    training_end_.reset();
    is_draining_ = false;
    publications_.push_back(end);
    ++policy_;
    if (policy_ == warm_steps_)
      for (EngineClock& engine : engines_) {
        engine.restart_cache_peak();
        before_.push_back(engine.run());
      }
    release();
  }

  AsynchronousRun result() {
    const auto steps = static_cast<double>(kMeasuredSteps);
    sums_.step = (publications_.back() - publications_[static_cast<std::size_t>(warm_steps_)]) / steps;
    sums_.waiting = sums_.waiting / steps;
    std::ranges::sort(intervals_, {}, &Interval::end);
    CoveredTime generation;
    for (const Interval& interval : intervals_) generation.cover(interval.begin.value, interval.end.value);
    sums_.generation.value = generation.total() / steps;
    EngineRun& all = sums_.engines;
    for (std::size_t e = 0; e < engines_.size(); ++e) {
      const EngineRun &last = engines_[e].run(), &first = before_[e];
      all.prefill += (last.prefill - first.prefill) / steps;
      all.call_wait += (last.call_wait - first.call_wait) / steps;
      all.decode.products += (last.decode.products - first.decode.products) / steps;
      all.decode.cache += (last.decode.cache - first.decode.cache) / steps;
      all.decode.exchanges += (last.decode.exchanges - first.decode.exchanges) / steps;
      all.decode.host += (last.decode.host - first.decode.host) / steps;
      all.tokens += (last.tokens - first.tokens) / steps;
      all.token_seconds += (last.token_seconds - first.token_seconds) / steps;
      all.steps += (last.steps - first.steps) / steps;
      all.preemptions += last.preemptions - first.preemptions;
      all.refusals += last.refusals - first.refusals;
      all.cache_peak = std::max(all.cache_peak, last.cache_peak);
    }
    sums_.preemptions = static_cast<double>(all.preemptions) / steps;
    std::vector<const EngineRun*> runs;
    for (const EngineClock& engine : engines_) runs.push_back(&engine.run());
    sums_.answers = answer_times(runs, publications_[static_cast<std::size_t>(warm_steps_)]);
    sums_.busy_share = all.busy() / (sums_.step * static_cast<double>(engines_.size()));
    sums_.mean_staleness = staleness_sum_ / answers_taken_;
    sums_.mixed_share = mixed_ / answers_taken_;
    return sums_;
  }
};

}  // namespace

std::vector<std::size_t> levelled_shares(const std::vector<std::size_t>& unfinished, std::size_t answers) {
  const std::size_t engines = unfinished.size();
  std::vector<std::size_t> shares(engines, 0);
  if (answers == 0) return shares;
  if (std::ranges::all_of(unfinished, [&](std::size_t n) { return n == unfinished.front(); })) {
    for (std::size_t i = 0; i < answers; ++i) ++shares[dealt_share(i, answers, engines)];
    return shares;
  }
  std::set<std::pair<std::size_t, std::size_t>> by_load;  // unfinished answers, engine
  for (std::size_t e = 0; e < engines; ++e) by_load.emplace(unfinished[e], e);
  for (std::size_t i = 0; i < answers; ++i) {
    auto node = by_load.extract(by_load.begin());
    ++node.value().first;
    ++shares[node.value().second];
    by_load.insert(std::move(node));
  }
  return shares;
}

AsynchronousRun run_asynchronous(const GenerationCosts& costs, const EngineLimits& limits,
                                 const AsynchronousLoop& loop) {
  return LoopClock(costs, limits, loop).run();
}

}  // namespace trainyard
