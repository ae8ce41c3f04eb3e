#include "strategies/long_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/agenda.hpp"
#include "sim/error.hpp"
#include "sim/hashing.hpp"

namespace trainyard {
namespace {

/// In the order in which what happens at one time takes effect: a step that ends when something fails has ended.
enum class Happens : Agenda::Token { phase_ends, written, repaired, fails_as_said, fails };

enum class Phase : std::uint8_t { training, stall, waits_for_write, down, waits_for_node, ended };

/// No training gets through so many failures without one more step saved.
constexpr double kHopeless = 1e5;
/// Relative: what happens so close together happens at one time.
constexpr double kRounding = 1e-12;

class LongRun {
 public:
  explicit LongRun(const LongRunPlan& plan) : plan_(plan), between_(time_between_failures(plan.parts)) {
    for (std::size_t i = 0; i < plan.failures.size(); ++i)
      if (plan.failures[i].after_step < 0) note(Happens::fails_as_said, plan.failures[i].at.value, i);
    for (const SetFailure& failure : plan.failures)
      if (failure.after_step >= 0) after_steps_.push_back(&failure);
    std::stable_sort(after_steps_.begin(), after_steps_.end(),
                     [](const auto* a, const auto* b) { return a->after_step < b->after_step; });
  }

  LongRunResult run() {
    next_failure();
    go_on();
    while (phase_ != Phase::ended) {
      const double next = agenda_.next();
      if (plan_.until.value > 0 && (next < 0 || next > plan_.until.value)) {
        now_ = plan_.until.value;
        close();
        break;
      }
      if (next < 0)
        throw UserError(fmt::format("the training stands still after {}: no spare node is left, and none is repaired",
                                    show(Seconds{now_})));
      due_.clear();
      agenda_.collect(next * (1 + kRounding), due_);
      now_ = next;
      std::sort(due_.begin(), due_.end());
      for (const Agenda::Token token : due_)
        if (phase_ != Phase::ended) happen(token);
    }
    return result_;
  }

 private:
  static constexpr unsigned kShift = 56;

  const LongRunPlan& plan_;
  Agenda agenda_;
  std::vector<Agenda::Token> due_;
  LongRunResult result_;
  Phase phase_ = Phase::training;
  double now_ = 0;
  double since_ = 0;  ///< the phase began
  Agenda::TimerId phase_timer_ = 0, write_timer_ = 0;
  bool phase_timed_ = false, writing_ = false;
  const Seconds between_;
  std::uint64_t draws_ = 0;
  std::vector<const SetFailure*> after_steps_;
  std::size_t next_after_step_ = 0;

  double steps_ = 0, saved_steps_ = 0, snapshot_steps_ = 0;
  double checkpointed_ = 0;                          ///< the last step whose checkpoint was begun
  double before_snapshot_ = 0, after_snapshot_ = 0;  ///< seconds of training that no whole checkpoint has
  double trained_ = 0;                               ///< the same, of what one has
  double target_ = 0;                                ///< steps done when this stretch of training ends
  double hopeless_ = 0;                              ///< failures since the last progress
  int missing_ = 0, in_repair_ = 0;                  ///< nodes
  int joining_ = 0;                                  ///< repaired nodes that wait for the end of the step
  bool must_load_ = false;                           ///< the restart reads a checkpoint

  Agenda::TimerId note(Happens what, double at, std::uint64_t number = 0) {
    return agenda_.at(at, static_cast<Agenda::Token>(what) << kShift | number);
  }
  double pace() const { return plan_.step.value * plan_.replicas / std::max(1, plan_.replicas - missing_); }

  void happen(Agenda::Token token) {
    const std::uint64_t number = token & ((std::uint64_t{1} << kShift) - 1);
    switch (static_cast<Happens>(token >> kShift)) {
      case Happens::phase_ends:
        phase_timed_ = false;
        return end_phase();
      case Happens::written:
        return written();
      case Happens::repaired:
        return repaired();
      case Happens::fails_as_said:
        return fail(plan_.failures[number].what, plan_.failures[number].takes_node);
      case Happens::fails: {
        const FailingParts& part = drawn_part();
        next_failure();
        return fail(part.name, part.takes_node);
      }
    }
  }

  void next_failure() {
    if (between_.value <= 0) return;
    note(Happens::fails, now_ - between_.value * std::log1p(-plan_.draws(2 * draws_)));
    ++draws_;
  }
  /// Which part it is that fails: by its share of the rate.
  const FailingParts& drawn_part() const {
    double left = plan_.draws(2 * draws_ - 1);
    for (const FailingParts& part : plan_.parts) {
      left -= part.count / part.mtbf.value * between_.value;
      if (left < 0) return part;
    }
    return plan_.parts.back();
  }

  void enter(Phase phase, double duration) {
    phase_ = phase;
    since_ = now_;
    phase_timer_ = note(Happens::phase_ends, now_ + duration);
    phase_timed_ = true;
  }
  /// Books the time of the phase that ends now.
  void leave() {
    const Seconds spent{now_ - since_};
    if (phase_ == Phase::stall || phase_ == Phase::waits_for_write) result_.stalled += spent;
    if (phase_ == Phase::down) result_.down += spent;
    if (phase_ == Phase::waits_for_node) result_.without_node += spent;
    if (phase_ == Phase::training) {
      // A stretch that was not cut short ends with its last step, whatever the rounding of the clock.
      const double whole = std::floor(spent.value / pace() * (1 + kRounding) + kRounding);
      const bool cut_short = phase_timed_ || target_ == HUGE_VAL;
      const double ended = cut_short ? std::min(whole, target_ - steps_) : target_ - steps_;
      steps_ += ended;
      after_snapshot_ += ended * pace();
    }
    if (phase_timed_) agenda_.cancel(phase_timer_);
    phase_timed_ = false;
  }

  double checkpoint_after() const {
    const double every = plan_.checkpoint.every;
    if (every <= 0) return HUGE_VAL;
    return (std::floor(std::max(steps_, checkpointed_) / every) + 1) * every;
  }
  double last_step() const { return plan_.steps > 0 ? plan_.steps : HUGE_VAL; }

  /// Steps until something happens at the end of one; then whatever is due there.
  void go_on() {
    if (next_after_step_ < after_steps_.size() && after_steps_[next_after_step_]->after_step <= steps_) {
      const SetFailure& failure = *after_steps_[next_after_step_++];
      train(steps_);
      return fail(failure.what, failure.takes_node);
    }
    if (plan_.checkpoint.every > 0 && steps_ > checkpointed_ && std::fmod(steps_, plan_.checkpoint.every) == 0)
      return checkpoint();
    if (steps_ >= last_step()) return finish();
    if (joining_ > 0) {
      missing_ -= std::exchange(joining_, 0);
      return enter(Phase::down, plan_.recovery.restart.value + plan_.checkpoint.load.value);
    }
    double until = std::min(checkpoint_after(), last_step());
    if (next_after_step_ < after_steps_.size()) until = std::min(until, after_steps_[next_after_step_]->after_step);
    train(until);
  }

  /// Until so many steps are done; without an end where nothing stops it but failures.
  void train(double until) {
    target_ = until;
    if (until < HUGE_VAL) return enter(Phase::training, (until - steps_) * pace());
    phase_ = Phase::training;
    since_ = now_;
    phase_timed_ = false;
  }

  void end_phase() {
    const Phase ended = phase_;
    leave();
    if (ended == Phase::down) must_load_ = false;
    if (ended == Phase::down && missing_ > 0 && !can_do_without()) {
      phase_ = Phase::waits_for_node;
      since_ = now_;
      return;
    }
    if (ended == Phase::stall && plan_.checkpoint.write <= plan_.checkpoint.stall) written();
    go_on();
  }

  bool can_do_without() const { return plan_.recovery.elastic && missing_ < plan_.replicas; }

  void checkpoint() {
    if (writing_) {  // of the one before
      phase_ = Phase::waits_for_write;
      since_ = now_;
      return;
    }
    ++result_.checkpoints;
    checkpointed_ = snapshot_steps_ = steps_;
    before_snapshot_ += after_snapshot_;
    after_snapshot_ = 0;
    if (plan_.checkpoint.write > plan_.checkpoint.stall) {
      write_timer_ = note(Happens::written, now_ + plan_.checkpoint.write.value);
      writing_ = true;
    }
    enter(Phase::stall, plan_.checkpoint.stall.value);
  }

  void written() {
    writing_ = false;
    if (snapshot_steps_ > saved_steps_) hopeless_ = 0;
    saved_steps_ = snapshot_steps_;
    trained_ += before_snapshot_;
    before_snapshot_ = 0;
    if (phase_ != Phase::waits_for_write) return;
    leave();
    go_on();
  }

  void fail(const std::string& what, bool takes_node) {
    ++result_.failures;
    ++result_.failures_of[what];
    if (++hopeless_ > kHopeless && plan_.until.value <= 0)
      throw UserError(
          fmt::format("the training does not get on: {:.0f} failures without a checkpoint, one in {} on average",
                      kHopeless, show(between_)));
    if (phase_ == Phase::training) {
      const double before = after_snapshot_, spent = now_ - since_;
      leave();
      result_.lost_work += Seconds{spent - (after_snapshot_ - before)};  // of the step under way
    } else {
      leave();
    }
    if (writing_) agenda_.cancel(write_timer_);
    writing_ = false;
    missing_ -= std::exchange(joining_, 0);
    bool replaced = !takes_node || plan_.recovery.spares < 0;
    if (!replaced) {
      replaced = plan_.recovery.spares - in_repair_ > 0;
      if (!replaced) ++missing_;
      ++in_repair_;
      if (plan_.recovery.repair.value > 0) note(Happens::repaired, now_ + plan_.recovery.repair.value);
    }
    const bool keeps = plan_.recovery.elastic && plan_.recovery.state_survives && takes_node && can_do_without();
    if (!keeps) fall_back();
    must_load_ |= !keeps;
    enter(Phase::down,
          plan_.recovery.detect.value + plan_.recovery.restart.value + (must_load_ ? plan_.checkpoint.load.value : 0));
  }

  void fall_back() {
    result_.lost_work += Seconds{before_snapshot_ + after_snapshot_};
    result_.lost_steps += steps_ - saved_steps_;
    before_snapshot_ = after_snapshot_ = 0;
    steps_ = checkpointed_ = snapshot_steps_ = saved_steps_;
  }

  void repaired() {
    --in_repair_;
    if (missing_ == 0) return;
    if (phase_ == Phase::waits_for_node) {
      leave();
      --missing_;
      if (missing_ > 0 && !can_do_without()) {
        phase_ = Phase::waits_for_node;
        since_ = now_;
      } else {
        go_on();
      }
    } else if (phase_ == Phase::down) {
      --missing_;
    } else {
      ++joining_;
      if (phase_ == Phase::training) train_to_end_of_step();
    }
  }
  void train_to_end_of_step() {
    const double done = std::ceil((now_ - since_) / pace() * (1 - kRounding));
    if (phase_timed_) agenda_.cancel(phase_timer_);
    target_ = std::min(target_, steps_ + std::max(done, 1.0));
    phase_timer_ = note(Happens::phase_ends, std::max(now_, since_ + (target_ - steps_) * pace()));
    phase_timed_ = true;
  }

  void finish() {
    if (writing_) {  // the last checkpoint belongs to the training
      phase_ = Phase::waits_for_write;
      since_ = now_;
      return;
    }
    phase_ = Phase::ended;
    close();
  }
  void close() {
    double partial = 0;
    if (phase_ == Phase::training) {
      const double before = after_snapshot_, spent = now_ - since_;
      leave();
      partial = spent - (after_snapshot_ - before);
    } else {
      leave();
    }
    phase_ = Phase::ended;
    trained_ += before_snapshot_ + after_snapshot_;
    result_.end = Seconds{now_};
    result_.steps = steps_;
    result_.useful = plan_.step * steps_;
    result_.slower = Seconds{trained_ + partial} - result_.useful;
    if (std::abs(result_.slower.value) < 1e-9 * result_.end.value) result_.slower = Seconds{0};
    const Seconds sum =
        result_.useful + result_.slower + result_.lost_work + result_.stalled + result_.down + result_.without_node;
    if (std::abs((sum - result_.end).value) > 1e-6 * result_.end.value)
      throw InternalError(fmt::format("a long run of {} s whose parts sum to {} s", result_.end.value, sum.value));
  }
};

}  // namespace

UniformDraws seeded_draws(std::uint64_t seed) {
  return [seed](std::uint64_t counter) { return static_cast<double>(hashed({seed, counter}) >> 11) * 0x1p-53; };
}

Seconds time_between_failures(const std::vector<FailingParts>& parts) {
  double rate = 0;
  for (const FailingParts& part : parts) rate += part.count / part.mtbf.value;
  return Seconds{rate > 0 ? 1 / rate : 0};
}

LongRunResult run_long(const LongRunPlan& plan) { return LongRun(plan).run(); }

}  // namespace trainyard
