#include "scenarios/src/post_training/asynchrony.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "sim/covered_time.hpp"

namespace trainyard {
namespace {

/// The mean is taken over at least so many steps, and over more until the loop has settled. After the last of them, it is
/// called unsettled.
constexpr int kFewestSteps = 8, kMostSteps = 96;
/// Largest share by which the work of engines and sandboxes in the measured steps may differ from that of the answers that
/// these steps train on.
constexpr double kSettled = 0.002;

/// The loop from its first policy on. A policy is counted by the steps of training before it.
class LoopClock {
 public:
  LoopClock(const GenerationCosts& costs, const EngineLimits& limits, const AsynchronousLoop& loop)
      : loop_(loop), warm_steps_(2 + 2 * static_cast<int>(std::ceil(loop.staleness))) {
    const auto engines = static_cast<std::size_t>(loop.engines);
    for (std::size_t e = 0; e < engines; ++e) engines_.emplace_back(costs, limits_of_engine(limits, e, engines));
    numbers_.resize(engines_.size());
    for (const PlannedAnswer& answer : loop.answers) {
      step_tokens_ += answer.tokens;
      const std::size_t calls = std::min(answer.calls.size(), most_calls(answer));
      for (std::size_t i = 0; i < calls; ++i) step_calls_ += answer.calls[i];
    }
    records_.push_back(record());
  }

  AsynchronousRun run() {
    release();
    while (!has_settled()) {
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
  int warm_steps_, policy_ = 0, checked_ = -1;
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
  /// Sums until the begin of a policy, over all engines.
  struct Record {
    EngineRun engines;
    Bytes cache_peak;  ///< largest in the step before
    Seconds waiting;   ///< that of the step before
    double mixed = 0;
    std::map<std::uint32_t, std::uint64_t>
        staleness;  ///< number of answers that training has taken, by their staleness
  };
  double step_tokens_ = 0;  ///< tokens of the answers of a step
  Seconds step_calls_;      ///< time of their calls, one after another
  Seconds waiting_;
  double mixed_ = 0;
  std::map<std::uint32_t, std::uint64_t> staleness_;
  std::vector<Record> records_;  ///< indexed by policy
  std::vector<Interval> intervals_;
  int first_ = 0;         ///< policy with which the measured steps begin
  double unsettled_ = 0;  ///< largest share by which work of these steps differs from that of their answers

  /// Returns by which share work between two policies differs from that of as many steps: of tokens or of calls, whichever
  /// differs more.
  double difference(const Record& first, const Record& last, int steps) const {
    const double tokens = (last.engines.tokens - first.engines.tokens) / (steps * step_tokens_) - 1;
    const double calls =
        step_calls_.value > 0 ? (last.engines.call_time - first.engines.call_time) / (steps * step_calls_) - 1 : 0;
    return std::max(std::abs(tokens), std::abs(calls));
  }

  /// Returns true when some last steps of at least `kFewestSteps` have done the work of their answers, and chooses the most
  /// such steps. After `kMostSteps`, chooses those that differ least.
  bool has_settled() {
    if (policy_ < warm_steps_ + kFewestSteps || checked_ == policy_) return false;
    checked_ = policy_;
    unsettled_ = std::numeric_limits<double>::infinity();
    for (int first = warm_steps_; first <= policy_ - kFewestSteps; ++first) {
      const double share = difference(records_[static_cast<std::size_t>(first)], records_.back(), policy_ - first);
      if (share < unsettled_) {
        unsettled_ = share;
        first_ = first;
      }
      if (share <= kSettled) return true;
    }
    return policy_ >= warm_steps_ + kMostSteps;
  }

  Record record() {
    Record now{{}, {}, std::exchange(waiting_, Seconds{}), mixed_, staleness_};
    for (EngineClock& engine : engines_) {
      now.engines.add(engine.run());
      now.cache_peak = std::max(now.cache_peak, engine.run().cache_peak);
      engine.restart_cache_peak();
    }
    return now;
  }

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
    if (end > begin) intervals_.push_back({begin, end});
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
    waiting_ += begin - idle_since_ + loop_.fetch / parts;
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
    if (policies.last > policies.first) mixed_ += 1;
    ++staleness_[static_cast<std::uint32_t>(policy_ - policies.first)];
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
    waiting_ += begin - *training_end_;
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
    records_.push_back(record());
    release();
  }

  AsynchronousRun result() const {
    const Record &first = records_[static_cast<std::size_t>(first_)], &last = records_.back();
    const double steps = policy_ - first_;
    const Seconds begin = publications_[static_cast<std::size_t>(first_)];
    AsynchronousRun run;
    run.unsettled = unsettled_ > kSettled ? unsettled_ : 0;
    run.step = (publications_.back() - begin) / steps;
    // Equal steps have this very mean, without an error of rounding.
    run.waiting = records_[static_cast<std::size_t>(first_) + 1].waiting;
    for (auto record = records_.begin() + first_ + 1; record != records_.end(); ++record)
      run.waiting += (record->waiting - records_[static_cast<std::size_t>(first_) + 1].waiting) / steps;
    std::vector<Interval> intervals;
    for (const Interval& interval : intervals_)
      if (interval.begin >= begin) intervals.push_back(interval);
    std::ranges::sort(intervals, {}, &Interval::end);
    CoveredTime generation;
    for (const Interval& interval : intervals) generation.cover(interval.begin.value, interval.end.value);
    run.generation.value = generation.total() / steps;
    run.engines = last.engines.mean_since(first.engines, steps);
    for (auto record = records_.begin() + first_ + 1; record != records_.end(); ++record)
      run.engines.cache_peak = std::max(run.engines.cache_peak, record->cache_peak);
    run.preemptions = static_cast<double>(run.engines.preemptions) / steps;
    std::vector<const EngineRun*> runs;
    for (const EngineClock& engine : engines_) runs.push_back(&engine.run());
    run.answers = answer_times(runs, begin);
    run.busy_share = run.engines.busy() / (run.step * static_cast<double>(engines_.size()));
    double answers = 0;
    for (const auto& [staleness, count] : last.staleness) {
      const auto before = first.staleness.find(staleness);
      const std::uint64_t taken = count - (before == first.staleness.end() ? 0 : before->second);
      if (taken == 0) continue;
      run.staleness[staleness] = taken;
      run.most_staleness = static_cast<int>(staleness);
      run.mean_staleness += static_cast<double>(taken) * staleness;
      answers += static_cast<double>(taken);
    }
    run.mean_staleness /= answers;
    run.mixed_share = (last.mixed - first.mixed) / answers;
    return run;
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
