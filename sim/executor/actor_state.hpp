#pragma once
#include <algorithm>
#include <memory>
#include <span>

#include "sim/executor/ids.hpp"
#include "sim/executor/op_queue.hpp"
#include "sim/observer.hpp"

namespace trainyard::execution {

/// A stream of an actor: its queue and its running operation. With thousands of streams whose messages end one by one,
/// each stream is read from cold memory; therefore its data lies together, including the operation at its head.
struct alignas(64) StreamState {
  Actor actor = 0;
  Stream index = 0;
  bool busy = false;
  bool closed = false;  // the program will not use this stream again
  bool timed = false;   // a timer for running work is set
  bool began = false;   // work runs, or both halves of a message have been posted
  std::uint32_t queued = 0;
  std::uint32_t done = 0;
  OpId last_id = 0;      // operation that ended last
  double last_end = -1;  // s

  // State of the running operation:
  OpId id = 0;
  OpId cause = 0;
  Actor peer = -1;
  TransferId transfer;
  ChannelId channel;
  LinkId limiting = -1;
  double posted = 0, started = 0;  // s
  Bytes bytes;                     // for a message that has ended
  Picoseconds latency;
  Picoseconds extra_latency;    // the part of `latency` that the message itself states
  std::uint32_t latencies = 1;  // number of messages whose latencies it sums
  double remaining = 0;         // s, of its undisturbed duration
  double speed = 0;             // 0: not set yet
  double since = 0;             // s, time at which `remaining` and `speed` were set
  double launched_by = 0;       // s, time until which work waits for its launch, so that nothing slows it
  TimerId timer;
  std::unique_ptr<OpQueue> behind;  // operations after the head
  const Op* series = nullptr;       // the series that the head is a part of
  Op head;                          // the running operation, or the next to run

  /// Undisturbed seconds of its work that pass from `since` to `now`.
  double progress(double now) const {
    const double waiting = std::clamp(launched_by - since, 0.0, now - since);
    return waiting + (now - since - waiting) * speed;
  }
  /// Seconds after `since` at which work ends if its speed stays.
  double time_left() const {
    const double waiting = std::clamp(launched_by - since, 0.0, remaining);
    return waiting + (remaining - waiting) / speed;
  }

  bool empty() const { return queued == 0; }
  const Op& front() const { return head; }
  void push(const Op& op) {
    if (queued++ == 0) {
      head = op;
      head.actor = actor;
      return;
    }
    if (!behind) behind = std::make_unique<OpQueue>();
    behind->push(op);
  }
  /// Appends `operations` operations, of which `next` is the first. Each differs from the previous one by `stride`.
  /// Returns how many of them occupy no entry of the queue.
  std::uint32_t push(Op next, const Stride& stride, std::uint32_t operations) {
    if (queued == 0) {
      push(next);
      if (--operations == 0) return 0;
      advance(next, stride);
    }
    queued += operations;
    if (!behind) behind = std::make_unique<OpQueue>();
    return behind->push(next, stride, operations);
  }
  std::uint32_t pop() {
    if (--queued == 0) return 0;
    const std::uint32_t at_once = behind->pop(head);
    head.actor = actor;
    return at_once;
  }
  /// Skips operations as if they had ended: fewer than are left of the head's run. Returns how many of them occupied no
  /// entry of the queue.
  std::uint32_t skip(std::uint32_t operations) {
    queued -= operations;
    done += operations;
    const std::uint32_t at_once = behind->skip(operations, head);
    head.actor = actor;
    return at_once;
  }
};

struct alignas(64) ActorState {
  std::span<StreamState> streams;
  // Sets of streams, one bit each:
  std::uint64_t dry = 0;      // idle and empty; the program is asked for more
  std::uint64_t driving = 0;  // see Program::driving
  std::uint64_t idle = 0;     // the head waits for its dependencies
  std::uint64_t working = 0;  // compute, local or delay operation running
  std::unique_ptr<Program> program;
  ChannelSlot first_channel;  // two channels for each slot: sending and receiving
  std::uint32_t slots = 0;
  std::uint32_t queued = 0;
  std::uint32_t at_once = 0;  // how many of the queued operations occupy no entry of the queue
  bool exhausted = false;
  bool ended = false;      // exhausted, and all operations have ended
  bool waiting = false;    // a dynamic program waits for an event
  bool bound_hit = false;  // the look-ahead was full while a stream was dry
  bool touched = false;
  bool unsettled = false;  // the set of active kinds may have changed
  bool new_work = false;   // work without a timer was begun in this time step
  bool dynamic = false;
  bool daemon = false;
  bool failed = false;
  double failed_at = 0;                      // s
  KindSet active_kinds = 0;                  // kinds that ran when interference was last settled
  KindSet present_kinds = 0;                 // kinds whose number in `active` is not 0
  std::uint16_t active[kKinds] = {};         // number of running operations of each kind
  const SeriesInterval* interval = nullptr;  // parts of a series that run as one interval
  double port_speed = 1;
  double host = 0;    // s, time at which the host has launched everything that has begun
  HostLaunch launch;  // the host's last pause; `wait` is set for observers only

  /// Returns true if no operation runs that could slow another one, or be slowed.
  bool is_alone() const { return present_kinds == 0; }
};

/// All actors and their streams. The addresses of streams do not change after the start of the run.
struct ActorTable {
  IndexedVector<ActorState, Actor> actors;
  IndexedVector<StreamState, StreamId> streams;  // streams of all actors, ordered by actor

  StreamId id_of(const StreamState& s) const { return StreamId{&s - streams.data()}; }
  ActorState& actor_of(const StreamState& s) { return actors[s.actor]; }
};

}  // namespace trainyard::execution
