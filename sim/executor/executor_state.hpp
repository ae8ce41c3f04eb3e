#pragma once
#include <algorithm>
#include <memory>

#include "sim/executor/executor.hpp"

namespace trainyard {

// What an agenda token stands for: its kind, then the number of a stream, a transfer or a change (of links first, then of
// actors).
enum class Timer : std::uint64_t { work = 0, latency = 1, change = 2 };
constexpr Agenda::Token token(Timer kind, std::uint64_t index) {
  return static_cast<std::uint64_t>(kind) << 60 | index;
}
constexpr Timer kind_of(Agenda::Token t) { return static_cast<Timer>(t >> 60); }
constexpr std::uint32_t index_of(Agenda::Token t) { return static_cast<std::uint32_t>(t); }

constexpr std::uint32_t kTransferRef = 0x80000000U;
constexpr std::uint32_t kNone = 0xffffffffU;

/// Asks for the cache lines of what will be touched soon.
template <class T>
void fetch(const T& thing) {
  const char* begin = reinterpret_cast<const char*>(&thing);
  for (std::size_t line = 0; line < sizeof(T); line += 64) __builtin_prefetch(begin + line);
}

/// First in, first out, in one block that is kept.
class OpQueue {
 public:
  void push(const Op& op) {
    if (count_ == ops_.size()) grow();
    ops_[(first_ + count_++) & (ops_.size() - 1)] = op;
  }
  void pop(Op& op) {
    op = ops_[first_];
    first_ = (first_ + 1) & (ops_.size() - 1);
    --count_;
  }

 private:
  std::vector<Op> ops_;  // a power of two of them
  std::size_t first_ = 0, count_ = 0;

  void grow() {
    std::rotate(ops_.begin(), ops_.begin() + static_cast<std::ptrdiff_t>(first_), ops_.end());
    first_ = 0;
    ops_.resize(std::max<std::size_t>(2, 2 * ops_.size()));
  }
};

// Thousands of streams whose messages end one by one are taken up from cold memory: what a stream needs lies together,
// the operation at its head included.
struct alignas(64) Executor::StreamState {
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
  std::uint32_t transfer = kNone;
  ChannelId channel = -1;
  LinkId limiting = -1;
  double posted = 0, started = 0;
  Bytes bytes;  // of a message that has ended
  Picoseconds latency;
  double remaining = 0;  // of its undisturbed duration
  double speed = 0;      // 0: not yet set
  double since = 0;      // remaining and speed hold since then
  Agenda::TimerId timer = 0;
  std::unique_ptr<OpQueue> behind;  // the head
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
  void pop() {
    if (--queued == 0) return;
    behind->pop(head);
    head.actor = actor;
  }
};

struct alignas(64) Executor::ActorState {
  std::span<StreamState> streams;
  // A bit for each stream:
  std::uint64_t dry = 0;  // idle, empty, and the program is asked for more
  std::uint64_t driving = 0;
  std::uint64_t idle = 0;  // its head waits for its dependencies
  std::unique_ptr<Program> program;
  std::uint32_t channels = 0, slots = 0;  // the first of them in Executor::channels_: two for each slot
  std::uint32_t queued = 0;
  bool exhausted = false;
  bool ended = false;      // exhausted, and all its operations too
  bool waiting = false;    // a dynamic program waits for an event
  bool bound_hit = false;  // the look-ahead was full while a stream was dry
  bool touched = false;
  bool settling = false;
  bool fresh_work = false;  // work was begun in this time step: it has no timer yet
  bool dynamic = false;
  bool daemon = false;
  bool failed = false;
  double failed_at = 0;
  KindSet active_kinds = 0;
  std::uint16_t active[kKinds] = {};  // running operations by kind
  double port_speed = 1;
};

struct alignas(64) Executor::Transfer {
  // departing: its bytes leave at the end of this time step; landed: they have all come in this step.
  enum class State : std::uint8_t { free, latency, parked, departing, flowing, landed, instant, arrived };
  State state = State::free;
  Mode mode = Mode::rendezvous;
  PathClass path = PathClass::automatic;
  bool timed = false;  // a timer of its latency is set
  bool by_legs = false;
  Actor from = 0, to = 0;
  Ref send = kNone, recv = kNone;  // an eager sender may have gone on
  ChannelId channel = -1;
  std::uint32_t members = kNone;  // of a group that meets: their number in member_lists_
  const GroupFlow* group = nullptr;
  OpId send_id = 0;
  OpId cause = 0;
  FlowId flow = -1;  // −1: not with the transport (about to leave, or ended)
  LinkId limiting = -1;
  Agenda::TimerId timer = 0;
  std::uint32_t steps = 1;
  Bytes bytes;  // of the message
  Picoseconds extra_latency;
  BytesPerSecond rate_cap;
  double send_posted = 0;
  double started = 0, ended = 0;
  Bytes left;  // to be moved still, when (re)started
  Bytes seen;  // remaining at the last recording of rates
  const Route* way = nullptr;
  std::span<const LinkUse> links;  // of the way, or of the leg under way where buffers take the message up whole
  std::span<const Leg> legs_left;  // after it
  Bytes leg_bytes;                 // of each of them
  double leg_started = 0;          // or when what is left of it took another way
  Picoseconds latency;             // of all legs
  Picoseconds leg_latency;         // of the one under way
};

}  // namespace trainyard
