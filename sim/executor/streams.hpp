#pragma once
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "sim/executor/actor_state.hpp"
#include "sim/executor/context.hpp"
#include "sim/executor/interference.hpp"

namespace trainyard::execution {

/// Feeds the streams of all actors from their programs, and begins and ends their operations.
class Streams {
 public:
  Streams(Context& context, ActorTable& table, Interference& interference)
      : context_(context), table_(table), interference_(interference) {}

  void add(Actor, std::unique_ptr<Program>);
  void start();
  /// Registers a program that will run later: the run continues until it has ended.
  void expect(const Program& program) { running_ += program.daemon() ? 0 : 1; }
  /// Drops the running and queued operations of an actor. Its program yields no more.
  void fail(Actor);
  /// Makes the actor's streams run another program.
  void restart(Actor, std::unique_ptr<Program>);

  /// Marks an actor that may advance: `take_touched` returns it.
  void touch(Actor actor) { touch(table_.actors[actor], actor); }
  bool any_touched() const { return !touched_.empty(); }
  /// Takes the actors touched since the last call, in ascending order.
  void take_touched(std::vector<Actor>&);
  /// Pulls operations from the program while one of its streams is dry.
  void pull(ActorState&);
  static bool ready(const ActorState& a, const Op& op) {
    return std::all_of(std::begin(op.deps), std::end(op.deps),
                       [&a](const Dep& dep) { return dep.count == 0 || a.streams[dep.stream].done >= dep.count; });
  }
  void note_end(ActorState& a) {
    if (a.ended || !a.exhausted || a.queued > 0) return;
    a.ended = true;
    if (!a.daemon) --running_;
  }

  /// Begins the head of the stream, whose dependencies are met.
  void post(ActorState& a, StreamState& s) {
    s.busy = true;
    a.idle &= ~(std::uint64_t{1} << s.index);
    number(s, context_.now);
    if (!context_.observers.operation_observers().empty()) announce_post(s);
  }
  /// Begins work of the actor alone.
  void begin_work(StreamState&);
  void announce_start(StreamState&, Seconds host_wait = {}, Seconds tail = {});
  void finish(StreamState&, Outcome);
  OpRun run_of(const StreamState&, double ended, Outcome = Outcome::done) const;

  // State of a series (see SeriesRuns):

  /// Moves the streams whose series have a further part into `streams`.
  void take_next_parts(std::vector<StreamId>& streams) {
    if (!next_parts_.empty()) streams.insert(streams.end(), next_parts_.begin(), next_parts_.end());
    next_parts_.clear();
  }
  /// Puts a part of a series at the head of a stream. `series_op` must stay valid until the part has ended.
  static void put_part(StreamState& s, const Op& part, const Op& series_op);
  /// Frees the stream of a join beside a series after the join has ended.
  static void free_side(StreamState&);
  /// Ends a series after all its parts have ended.
  void end_series(StreamState&);
  /// Cancels the event of an interval. Returns the number of its operation.
  OpId break_interval(StreamState&);
  /// Posts the part at the head of a stream: part number `part` of an interrupted interval. The part has begun already.
  void post_part(StreamState&, OpId interval_id, const SeriesInterval&, int part);
  /// Reports the end of an interrupted interval.
  void announce_break(const StreamState&, OpId interval_id, const Op& series_op);
  void resume_work(StreamState&, double remaining, double speed);

  // State of repeated rounds (see Rounds):

  /// Call it if no observer needs the effects of operations on values.
  void drop_effects() { keeps_effects_ = false; }
  bool any_long_run() const { return static_cast<bool>(long_run_); }
  /// Returns the stream that has last received a repeat of 64 or more rounds, and forgets it. An empty StreamId: none
  /// since the last call.
  StreamId take_long_run() { return std::exchange(long_run_, StreamId{}); }
  std::uint64_t pulls() const { return pulls_; }  ///< number of operations and repeats that programs have yielded
  /// Accounts for skipped operations, and moves the last end by `seconds`.
  void skip(std::uint64_t operations, double seconds) {
    next_id_ += static_cast<OpId>(operations);
    end_ += seconds;
  }

  bool is_finished() const { return running_ == 0; }
  double end() const { return end_; }
  std::uint64_t operations() const { return next_id_; }
  std::uint64_t late_by_look_ahead() const { return late_by_look_ahead_; }
  std::uint32_t look_ahead() const { return look_ahead_; }

 private:
  Context& context_;
  ActorTable& table_;
  Interference& interference_;
  std::vector<Actor> touched_;
  std::uint32_t look_ahead_ = kLeastLookAhead;
  OpId next_id_ = 0;
  double end_ = 0;
  std::size_t running_ = 0;  // programs that have not ended, without daemons
  std::uint64_t late_by_look_ahead_ = 0;
  std::vector<StreamId> next_parts_;
  bool keeps_effects_ = true;
  StreamId long_run_;
  std::uint64_t pulls_ = 0;

  void number(StreamState& s, double posted) {
    s.id = ++next_id_;
    s.posted = s.started = posted;
    s.cause = 0;
    s.peer = -1;
    s.transfer = {};
    s.began = false;
    s.bytes = {};
    s.latency = s.extra_latency = {};
    s.latencies = 1;
    s.limiting = -1;
  }
  void leave(ActorState&, StreamState&);
  void touch(ActorState& a, Actor actor) {
    if (a.touched) return;
    a.touched = true;
    touched_.push_back(actor);
  }
  static void take_over(ActorState&, std::unique_ptr<Program>);
  void check_slots(const Program&) const;
  StreamState& stream_for(ActorState&, const Op&);
  void accept(ActorState&, const Op&);
  void accept(ActorState&, const Repeat&);
  bool could_have_started(const ActorState&, const Op&) const;
  OpId cause(const StreamState&) const;
  void announce_post(StreamState&);
  double launch(const StreamState&, const Cost&);
};

}  // namespace trainyard::execution
