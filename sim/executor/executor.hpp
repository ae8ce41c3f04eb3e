#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/executor/changes.hpp"
#include "sim/executor/failures.hpp"
#include "sim/executor/messages.hpp"
#include "sim/executor/rounds.hpp"
#include "sim/executor/series_runs.hpp"

namespace trainyard {

/// Runs programs on a machine: begins the operations that are ready and ends those that are due. Everything that ends
/// within one time step is finished first, in the order of (actor, stream). Then each touched actor advances once.
class Executor {
 public:
  Executor(Machine&, Transport&, execution::Timers&);
  Executor(const Executor&) = delete;  // its parts refer to each other

  void add(Actor, std::unique_ptr<Program>);  ///< adds actors from 0 on without gaps, before the start
  void observe(Observer& observer) { context_.observers.add(observer); }
  void change(const LinkChange&);
  void change(ActorChange);  ///< the run continues until all actors that come back have done so and have ended
  /// Ends the run as soon as `enough` is true, even if operations are under way.
  void end_when(const bool& enough) { enough_ = &enough; }

  void start();
  void tell_observers_the_end() {
    for (Observer* observer : context_.observers.observers()) observer->ended(end());
  }
  /// Performs one time step: ends the timers and flows that are due at `now`. May skip identical rounds: see now().
  void deliver(const std::vector<execution::TimerToken>& timers, const std::vector<FlowToken>& flows, double now);

  /// Ends the running operation of a stream (both halves of a message) without its effect. Returns false if none runs.
  bool cancel(Actor, Stream);

  /// Returns true if all programs except the daemons have ended, or `enough` is true (see end_when).
  bool is_finished() const { return *enough_ || streams_.is_finished(); }
  /// Explains why nothing moves although operations are left: names the cycle of waits, or what each actor waits for.
  std::string deadlock_report() const;
  Seconds now() const { return Seconds{context_.now}; }
  /// End of the last operation of a program that is not a daemon.
  Seconds end() const { return Seconds{streams_.end()}; }
  /// Number of sends without a receive, and of receives without a send.
  std::size_t unmatched_messages() const { return messages_.unmatched_messages(); }
  /// Prefetches the data that the next flows to end will touch. With thousands of actors whose messages end one by one,
  /// most of the time would otherwise be spent waiting for memory.
  void prefetch_upcoming() const { transfers_.prefetch_upcoming(); }
  /// Records which links limit the flows that have just departed. Call it after the transport has shared its links
  /// anew.
  void note_limits() { transfers_.note_limits(); }
  std::uint64_t operations() const { return streams_.operations(); }
  std::uint64_t transfers() const { return transfers_.count(); }
  /// Number of operations that started late because the look-ahead was full when they could have started.
  std::uint64_t late_by_look_ahead() const { return streams_.late_by_look_ahead(); }

 private:
  static constexpr bool kNever = false;
  execution::Context context_;
  execution::ActorTable table_;
  execution::Links links_;
  execution::Interference interference_;
  execution::Streams streams_;
  execution::Transfers transfers_;
  execution::Parts parts_{context_, table_, interference_, streams_, transfers_};
  execution::Messages messages_;
  execution::Joins joins_;
  execution::SeriesRuns series_;
  execution::Rounds rounds_;
  execution::Failures failures_;
  execution::LinkRates link_rates_;
  std::vector<LinkChange> link_changes_;
  std::size_t repeating_ = 0;  // timers of changes that repeat
  const bool* enough_ = &kNever;
  std::vector<std::uint64_t> endings_;  // endings of one time step: a stream and a transfer (or none) each, sorted
  std::vector<Actor> round_;            // scratch memory of run_touched

  void add_ending(execution::StreamId, execution::TransferId = {});
  void begin_changes(const std::vector<execution::TimerToken>&, bool moves);
  void set_timer_of_change(std::uint32_t number);
  bool repeats(const execution::TimerToken&) const;
  void end_latencies(const std::vector<execution::TimerToken>&);
  void add_instant();
  void finish_all();
  void run_touched();
  void count_departing();
  void advance(Actor);
  void begin(execution::ActorState&, execution::StreamState&);
  void end_transfer(execution::TransferId, Outcome);
  void cancel_all();
};

}  // namespace trainyard
