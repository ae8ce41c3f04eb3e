#include "scenarios/src/studies/fleet/queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/error.hpp"
#include "sim/hashing.hpp"

namespace trainyard {

UniformDraws queue_draws(std::uint64_t seed, std::size_t arrival, std::size_t stay) {
  return seeded_draws(hash_numbers({seed, arrival, stay}));
}

namespace {

constexpr double kForever = HUGE_VAL;
constexpr double kMostQueueEvents = 5e6;

/// saving: a training writes a checkpoint before it gives its nodes up.
enum class QueueState : std::uint8_t { absent, waiting, restarting, training, saving, done };

/// A training between its arrival and its end. Times are in s.
struct QueuedJob {
  QueueState state = QueueState::absent;
  const std::vector<QueueSize>* sizes = nullptr;
  const QueueSize* size = nullptr;        ///< null: it has no nodes
  double since = 0, until = 0;            ///< beginning and end of the state
  double saved = 0;                       ///< steps in the last complete checkpoint
  double saves = 0;                       ///< further steps in the checkpoint that is written before preemption
  double ready = 0;                       ///< an interruption is not noticed earlier
  bool is_begun = false, failed = false;  ///< failed: a failure has ended its last stay
  UniformDraws draws;
  std::optional<DrawnFailures> failures;
  double fails = kForever;  ///< time of the next failure
  bool has_nodes() const { return size != nullptr; }
};

class Queue {
 public:
  Queue(const QueueRules& rules, const std::vector<std::vector<QueueSize>>& sizes,
        const std::vector<QueueArrival>& arrivals)
      : rules_(rules), arrivals_(arrivals), jobs_(arrivals.size()), idle_(rules.nodes) {
    result_.outcomes.resize(arrivals.size());
    for (std::size_t i = 0; i < jobs_.size(); ++i) jobs_[i].sizes = &sizes[arrivals[i].training];
  }

  QueueResult run() {
    for (double events = 0;; ++events) {
      const double next = next_event();
      if (!past_horizon_ && next >= rules_.horizon.value) book_horizon();
      if (next == kForever) break;
      if (events > kMostQueueEvents)
        throw UserError(
            fmt::format("the trainings make no progress: {:.0f} events in {:.1f} years; expected rarer failures, more "
                        "checkpoints or more nodes",
                        events, now_ / kSecondsOfQueueYear));
      advance(next);
      while (handle_next()) {
      }
      while (start_next()) {
      }
      result_.longest = std::max(result_.longest, static_cast<int>(waiting_.size()));
    }
    return std::move(result_);
  }

 private:
  static constexpr double kSecondsOfQueueYear = kHoursOfYear * 3600;
  const QueueRules& rules_;
  const std::vector<QueueArrival>& arrivals_;
  std::vector<QueuedJob> jobs_;
  QueueResult result_;
  double now_ = 0;
  bool past_horizon_ = false;
  int idle_ = 0;                      ///< nodes without a training that are not in repair
  std::size_t arrived_ = 0;           ///< number of arrivals so far
  std::vector<std::size_t> waiting_;  ///< jobs in the order of the queue
  std::vector<std::size_t> running_;  ///< jobs with nodes, by their last start
  std::vector<double> repairs_;       ///< times at which nodes are back, ascending

  double next_event() const {
    double next = arrived_ < jobs_.size() ? arrivals_[arrived_].time.value : kForever;
    if (!repairs_.empty() && (!running_.empty() || !waiting_.empty() || !past_horizon_))
      next = std::min(next, repairs_.front());
    for (const std::size_t job : running_) next = std::min({next, jobs_[job].until, jobs_[job].fails});
    return next;
  }

  /// Moves the clock, and books what does not belong to a training.
  void advance(double time) {
    const double within = std::max(0.0, std::min(time, rules_.horizon.value) - now_);
    const int spare = std::min(idle_, rules_.spares);
    result_.spare += spare * within;
    result_.idle += (idle_ - spare) * within;
    result_.repair += static_cast<double>(repairs_.size()) * within;
    result_.mean_length += static_cast<double>(waiting_.size()) * within / rules_.horizon.value;
    now_ = time;
  }

  /// Handles an event of this moment. Ends come before repairs, failures and arrivals. Returns false if there is none.
  bool handle_next() {
    for (const std::size_t job : running_)
      if (jobs_[job].until <= now_) {
        end_state(job);
        return true;
      }
    if (!repairs_.empty() && repairs_.front() <= now_) {
      repairs_.erase(repairs_.begin());
      ++idle_;
      return true;
    }
    for (const std::size_t job : running_)
      if (jobs_[job].fails <= now_) {
        fail(job);
        return true;
      }
    if (arrived_ == jobs_.size() || arrivals_[arrived_].time.value > now_) return false;
    wait(arrived_++);
    return true;
  }

  // Booking.

  /// Returns the time since the state began, by cause. Steps that no complete checkpoint holds are `unsaved`.
  TrainingTime time_in_state(std::size_t job, double& unsaved) const {
    const QueuedJob& j = jobs_[job];
    TrainingTime time;
    const double elapsed = now_ - j.since;
    unsaved = 0;
    if (j.state == QueueState::waiting) time.waiting = elapsed;
    if (j.state == QueueState::restarting) time.restarts = elapsed;
    if (j.state == QueueState::saving) time.checkpoints = elapsed;
    if (j.state != QueueState::training) return time;
    const QueueSize::Progress progress = j.size->progress(steps_to_do(job), Seconds{elapsed});
    time.steps = progress.trained.value;
    time.checkpoints = elapsed - time.steps;
    unsaved = std::max(0.0, time.steps - progress.saved_steps * j.size->step.value);
    return time;
  }
  /// Books the time since the state began. Steps that are not saved go to `lost`; null: they count.
  void book(std::size_t job, double TrainingTime::*lost) {
    double unsaved = 0;
    TrainingTime time = time_in_state(job, unsaved);
    if (lost) {
      time.steps -= unsaved;
      time.*lost += unsaved;
    }
    add_time(job, time);
  }
  void add_time(std::size_t job, const TrainingTime& time) {
    QueueOutcome& outcome = result_.outcomes[job];
    outcome.time.add(time, 1);
    if (past_horizon_) return;
    const int nodes = jobs_[job].has_nodes() ? jobs_[job].size->nodes : 0;
    outcome.node_seconds.add(time, nodes);
  }
  /// Moves the clock to the horizon, and books the nodes that trainings have then. Their steps count, saved or not.
  void book_horizon() {
    advance(rules_.horizon.value);
    past_horizon_ = true;
    for (const std::size_t job : running_) {
      double unsaved = 0;
      result_.outcomes[job].node_seconds.add(time_in_state(job, unsaved), jobs_[job].size->nodes);
    }
  }

  // The course of a job.

  double steps_to_do(std::size_t job) const { return arrivals_[job].steps - jobs_[job].saved; }
  void enter(std::size_t job, QueueState state, double until) {
    QueuedJob& j = jobs_[job];
    j.state = state;
    j.since = now_;
    j.until = until;
  }
  void train(std::size_t job) {
    enter(job, QueueState::training, now_ + jobs_[job].size->time_of_steps(steps_to_do(job)).value);
  }
  /// Puts a job into the queue: by priority, unless the policy is fifo, then by arrival.
  void wait(std::size_t job) {
    enter(job, QueueState::waiting, kForever);
    const auto before = [this](std::size_t a, std::size_t b) {
      const int first = arrivals_[a].priority, second = arrivals_[b].priority;
      return rules_.policy != QueuePolicy::fifo && first != second ? first > second : a < b;
    };
    waiting_.insert(std::ranges::upper_bound(waiting_, job, before), job);
  }
  static double restart_time(const QueueSize& size) { return (size.recovery.restart + size.checkpoint.load).value; }

  void start(std::size_t job, const QueueSize& size) {
    QueuedJob& j = jobs_[job];
    QueueOutcome& outcome = result_.outcomes[job];
    book(job, nullptr);
    std::erase(waiting_, job);
    running_.push_back(job);
    idle_ -= size.nodes;
    j.size = &size;
    if (!j.is_begun) outcome.start.value = now_;
    j.draws = queue_draws(rules_.seed, job, outcome.stays.size());
    j.failures.emplace(size.parts, j.draws);
    j.fails = j.failures->has_failures() ? now_ + j.failures->next().value : kForever;
    outcome.stays.push_back({Seconds{now_}, {}, size.nodes});
    if (std::exchange(j.is_begun, true))
      enter(job, QueueState::restarting, std::max(now_, j.ready) + restart_time(size));
    else
      train(job);
    j.failed = false;
  }
  void end_state(std::size_t job) {
    book(job, nullptr);
    if (jobs_[job].state == QueueState::restarting) return train(job);
    if (jobs_[job].state == QueueState::saving) {
      jobs_[job].saved += std::exchange(jobs_[job].saves, 0);
      return give_nodes_up(job);
    }
    jobs_[job].state = QueueState::done;
    result_.outcomes[job].end.value = now_;
    release(job, jobs_[job].size->nodes);
  }
  /// Ends a stay. So many of its nodes are idle then.
  void release(std::size_t job, int nodes) {
    result_.outcomes[job].stays.back().end.value = now_;
    std::erase(running_, job);
    idle_ += nodes;
    jobs_[job].size = nullptr;
    jobs_[job].fails = kForever;
  }
  /// Stops a job, which goes on from its last complete checkpoint.
  void interrupt(std::size_t job, double TrainingTime::*lost) {
    QueuedJob& j = jobs_[job];
    const bool is_training = j.state == QueueState::training;
    book(job, lost);
    if (is_training) j.saved += j.size->progress(steps_to_do(job), Seconds{now_ - j.since}).saved_steps;
  }
  void give_nodes_up(std::size_t job) {
    ++result_.outcomes[job].preemptions;
    jobs_[job].ready = now_;
    release(job, jobs_[job].size->nodes);
    wait(job);
  }
  /// Stops a job for another one: at once, or after a checkpoint, if it has steps to save and that ends within the grace
  /// time.
  void preempt(std::size_t job) {
    QueuedJob& j = jobs_[job];
    if (const double steps = steps_to_save(job); steps > 0) {
      double unsaved = 0;
      TrainingTime time = time_in_state(job, unsaved);
      const double undone = time.steps - steps * j.size->step.value;  // time of the step in progress
      time.steps -= undone;
      time.lost_to_preemption += undone;
      add_time(job, time);
      j.saves = steps;
      return enter(job, QueueState::saving, now_ + saving_time(*j.size));
    }
    interrupt(job, &TrainingTime::lost_to_preemption);
    give_nodes_up(job);
  }
  static double saving_time(const QueueSize& size) {
    return std::max(size.checkpoint.stall, size.checkpoint.write).value;
  }
  /// Returns the steps since the job began to train, if a checkpoint of them ends within the grace time. 0: there are
  /// none that are not saved, or the checkpoint would take too long.
  double steps_to_save(std::size_t job) const {
    const QueuedJob& j = jobs_[job];
    if (j.state != QueueState::training || j.size->checkpoint.interval_steps <= 0 || rules_.grace.value <= 0 ||
        saving_time(*j.size) > rules_.grace.value)
      return 0;
    const QueueSize::Progress progress = j.size->progress(steps_to_do(job), Seconds{now_ - j.since});
    constexpr double rounding = 1e-9;
    const double steps = std::floor(progress.trained / j.size->step + rounding);
    return steps > progress.saved_steps ? steps : 0;
  }
  /// A failure ends the checkpoint before preemption. Steps that no other checkpoint holds are lost.
  void fail_while_saving(std::size_t job) {
    QueuedJob& j = jobs_[job];
    book(job, nullptr);
    TrainingTime lost;
    lost.lost_to_failures = std::exchange(j.saves, 0) * j.size->step.value;
    lost.steps = -lost.lost_to_failures;
    add_time(job, lost);
    ++result_.outcomes[job].failures;
    if (j.failures->part().takes_node) {
      const double back = now_ + j.size->recovery.repair->value;
      repairs_.insert(std::ranges::upper_bound(repairs_, back), back);
      --idle_;
    }
    give_nodes_up(job);
  }
  /// A failed node goes to repair, and an idle one takes its place. Without one, the job gives its nodes back and waits.
  void fail(std::size_t job) {
    QueuedJob& j = jobs_[job];
    if (j.state == QueueState::saving) return fail_while_saving(job);
    interrupt(job, &TrainingTime::lost_to_failures);
    ++result_.outcomes[job].failures;
    const QueueSize& size = *j.size;
    const bool takes_node = j.failures->part().takes_node;
    j.ready = now_ + size.recovery.detect.value;
    if (takes_node) {
      const double back = now_ + size.recovery.repair->value;
      repairs_.insert(std::ranges::upper_bound(repairs_, back), back);
    }
    if (takes_node && idle_ == 0) {
      j.failed = true;
      release(job, size.nodes - 1);
      return wait(job);
    }
    idle_ -= takes_node ? 1 : 0;
    j.fails = now_ + j.failures->next().value;
    enter(job, QueueState::restarting, j.ready + restart_time(size));
  }

  // The queue.

  /// Returns the time of the remaining steps if nothing interrupts them.
  double remaining_time(std::size_t job, const QueueSize& size) const {
    return size.time_of_steps(steps_to_do(job)).value + (jobs_[job].is_begun ? restart_time(size) : 0);
  }
  double expected_end(std::size_t job) const {
    const QueuedJob& j = jobs_[job];
    return j.state == QueueState::restarting ? j.until + j.size->time_of_steps(steps_to_do(job)).value : j.until;
  }
  /// A time at which nodes are expected to be idle, and the number of idle nodes then.
  struct Vacancy {
    double time = kForever;
    int idle = 0;
  };
  /// Returns the first moment at which so many nodes are expected to be idle, by the ends of running trainings without
  /// further failures, and by the repairs.
  Vacancy first_vacancy(int nodes) const {
    std::vector<std::pair<double, int>> returns;
    for (const std::size_t job : running_) returns.emplace_back(expected_end(job), jobs_[job].size->nodes);
    for (const double time : repairs_) returns.emplace_back(time, 1);
    std::ranges::sort(returns);
    Vacancy vacancy{now_, idle_};
    for (auto next = returns.begin(); vacancy.idle < nodes && next != returns.end(); ++next)
      vacancy = {next->first, vacancy.idle + next->second};
    return vacancy;
  }
  /// Returns the number of idle nodes that a job leaves to others. After a failure it may take spares.
  int reserve(std::size_t job) const { return jobs_[job].failed ? 0 : rules_.spares; }
  bool may_stop(std::size_t job, std::size_t other) const {
    return rules_.policy == QueuePolicy::preemptive && arrivals_[other].priority < arrivals_[job].priority;
  }
  int nodes_of_others(std::size_t job) const {
    int nodes = 0;
    for (const std::size_t other : running_) nodes += may_stop(job, other) ? jobs_[other].size->nodes : 0;
    return nodes;
  }
  bool is_saving(std::size_t job) const { return jobs_[job].state == QueueState::saving; }
  /// Stops trainings of lower priority, the lowest first and of equals the last started, until so many nodes are idle, or
  /// will be after their checkpoints.
  void make_room(std::size_t job, int nodes) {
    const auto coming = [&] {
      int sum = 0;
      for (const std::size_t other : running_)
        if (may_stop(job, other) && is_saving(other)) sum += jobs_[other].size->nodes;
      return sum;
    };
    while (idle_ + coming() < nodes) {
      std::optional<std::size_t> victim;
      for (const std::size_t other : running_)
        if (may_stop(job, other) && !is_saving(other) &&
            (!victim || arrivals_[other].priority <= arrivals_[*victim].priority))
          victim = other;
      if (!victim) throw InternalError("a queue that stops trainings for nodes that nobody has");
      preempt(*victim);
    }
  }

  /// The first of the queue that cannot start, and the nodes that it needs at a later time.
  struct Reservation {
    Vacancy vacancy;
    int nodes = 0;
  };

  /// Starts the first waiting job that can start, or stops others for it. Returns false if none can.
  bool start_next() {
    std::optional<Reservation> blocked;
    for (const std::size_t job : waiting_) {
      const int kept_idle = reserve(job), takes = blocked ? 0 : nodes_of_others(job);
      const QueueSize* chosen = nullptr;
      double first_end = kForever;
      Vacancy vacancy;
      for (const QueueSize& size : *jobs_[job].sizes) {
        const bool fits = size.nodes + kept_idle <= idle_ + takes;
        if (blocked && !fits) break;
        const Vacancy found = fits ? Vacancy{now_, idle_} : first_vacancy(size.nodes + kept_idle);
        const double end = found.time + remaining_time(job, size);
        if (blocked && !delays_nothing(*blocked, end, size.nodes)) continue;
        if (end >= first_end) continue;
        first_end = end;
        chosen = &size;
        vacancy = found;
      }
      if (chosen && vacancy.time <= now_ && chosen->nodes + kept_idle <= idle_ + takes) {
        const std::size_t length = waiting_.size();
        const int needed = chosen->nodes + kept_idle;
        make_room(job, needed);
        if (idle_ >= needed) {
          start(job, *chosen);
          return true;
        }
        if (waiting_.size() != length) return true;  // some have stopped at once, and wait again
        vacancy = {now_, needed};                    // until the checkpoints end, no other job takes a node
      }
      if (!rules_.backfill) return false;
      if (!blocked && chosen) blocked = Reservation{vacancy, chosen->nodes + kept_idle};
    }
    return false;
  }
  static bool delays_nothing(const Reservation& blocked, double end, int nodes) {
    return end <= blocked.vacancy.time || nodes <= blocked.vacancy.idle - blocked.nodes;
  }
};

}  // namespace

void TrainingTime::add(const TrainingTime& other, double factor) {
  for (double TrainingTime::*part :
       {&TrainingTime::waiting, &TrainingTime::steps, &TrainingTime::checkpoints, &TrainingTime::lost_to_failures,
        &TrainingTime::lost_to_preemption, &TrainingTime::restarts})
    this->*part += other.*part * factor;
}

QueueResult run_queue(const QueueRules& rules, const std::vector<std::vector<QueueSize>>& sizes,
                      const std::vector<QueueArrival>& arrivals) {
  QueueResult result = Queue(rules, sizes, arrivals).run();
  constexpr double rounding = 1e-6;
  double sum = result.idle + result.spare + result.repair;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const QueueOutcome& outcome = result.outcomes[i];
    sum += outcome.node_seconds.on_nodes();
    const double length = (outcome.end - arrivals[i].time).value;
    if (std::abs(outcome.time.sum() - length) > rounding * length)
      throw InternalError(fmt::format("a training of {} s whose parts sum to {} s", length, outcome.time.sum()));
  }
  const double all = rules.nodes * rules.horizon.value;
  if (std::abs(sum - all) > rounding * all)
    throw InternalError(fmt::format("{} node-seconds whose parts sum to {}", all, sum));
  return result;
}

}  // namespace trainyard
