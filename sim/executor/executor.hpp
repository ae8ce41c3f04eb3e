#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/executor/changes.hpp"
#include "sim/executor/failures.hpp"
#include "sim/executor/interference.hpp"
#include "sim/executor/joins.hpp"
#include "sim/executor/links.hpp"
#include "sim/executor/messages.hpp"
#include "sim/executor/rounds.hpp"
#include "sim/executor/series_runs.hpp"
#include "sim/executor/streams.hpp"
#include "sim/executor/transfers.hpp"

namespace trainyard {

/// Runs programs on a machine: lets its parts begin what is ready and end what is due. Everything that ends within one
/// time step is finished first, in the order of (actor, stream); then each touched actor goes on, once.
class Executor {
 public:
  Executor(Machine&, Transport&, execution::Timers&);
  Executor(const Executor&) = delete;  // its parts refer to each other

  void add(Actor, std::unique_ptr<Program>);  ///< actors from 0 without gaps, before the start
  void observe(Observer& observer) { context_.observers.add(observer); }
  void change(const LinkChange&);
  void change(ActorChange);  ///< a run goes on until all that come back have done so, and have ended
  void end_when(const bool& enough) { enough_ = &enough; }  ///< the run is over then, whatever is under way

  void start();
  void tell_observers_the_end() {
    for (Observer* observer : context_.observers.all()) observer->ended(end());
  }
  /// One time step: the timers and flows that have ended by `now`. Rounds that are alike may pass at once: see now().
  void deliver(const std::vector<execution::TimerToken>& timers, const std::vector<FlowToken>& flows, double now);

  /// Ends the running operation of a stream (and, of a message, both halves) without its effect. False if none runs.
  bool cancel(Actor, Stream);

  /// All programs but the daemons have ended, or there is enough.
  bool finished() const { return *enough_ || streams_.finished(); }
  /// Why nothing moves although operations are left: the cycle of waits, or what each actor waits for.
  std::string deadlock_report() const;
  Seconds now() const { return Seconds{context_.now}; }
  /// End of the last operation of a program that is no daemon.
  Seconds end() const { return Seconds{streams_.end()}; }
  /// Halves of messages whose other half never came.
  std::size_t unmatched() const { return messages_.unmatched(); }
  /// Fetches what the next flows to end will touch. With thousands of actors whose messages end one by one, most of the
  /// time would go into waiting for memory otherwise.
  void prefetch_upcoming() const { transfers_.prefetch_upcoming(); }
  /// To be called when the transport has shared its links anew: what limits the flows that have just left.
  void note_limits() { transfers_.note_limits(); }
  std::uint64_t operations() const { return streams_.operations(); }
  std::uint64_t transfers() const { return transfers_.count(); }
  /// Operations that started late because the look-ahead was full when they could have started.
  std::uint64_t late_by_look_ahead() const { return streams_.late_by_look_ahead(); }

 private:
  static constexpr bool kNever = false;
  execution::Context context_;
  execution::ActorTable table_;
  execution::Links links_;
  execution::Interference interference_;
  execution::Streams streams_;
  execution::Transfers transfers_;
  execution::Messages messages_;
  execution::Joins joins_;
  execution::SeriesRuns series_;
  execution::Rounds rounds_;
  execution::Failures failures_;
  execution::LinkRates link_rates_;
  std::vector<LinkChange> link_changes_;
  const bool* enough_ = &kNever;
  std::vector<std::uint64_t> endings_;  // of one time step: a stream, then a transfer or none, in the order of both
  std::vector<Actor> round_;            // scratch of run_touched

  void add_ending(execution::StreamId, execution::TransferId = {});
  void begin_changes(const std::vector<execution::TimerToken>&);
  void end_latencies(const std::vector<execution::TimerToken>&);
  void add_instant();
  void finish_all();
  void run_touched();
  void advance(Actor);
  void begin(execution::ActorState&, execution::StreamState&);
  void end_transfer(execution::TransferId, Outcome);
  void cancel_all();
};

}  // namespace trainyard
