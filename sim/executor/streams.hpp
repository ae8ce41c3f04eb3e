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
  /// A program that is to run later: the run goes on until it has ended.
  void expect(const Program& program) { running_ += program.daemon() ? 0 : 1; }
  /// The operations that an actor was doing or had queued are gone; its program gives no more.
  void fail(Actor);
  /// Its streams run another program.
  void restart(Actor, std::unique_ptr<Program>);

  /// The actor may go on: it is among `take_touched`.
  void touch(Actor actor) { touch(table_.actors[actor], actor); }
  bool any_touched() const { return !touched_.empty(); }
  /// The actors touched since the last call, in order of their numbers.
  void take_touched(std::vector<Actor>&);
  /// Asks the program for operations while one of its streams is dry.
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

  /// The head of the stream begins: its dependencies are met.
  void post(ActorState& a, StreamState& s) {
    s.busy = true;
    a.idle &= ~(std::uint64_t{1} << s.index);
    number(s, context_.now);
    if (!context_.observers.of_operations().empty()) announce_post(s);
  }
  /// It is work of the actor alone.
  void begin_work(StreamState&);
  void announce_start(StreamState&);
  void finish(StreamState&, Outcome);
  OpRun run_of(const StreamState&, double ended, Outcome = Outcome::done) const;

  // Of series (see SeriesRuns):

  /// Adds the streams whose series have a further part.
  void take_next_parts(std::vector<StreamId>& streams) {
    if (!next_parts_.empty()) streams.insert(streams.end(), next_parts_.begin(), next_parts_.end());
    next_parts_.clear();
  }
  /// At the head of a stream; of the series `whole`, which is there until that has ended.
  static void put_part(StreamState& s, const Op& part, const Op& whole);
  /// The join beside a series has ended: its stream is as before.
  static void free_side(StreamState&);
  /// All parts have ended.
  void end_series(StreamState&);
  /// Its event is taken back; the number of the operation that it was.
  OpId break_stretch(StreamState&);
  /// The part at the head began in a stretch that was interrupted: `part` of it.
  void post_part(StreamState&, OpId of, const SeriesStretch&, int part);
  /// What was over of the stretch `of` has ended.
  void announce_break(const StreamState&, OpId of, const Op& whole);
  void take_up_work(StreamState&, double left, double speed);

  // Of rounds (see Rounds):

  /// Nobody asks what operations do to values.
  void drop_effects() { keeps_effects_ = false; }
  bool any_long_run() const { return static_cast<bool>(long_run_); }
  /// A stream whose program has given many rounds at once since the last call.
  StreamId take_long_run() { return std::exchange(long_run_, StreamId{}); }
  std::uint64_t pulls() const { return pulls_; }  ///< of programs
  /// So many operations more; the last end is so much later.
  void skip(std::uint64_t operations, double seconds) {
    next_id_ += static_cast<OpId>(operations);
    end_ += seconds;
  }

  bool finished() const { return running_ == 0; }
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
  std::size_t running_ = 0;  // programs that have not ended, daemons apart
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
    s.latency = {};
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
  StreamState& fed(ActorState&, const Op&);
  void accept(ActorState&, const Op&);
  void accept(ActorState&, const Repeat&);
  bool could_have_started(const ActorState&, const Op&) const;
  OpId cause(const StreamState&) const;
  void announce_post(StreamState&);
  double launch(const StreamState&, const Cost&);
};

}  // namespace trainyard::execution
