#pragma once
#include <memory>
#include <span>
#include <vector>

#include "sim/executor/ids.hpp"
#include "sim/executor/op_queue.hpp"
#include "sim/machine.hpp"
#include "sim/program.hpp"
#include "sim/series.hpp"

namespace trainyard::execution {

/// A stream of an actor: its queue, and its operation that runs. With thousands of streams whose messages end one by
/// one, each is read from cold memory: what a stream needs lies together, the operation at its head included.
struct alignas(64) StreamState {
  Actor actor = 0;
  Stream index = 0;
  bool busy = false;
  bool closed = false;  // the program will not use it again
  bool timed = false;   // a timer of running work is set
  bool began = false;   // work runs, or both halves of a message are there
  std::uint32_t queued = 0;
  std::uint32_t done = 0;
  OpId last_id = 0;  // of the operation that ended last
  double last_end = -1;

  // Of the running operation:
  OpId id = 0;
  OpId cause = 0;
  Actor peer = -1;
  TransferId transfer;
  ChannelId channel;
  LinkId limiting = -1;
  double posted = 0, started = 0;
  Bytes bytes;  // of a message that has ended
  Picoseconds latency;
  double remaining = 0;  // of its undisturbed duration
  double speed = 0;      // 0: not yet set
  double since = 0;      // remaining and speed hold since then
  TimerId timer;
  std::unique_ptr<OpQueue> behind;  // the head
  const Op* series = nullptr;       // what the head is a part of
  Op head;                          // runs, or is the next to run

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
  /// So many operations which differ by the same, one from the next. What these return: how many take no place of their
  /// own in the queue.
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
  /// As if so many had ended, fewer than are left of the run that the head is of.
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
  // A bit for each stream:
  std::uint64_t dry = 0;  // idle, empty, and the program is asked for more
  std::uint64_t driving = 0;
  std::uint64_t idle = 0;     // its head waits for its dependencies
  std::uint64_t working = 0;  // compute, local or delay runs
  std::unique_ptr<Program> program;
  ChannelSlot first_channel;  // two for each slot
  std::uint32_t slots = 0;
  std::uint32_t queued = 0;
  std::uint32_t at_once = 0;  // of those, so many take no place of their own
  bool exhausted = false;
  bool ended = false;      // exhausted, and all its operations too
  bool waiting = false;    // a dynamic program waits for an event
  bool bound_hit = false;  // the look-ahead was full while a stream was dry
  bool touched = false;
  bool unsettled = false;  // its set of active kinds may have changed
  bool new_work = false;   // work was begun in this time step: it has no timer yet
  bool dynamic = false;
  bool daemon = false;
  bool failed = false;
  double failed_at = 0;
  KindSet active_kinds = 0;
  std::uint16_t active[kKinds] = {};       // running operations by kind
  const SeriesStretch* stretch = nullptr;  // parts of a series that are under way as one
  double port_speed = 1;
  double host = 0;  // when its host has launched what has begun
};

/// All actors and their streams. Streams stay where they are from the start of the run on.
struct ActorTable {
  IndexedVector<ActorState, Actor> actors;
  IndexedVector<StreamState, StreamId> streams;  // of all actors, in their order

  StreamId id_of(const StreamState& s) const { return StreamId{&s - streams.data()}; }
  ActorState& actor_of(const StreamState& s) { return actors[s.actor]; }
};

}  // namespace trainyard::execution
