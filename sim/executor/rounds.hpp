#pragma once
#include <vector>

#include "sim/executor/parts.hpp"

namespace trainyard::execution {

/// Skips rounds of a collective (Repeat) that have become identical: everything under way is as it was a round before,
/// only later by the same time. The remaining rounds then need no simulation: time, queues and sums advance by many
/// rounds at once.
///
/// This is exact, because what happens next follows from what is under way and from the operations to come. Both are
/// compared over two rounds: operations, queues, timers, and the bytes left of flows. Whatever stands still beside the
/// rounds (long work, an operation that waits for their end) bounds how many are skipped at once. Observers say whether
/// their sums grow by the same amount each round.
class Rounds : private Parts {
 public:
  explicit Rounds(const Parts& parts) : Parts(parts) {}

  /// Call it if all observers accept skipped rounds and nothing will be changed from outside.
  void allow() { allowed_ = true; }
  /// Ends a time step.
  void settle() {
    if (!allowed_) return;
    if (streams_.any_long_run()) choose_anchor();
    if (anchor_ && table_.streams[anchor_].done >= next_look_) look();
  }

 private:
  /// A time that stands still or moves with the rounds. It belongs to a stream, or to none.
  struct Time {
    StreamId stream;
    double time;
  };
  struct Amount {
    double value, precision;
  };
  struct State {
    double now = 0, end = 0;
    std::uint64_t pulls = 0, late = 0, operations = 0, transfers = 0;
    std::vector<std::uint64_t> facts;  // equal in all identical rounds
    std::vector<Amount> amounts;       // equal in all identical rounds, up to their precision
    std::vector<Time> times;
    IndexedVector<std::uint32_t, StreamId> done;
    IndexedVector<Op, StreamId> heads;
    IndexedVector<OpId, StreamId> ids;
  };

  bool allowed_ = false;
  StreamId anchor_;  // stream in which the end of each operation ends a round
  std::uint32_t next_look_ = 0, wait_ = 0;
  int identical_rounds_ = -1;  // number of consecutive identical rounds; −1: there is no state to compare with
  State before_, now_;
  std::vector<OpId> live_;  // scratch memory of tell_observers

  void choose_anchor();
  void look();
  void wait_longer();

  bool take_state(State&) const;
  void take_transfer(State&, StreamId, const Transfer&) const;
  double precision() const { return 4e-15 * context_.now; }  ///< s; about 16 units in the last place
  double period() const { return now_.now - before_.now; }
  std::uint32_t step(StreamId s) const { return now_.done[s] - before_.done[s]; }
  bool is_alike() const;
  /// Largest number of rounds that can be skipped at once.
  double most_rounds() const;
  double most_rounds(StreamId, const StreamState&) const;
  bool tell_observers();
  void take(std::uint32_t rounds);
};

}  // namespace trainyard::execution
