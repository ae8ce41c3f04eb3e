#pragma once
#include "sim/executor.hpp"

namespace trainyard {

// What an agenda token stands for: two bits, then the number of a stream, a transfer or a link change.
enum class Timer : std::uint64_t { work = 0, latency = 1, change = 2 };
constexpr Agenda::Token token(Timer kind, std::uint64_t index) {
  return static_cast<std::uint64_t>(kind) << 60 | index;
}
constexpr Timer kind_of(Agenda::Token t) { return static_cast<Timer>(t >> 60); }
constexpr std::uint32_t index_of(Agenda::Token t) { return static_cast<std::uint32_t>(t); }

inline constexpr Matcher::Ref stream_ref(Actor actor, Stream stream) {
  return static_cast<Matcher::Ref>(actor) * kMaxStreams + stream;
}

constexpr std::uint32_t kTransferRef = 0x80000000U;
constexpr std::uint32_t kNone = 0xffffffffU;

struct Executor::StreamState {
  // The running operation stays at the head of the queue: operations are large, and are copied once only.
  std::vector<Op> queue;
  std::size_t head = 0;
  bool busy = false;
  bool closed = false;  // the program will not use it again
  bool timed = false;   // a timer of running work is set
  std::uint32_t done = 0;
  OpId last_id = 0;  // of the operation that ended last
  double last_end = -1;

  // Of the running operation:
  OpId id = 0;
  OpId cause = 0;
  double posted = 0, started = 0;
  bool began = false;  // work runs, or both halves of a message are there
  Bytes bytes;         // of a message that has ended
  Picoseconds latency;
  LinkId limiting = -1;
  Actor peer = -1;
  Agenda::TimerId timer = 0;
  double remaining = 0;  // of its undisturbed duration
  double speed = 0;      // 0: not yet set
  double since = 0;      // remaining and speed hold since then
  std::uint32_t transfer = kNone;
  ChannelId channel = -1;

  bool empty() const { return head == queue.size(); }
  const Op& front() const { return queue[head]; }
  void push(const Op& op) {
    if (head > 64 && head * 2 > queue.size()) {
      queue.erase(queue.begin(), queue.begin() + static_cast<std::ptrdiff_t>(head));
      head = 0;
    }
    queue.push_back(op);
  }
  void pop() {
    if (++head == queue.size()) {
      queue.clear();
      head = 0;
    }
  }
};

struct Executor::ActorState {
  std::unique_ptr<Program> program;
  std::vector<StreamState> streams;
  std::vector<ChannelId> send_channels, recv_channels;  // by slot, −1: not asked yet
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
  std::uint16_t active[kKinds] = {};  // running operations by kind
  KindSet active_kinds = 0;
  double port_speed = 1;
};

struct Executor::Transfer {
  // departing: its bytes leave at the end of this time step; landed: they have all come in this step.
  enum class State : std::uint8_t { free, latency, parked, departing, flowing, landed, instant, arrived };
  State state = State::free;
  Mode mode = Mode::rendezvous;
  Actor from = 0, to = 0;
  Stream send_stream = 0;
  Ref recv = kNone;
  Message message;
  Op sent_op;  // a sender that does not wait for the receiver may go on before its message is received
  OpId send_id = 0;
  OpId cause = 0;
  double send_posted = 0;
  double started = 0, ended = 0;
  Bytes left;   // to be moved still, when (re)started
  Bytes seen;   // remaining at the last recording of rates
  Route route;  // the leg that is under way, where buffers take the message up whole
  bool by_legs = false;
  std::span<const Leg> legs_left;  // after it
  Bytes leg_bytes;                 // of each of them
  double leg_started = 0;          // or when what is left of it took another way
  ChannelId channel = -1;
  Picoseconds latency;      // of all legs
  Picoseconds leg_latency;  // of the one under way
  FlowId flow = -1;         // −1: not with the transport (about to leave, or ended)
  bool timed = false;       // a timer of its latency is set
  LinkId limiting = -1;
  Agenda::TimerId timer = 0;
};

}  // namespace trainyard
