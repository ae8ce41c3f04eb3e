#include "strategies/failures/long_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "sim/error.hpp"
#include "sim/timer_queue.hpp"
#include "strategies/failures/long_run_parts.hpp"

namespace trainyard {
namespace {

/// Kinds of events, in the order in which simultaneous events take effect. A step that ends when something fails has
/// ended.
enum class EventKind : std::uint8_t { phase_ends, written, repaired, workers_return, prescribed_failure, fails };
struct LongRunEvent {
  EventKind what = EventKind::phase_ends;
  std::size_t number = 0;  // index of the prescribed failure, or number of workers
  auto operator<=>(const LongRunEvent&) const = default;
};

enum class JobState : std::uint8_t { training, stall, waits_for_write, down, waits_for_node, waits_for_workers, ended };

/// A training that has this many failures in a row without saving a further step never ends.
constexpr double kHopeless = 1e5;
/// Events that are closer than this relative distance are simultaneous.
constexpr double kEventRounding = 1e-12;

/// Computes the totals of a run that ends at `end`, from the work done and the times booked. `step` is the step time
/// of a complete machine, `partial` the time of the unfinished step. Throws InternalError unless the parts sum to the
/// end.
void settle(LongRunResult& r, const SavedWork& work, Seconds step, Seconds end, Seconds partial) {
  constexpr double kNothing = 1e-9, kRounding = 1e-6;  // fractions of the whole run
  r.end = end;
  r.steps = work.steps();
  r.useful = step * work.steps();
  r.slower = work.trained() + partial - r.useful;
  if (std::abs(r.slower.value) < kNothing * end.value) r.slower = Seconds{0};
  r.unfinished = partial;
  const Seconds sum = r.useful + r.slower + r.lost_work + r.stalled + r.down + r.without_node + r.without_workers;
  if (std::abs((sum - end).value) > kRounding * end.value)
    throw InternalError(fmt::format("a long run of {} s whose parts sum to {} s", end.value, sum.value));
}

class LongRun {
 public:
  explicit LongRun(const LongRunPlan& plan)
      : plan_(plan),
        drawn_(plan.parts, plan.draws),
        by_steps_(plan.failures),
        pool_(plan.nodes > 0 ? plan.nodes : plan.replicas, plan.replicas, plan.recovery.spares) {
    for (std::size_t i = 0; i < plan.failures.size(); ++i)
      if (!plan.failures[i].after_step) schedule(EventKind::prescribed_failure, plan.failures[i].time.value, i);
    result_.prescribed.resize(plan.failures.size());
  }

  LongRunResult run() {
    next_failure();
    go_on();
    while (phase_ != JobState::ended) {
      const double next = timers_.next();
      if (plan_.end_limit.value > 0 && (next < 0 || next > plan_.end_limit.value)) {
        now_ = plan_.end_limit.value;
        close();
        break;
      }
      if (next < 0)
        throw UserError(fmt::format("the training stands still after {}: no spare node is left, and none is repaired",
                                    show(Seconds{now_})));
      due_.clear();
      timers_.collect(next * (1 + kEventRounding), due_);
      now_ = next;
      std::ranges::sort(due_);
      for (const LongRunEvent& event : due_)
        if (phase_ != JobState::ended) handle(event);
    }
    return result_;
  }

 private:
  const LongRunPlan& plan_;
  TimerQueue<LongRunEvent> timers_;
  std::vector<LongRunEvent> due_;
  LongRunResult result_;
  JobState phase_ = JobState::training;
  double now_ = 0;
  double since_ = 0;  ///< beginning of the phase
  TimerId phase_timer_, write_timer_;
  bool phase_timed_ = false, writing_ = false;
  DrawnFailures drawn_;
  FailuresBySteps by_steps_;

  SavedWork work_;
  double target_ = 0;    ///< number of steps at which this interval of training ends
  double hopeless_ = 0;  ///< failures since the last progress
  NodePool pool_;
  bool must_load_ = false;  ///< true if the restart reads a checkpoint
  TrainingInterval interval_;
  // Asynchronous workers:
  int absent_workers_ = 0;  ///< workers that are absent while the others go on
  /// For each absent node, in the order of returns: its number of workers; 0: its failure stops all.
  std::deque<std::size_t> workers_of_absent_nodes_;

  TimerId schedule(EventKind what, double time, std::size_t number = 0) { return timers_.add(time, {what, number}); }
  double pace() const {
    const int replicas = workers_of_absent_nodes_.empty() && absent_workers_ == 0 ? std::max(1, pool_.replicas())
                                                                                  : plan_.replicas - absent_workers_;
    if (replicas == plan_.replicas) return plan_.step.value;
    return plan_.step_with ? plan_.step_with(replicas).value : plan_.step.value * plan_.replicas / replicas;
  }

  void handle(const LongRunEvent& event) {
    switch (event.what) {
      case EventKind::phase_ends:
        phase_timed_ = false;
        return end_phase();
      case EventKind::written:
        return end_write();
      case EventKind::repaired:
        return return_node();
      case EventKind::workers_return:
        return change_workers(-static_cast<int>(event.number));
      case EventKind::prescribed_failure:
        return fail_as_prescribed(event.number);
      case EventKind::fails: {
        const FailingParts& part = drawn_.part();
        next_failure();
        return fail({.time = Seconds{now_},
                     .part = part.name,
                     .takes_node = part.takes_node,
                     .workers = part.workers,
                     .survived = part.survived,
                     .redo = part.redo});
      }
    }
  }

  void next_failure() {
    if (drawn_.has_failures()) schedule(EventKind::fails, now_ + drawn_.next().value);
  }

  /// Begins a phase whose end is not known.
  void begin(JobState phase) {
    phase_ = phase;
    since_ = now_;
    phase_timed_ = false;
  }
  void enter(JobState phase, double duration) {
    begin(phase);
    phase_timer_ = schedule(EventKind::phase_ends, now_ + duration);
    phase_timed_ = true;
  }
  /// Ends the phase, and books its time.
  void leave() {
    const Seconds spent{now_ - since_};
    if (phase_ == JobState::stall || phase_ == JobState::waits_for_write) result_.stalled += spent;
    if (phase_ == JobState::down) result_.down += spent;
    if (phase_ == JobState::waits_for_node) result_.without_node += spent;
    if (phase_ == JobState::waits_for_workers) result_.without_workers += spent;
    if (phase_ == JobState::training) {
      // An interval that was not cut short ends with its last step, whatever the rounding of the clock.
      const bool cut_short = phase_timed_ || target_ == HUGE_VAL;
      const double remaining = target_ - work_.steps();
      const double ended = cut_short ? std::min(steps_under_way(), remaining) : remaining;
      work_.add_steps(ended, interval_.time_of(ended, pace()));
    }
    if (phase_timed_) timers_.cancel(phase_timer_);
    phase_timed_ = false;
  }

  /// Ends a phase of training, and returns the time of the unfinished step.
  Seconds leave_training() {
    const Seconds before = work_.since_snapshot(), spent{now_ - since_};
    leave();
    return spent - (work_.since_snapshot() - before);
  }

  double checkpoint_after() const {
    const double every = plan_.checkpoint.interval_steps;
    if (every <= 0) return HUGE_VAL;
    return (std::floor(std::max(work_.steps(), work_.snapshot()) / every) + 1) * every;
  }
  double last_step() const { return plan_.steps > 0 ? plan_.steps : HUGE_VAL; }

  /// Handles whatever is due at the end of this step, then trains until the next event at the end of a step.
  void go_on() {
    if (by_steps_.next() <= work_.steps()) {
      train(work_.steps());
      return fail_as_prescribed(by_steps_.take());
    }
    if (plan_.checkpoint.interval_steps > 0 && work_.steps() > work_.snapshot() &&
        std::fmod(work_.steps(), plan_.checkpoint.interval_steps) == 0)
      return checkpoint();
    if (work_.steps() >= last_step()) return finish();
    if (pool_.has_waiting()) {
      pool_.take_back_waiting();
      return enter(JobState::down, plan_.recovery.restart.value + plan_.checkpoint.load.value);
    }
    train(std::min(checkpoint_after(), undisturbed_steps()));
  }

  /// Trains until `until` steps are done; infinite: until something fails.
  void train(double until) {
    target_ = until;
    interval_.begin(now_);
    if (until < HUGE_VAL) return enter(JobState::training, (until - work_.steps()) * pace());
    begin(JobState::training);
  }

  void end_phase() {
    const JobState ended = phase_;
    leave();
    if (ended == JobState::down) must_load_ = false;
    if (ended == JobState::down && !pool_.is_complete() && !can_do_without()) return begin(JobState::waits_for_node);
    if (ended == JobState::stall) {
      if (plan_.checkpoint.write <= plan_.checkpoint.stall) end_write();
      skip_to_disturbance();
    }
    go_on();
  }

  /// Skips from the end of one checkpoint's stall to that of a later one, if everything in between repeats. The cost
  /// of a run then depends on the number of failures, not on the number of checkpoints.
  void skip_to_disturbance() {
    const double every = plan_.checkpoint.interval_steps, trained = every * pace();
    const bool at_once = due_.size() > 1;  // another event is due at this time
    if (at_once || pool_.has_waiting() || work_.steps() > work_.snapshot()) return;
    const double stall = plan_.checkpoint.stall.value, write = plan_.checkpoint.write.value;
    const double period = std::max(trained + stall, write);  // a checkpoint waits for the previous one
    if (writing_) timers_.cancel(write_timer_);
    double periods = std::floor((undisturbed_steps() - work_.steps()) / every) - 1;
    // One period less, so that rounding does no harm.
    periods = std::min(periods, std::floor((undisturbed_until() - now_) / period) - 1);
    if (periods > 0 && periods < HUGE_VAL) {
      now_ += periods * period;
      result_.checkpoints += periods;
      result_.stalled += Seconds{periods * (period - trained)};
      if (writing_) work_.end_checkpoint();
      work_.add_steps((periods - 1) * every, (periods - 1) * trained);
      work_.begin_checkpoint();
      work_.end_checkpoint();
      work_.add_steps(every, trained);
      work_.begin_checkpoint();
      if (!writing_) work_.end_checkpoint();
      hopeless_ = 0;
    }
    if (writing_) write_timer_ = schedule(EventKind::written, now_ + write - stall);
  }
  double undisturbed_until() {
    const double next = timers_.next(), end = plan_.end_limit.value > 0 ? plan_.end_limit.value : HUGE_VAL;
    return next < 0 ? end : std::min(next, end);
  }
  double undisturbed_steps() const { return std::min(last_step(), by_steps_.next()); }

  bool can_do_without() const {
    if (!workers_of_absent_nodes_.empty())
      return std::ranges::find(workers_of_absent_nodes_, std::size_t{0}) == workers_of_absent_nodes_.end();
    return plan_.recovery.elastic && pool_.replicas() > 0;
  }

  void checkpoint() {
    if (writing_) return begin(JobState::waits_for_write);  // for the previous checkpoint
    ++result_.checkpoints;
    work_.begin_checkpoint();
    if (plan_.checkpoint.write > plan_.checkpoint.stall) {
      write_timer_ = schedule(EventKind::written, now_ + plan_.checkpoint.write.value);
      writing_ = true;
    }
    enter(JobState::stall, plan_.checkpoint.stall.value);
  }

  void end_write() {
    writing_ = false;
    if (work_.end_checkpoint()) hopeless_ = 0;
    if (phase_ != JobState::waits_for_write) return;
    leave();
    go_on();
  }

  /// Whole steps of this interval of training that are not booked yet.
  double steps_under_way() const {
    return phase_ == JobState::training
               ? std::floor(interval_.steps(now_, pace()) * (1 + kEventRounding) + kEventRounding)
               : 0;
  }
  void fail_as_prescribed(std::size_t number) {
    const SetFailure& failure = plan_.failures[number];
    SetFailureOutcome& outcome = result_.prescribed[number];
    const double lost_steps = result_.lost_steps;
    const Seconds lost_work = result_.lost_work;
    outcome.happened = true;
    outcome.time = Seconds{now_};
    outcome.idle = pool_.is_away(failure.node);
    if (outcome.idle) {
      outcome.steps = work_.steps() + steps_under_way();
      return;
    }
    fail(failure);
    outcome.lost_steps = result_.lost_steps - lost_steps;
    outcome.lost_work = result_.lost_work - lost_work;
    outcome.steps = work_.steps() + steps_under_way() + outcome.lost_steps;
  }

  void fail(const SetFailure& failure) {
    const auto& [after, steps, what, takes_node, node, workers, survived, redo] = failure;
    ++result_.failures;
    ++result_.failures_of[what];
    if (survived) return stand_still_until_detected();
    if (workers > 0 && absent_workers_ + workers < plan_.replicas) return lose_workers(takes_node, workers, node, redo);
    if (workers > 0 && !plan_.workers_hold_state) return wait_for_workers();
    if (++hopeless_ > kHopeless && plan_.end_limit.value <= 0)
      throw UserError(
          fmt::format("the training makes no progress: {:.0f} failures without a checkpoint, one in {} on average",
                      kHopeless, show(drawn_.mean_interval())));
    if (phase_ == JobState::training) {
      result_.lost_minibatches += plan_.replicas - absent_workers_;
      result_.lost_work += leave_training();  // the unfinished step
    } else {
      leave();
    }
    if (writing_) timers_.cancel(write_timer_);
    writing_ = false;
    pool_.take_back_waiting();
    if (takes_node && !replace(node) && goes_on_without_some()) workers_of_absent_nodes_.push_back(0);
    const bool keeps = plan_.recovery.elastic && plan_.recovery.state_survives && takes_node && can_do_without();
    if (!keeps) fall_back();
    must_load_ |= !keeps;
    enter(JobState::down,
          plan_.recovery.detect.value + plan_.recovery.restart.value + (must_load_ ? plan_.checkpoint.load.value : 0));
  }

  /// Training stops until the failure is detected and another part takes over; then the current step begins again.
  void stand_still_until_detected() {
    if (phase_ != JobState::training || plan_.recovery.detect.value <= 0) return;
    result_.lost_minibatches += plan_.replicas - absent_workers_;
    result_.lost_work += leave_training();
    enter(JobState::down, plan_.recovery.detect.value);
  }
  /// The other workers go on. The lost ones restart on a spare, or once their node is repaired.
  void lose_workers(bool takes_node, int workers, std::optional<int> node, Seconds redo) {
    if (phase_ == JobState::training) result_.lost_minibatches += workers;
    change_workers(workers);
    const auto number = static_cast<std::size_t>(workers);
    if (takes_node && !replace(node))
      workers_of_absent_nodes_.push_back(number);
    else
      schedule(EventKind::workers_return,
               now_ + plan_.recovery.detect.value + plan_.recovery.restart.value + redo.value, number);
  }
  /// No worker is left. If training stands still already, they restart meanwhile.
  void wait_for_workers() {
    if (phase_ != JobState::training) return;
    result_.without_workers += leave_training();
    enter(JobState::waits_for_workers, plan_.recovery.detect.value + plan_.recovery.restart.value);
  }
  void change_workers(int more_absent) {
    interval_.change_pace(now_, pace());
    absent_workers_ += more_absent;
    if (phase_ != JobState::training || !phase_timed_) return;
    timers_.cancel(phase_timer_);
    phase_timer_ =
        schedule(EventKind::phase_ends, now_ + std::max(0.0, interval_.time_to(target_ - work_.steps(), pace())));
  }
  /// A node has failed, and will be repaired. Returns true if a spare takes its place.
  bool replace(std::optional<int> node) {
    const int missing = pool_.missing();
    if (const auto& repair = plan_.recovery.repair; pool_.lose(node) && repair)
      schedule(EventKind::repaired, now_ + repair->value);
    return pool_.missing() == missing;
  }
  bool goes_on_without_some() const {
    const auto takes_workers = [](const auto& part) { return part.workers > 0; };
    return std::ranges::any_of(plan_.parts, takes_workers) || std::ranges::any_of(plan_.failures, takes_workers);
  }

  void fall_back() {
    const SavedWork::LostWork lost = work_.fall_back();
    result_.lost_work += lost.work;
    result_.lost_steps += lost.steps;
    result_.lost_minibatches += lost.steps * plan_.replicas;
  }

  void return_node() {
    if (!pool_.end_repair()) return;
    if (!workers_of_absent_nodes_.empty()) {
      if (workers_of_absent_nodes_.front() > 0)
        schedule(EventKind::workers_return, now_ + plan_.recovery.restart.value, workers_of_absent_nodes_.front());
      workers_of_absent_nodes_.pop_front();
      pool_.take_back();
      return go_on_after_repair();
    }
    const bool training_goes_on = phase_ != JobState::waits_for_node && phase_ != JobState::down;
    if (training_goes_on && pool_.next_completes_replica()) {
      pool_.delay_return();
      if (phase_ == JobState::training) train_to_end_of_step();
      return;
    }
    pool_.take_back();
    go_on_after_repair();
  }
  void go_on_after_repair() {
    if (phase_ != JobState::waits_for_node || !(pool_.is_complete() || can_do_without())) return;
    leave();
    go_on();
  }
  void train_to_end_of_step() {
    const double done = std::ceil((now_ - since_) / pace() * (1 - kEventRounding));
    if (phase_timed_) timers_.cancel(phase_timer_);
    target_ = std::min(target_, work_.steps() + std::max(done, 1.0));
    phase_timer_ = schedule(EventKind::phase_ends, std::max(now_, since_ + (target_ - work_.steps()) * pace()));
    phase_timed_ = true;
  }

  void finish() {
    if (writing_) return begin(JobState::waits_for_write);  // the last checkpoint belongs to the training
    phase_ = JobState::ended;
    close();
  }
  void close() {
    Seconds partial;
    if (phase_ == JobState::training)
      partial = leave_training();
    else
      leave();
    phase_ = JobState::ended;
    settle(result_, work_, plan_.step, Seconds{now_}, partial);
  }
};

}  // namespace

LongRunResult run_long(const LongRunPlan& plan) {
  const double steps = plan.steps > 0 ? plan.steps : plan.end_limit / plan.step;
  if (steps > kMostSteps)
    throw UserError(fmt::format("the training has {:.3g} steps of {}; at most {:.3g} are counted", steps,
                                show(plan.step), kMostSteps));
  return LongRun(plan).run();
}

}  // namespace trainyard
