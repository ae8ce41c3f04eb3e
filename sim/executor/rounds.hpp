#pragma once
#include <vector>

#include "sim/executor/streams.hpp"
#include "sim/executor/transfers.hpp"

namespace trainyard::execution {

/// Rounds of a collective (Repeat) that have become alike: all that is under way is as it was a round before, only later by
/// the same time. Then the rounds that are left need not be simulated: time, queues and sums go on by so many rounds at once.
///
/// Exact, because what happens next follows from what is under way and from the operations to come. Both are compared, each
/// time over two rounds: operations, queues, timers, and the bytes that flows have left. What stands still beside the
/// rounds (work that goes on for long, an operation that waits for their end) bounds how many are taken at once. Observers
/// say whether what they know grows by the same each round.
class Rounds {
 public:
  Rounds(Context& context, ActorTable& table, Streams& streams, Transfers& transfers)
      : context_(context), table_(table), streams_(streams), transfers_(transfers) {}

  /// All observers take rounds, and nothing will be changed from outside.
  void allow() { allowed_ = true; }
  /// The end of a time step.
  void settle() {
    if (!allowed_) return;
    if (streams_.any_long_run()) choose_anchor();
    if (anchor_ && table_.streams[anchor_].done >= next_look_) look();
  }

 private:
  /// A time that stands still or moves with the rounds, of a stream or (none) of whatever.
  struct Time {
    StreamId of;
    double at;
  };
  struct Amount {
    double value, precision;
  };
  struct State {
    double now = 0, end = 0;
    std::uint64_t pulls = 0, late = 0, operations = 0, transfers = 0;
    std::vector<std::uint64_t> facts;  // equal from round to round
    std::vector<Amount> amounts;       // the same
    std::vector<Time> times;
    IndexedVector<std::uint32_t, StreamId> done;
    IndexedVector<Op, StreamId> heads;
    IndexedVector<OpId, StreamId> ids;
  };

  Context& context_;
  ActorTable& table_;
  Streams& streams_;
  Transfers& transfers_;
  bool allowed_ = false;
  StreamId anchor_;  // after each of its operations a round is over
  std::uint32_t next_look_ = 0, wait_ = 0;
  int alike_ = -1;  // rounds in a row; −1: there is no state to compare with
  State before_, now_;
  std::vector<OpId> live_;  // scratch of tell_observers

  void choose_anchor();
  void look();
  void wait_longer();

  bool take_state(State&) const;
  void take_transfer(State&, StreamId, const Transfer&) const;
  double precision() const { return 4e-15 * context_.now; }  ///< s; some 16 of the last bits
  double period() const { return now_.now - before_.now; }
  std::uint32_t step(StreamId s) const { return now_.done[s] - before_.done[s]; }
  bool is_alike() const;
  /// How many rounds can be taken at once.
  double most_rounds() const;
  double most_rounds(StreamId, const StreamState&) const;
  bool tell_observers();
  void take(std::uint32_t rounds);
};

}  // namespace trainyard::execution
