#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "sim/units.hpp"

namespace trainyard {

using Actor = std::int32_t;    ///< anything that does work: a rank, a server, a loader, a switch
using Stream = std::uint8_t;   ///< the operations of one stream of an actor run in order
using OpId = std::uint32_t;    ///< number of an operation in a simulation, in the order of starting; 0: none
using Tag = std::uint64_t;     ///< matches a send with its receive
using NameId = std::uint32_t;  ///< index of a name in `Names`
using GroupId = std::uint8_t;  ///< index of a group in `Names`, under which time is booked

constexpr int kMaxStreams = 64;
/// Buffers numbered from kScratch on are scratch buffers: three for each of the first 1,845 buffers, of the same
/// length, allocated at first use. Higher-numbered buffers share them, which keeps times right but not values.
constexpr std::uint16_t kScratch = 60000;
constexpr std::uint16_t kScratched = (65535 - kScratch) / 3;
constexpr std::uint16_t scratch_buffer(std::uint16_t buffer, int which) {
  return static_cast<std::uint16_t>(kScratch + 3 * (buffer % kScratched) + which - 1);
}
constexpr std::uint16_t owner_of_scratch(std::uint16_t id) { return static_cast<std::uint16_t>((id - kScratch) / 3); }
/// Largest number of chunks of a buffer. Chunks beyond it all belong to the buffer kUncounted, which keeps times right but
/// not values.
constexpr int kMostParts = 65535;
constexpr std::uint16_t kUncounted = 0xffff;
/// Peer of a receive that takes the first message with its tag, from any actor.
constexpr std::uint16_t kAnyPeer = 0xffff;

enum class Kind : std::uint8_t {
  compute,  ///< arithmetic on the actor
  local,    ///< work bound by the actor's own memory
  send,
  recv,
  delay,  ///< time passes and nothing is occupied; priced by the Machine too
  mark,   ///< takes no time; carries dependencies, effects, memory
  /// A barrier of `Message::steps` operations of this kind and tag. They end together when all have been posted. If
  /// they have bytes or latency, they end when the flow of the group ends (Program::group_flows, by `Message::slot`).
  /// Bytes, extra latency and rate cap are then those of an edge of weight 1.
  join,
  /// Several operations one after the other (sim/series.hpp). `Message::tag` selects the series (Program::series).
  series,
};
constexpr int kKinds = 8;
/// Returns true if such an operation waits for operations of other actors.
constexpr bool waits_for_others(Kind kind) { return kind == Kind::send || kind == Kind::recv || kind == Kind::join; }

/// Time at which a message moves, and whether its sender waits.
enum class Mode : std::uint8_t {
  rendezvous,  ///< when both halves have been posted; both end with it
  eager,       ///< at once; the sender continues (buffered)
  put,         ///< at once, even if the receiver is not ready; the sender waits for its end
  get,         ///< when the receiver requests it (its route's latency counts twice); the sender continues
};
constexpr const char* kModeNames[] = {"rendezvous", "eager", "put", "get"};
/// Returns true if the sender continues before the message has arrived.
constexpr bool sender_goes_on(Mode mode) { return mode == Mode::eager || mode == Mode::get; }

/// Kind of path that a message takes if there are several. network: no NVLink; fabric: only between network adapters.
enum class PathClass : std::uint8_t { automatic, nvlink, pcie, network, fabric };
constexpr int kPathClasses = 5;

/// An amount of work, priced by the Machine, which also defines the numbers `kernel` and `precision`.
struct Work {
  Flops flops;
  Bytes bytes;  ///< moved to and from the actor's own memory
  std::uint16_t kernel = 0;
  std::uint8_t precision = 0;
  std::uint8_t launches = 1;  ///< number of kernels that the host launches for it
  std::uint32_t sample = 0;   ///< number of the step; random durations are drawn anew for each step
  constexpr bool operator==(const Work&) const = default;
};

struct Message {
  Bytes bytes{};  ///< NaN for a send of unknown size: see Observer::size_of
  Tag tag = 0;
  Picoseconds extra_latency{};
  BytesPerSecond rate_cap{};  ///< 0: none
  std::uint16_t slot = 0;     ///< index of the peer in the program's slots, or kAnyPeer
  Mode mode = Mode::rendezvous;
  PathClass path = PathClass::automatic;  ///< for a join: the links that its rate cap applies to; automatic: none
  /// Number of consecutive messages that this one stands for: it pays the latency of its route as many times. 0: it
  /// does not pay it at all (`extra_latency` includes it). For a join: the number of members.
  std::uint32_t steps = 1;
  constexpr bool operator==(const Message&) const = default;
};

/// Waits until `count` operations of `stream` of the same actor have ended. Operations of a stream end in order.
struct Dep {
  std::uint32_t count = 0;  ///< 0: no dependency
  Stream stream = 0;
  constexpr bool operator==(const Dep&) const = default;
};

/// Change of the actor's memory in bytes. `change` > 0 is allocated at the start; `change` < 0 is freed at the end.
/// `high_water` is occupied in addition while the operation runs.
struct Memory {
  double change = 0;
  double high_water = 0;
  constexpr bool operator==(const Memory&) const = default;
};

/// A buffer of the actor, cut into `chunks` near-equal chunks: `count` of them, from `chunk` on.
struct BufferRef {
  std::uint16_t buffer = 0;
  std::uint16_t chunk = 0;
  std::uint16_t chunks = 0;  ///< number of chunks; 0: no buffer
  std::uint16_t count = 1;
  constexpr bool operator==(const BufferRef&) const = default;
  constexpr explicit operator bool() const { return chunks != 0; }
};

/// Effect of an operation on values. Timing ignores it. `reduce` adds; `divide` divides `write` by `call`.
enum class Action : std::uint8_t { none, copy, reduce, reduce_max, reduce_product, divide, call };
struct Effect {
  Action action = Action::none;
  std::uint16_t call = 0;  ///< index of a registered call, or the divisor
  BufferRef read, write;
  constexpr bool operator==(const Effect&) const = default;
};

/// One piece of work of one actor.
struct Op {
  Actor actor = 0;
  Stream stream = 0;
  Kind kind = Kind::mark;
  GroupId group = 0;
  bool last_of_stream : 1 = false;    ///< the program will not use this stream again
  std::uint8_t memory_class : 7 = 0;  ///< class under which the memory is booked
  Work work{};
  Message message{};
  Dep deps[2]{};
  Memory memory{};
  Effect effect{};
  NameId name = 0;

  constexpr bool operator==(const Op&) const = default;
  void set_memory_class(std::uint8_t c) { memory_class = c & 0x7fU; }
  /// Sets the memory change (see Memory) and the class under which it is booked.
  template <class Class>
  void book_memory(double change, Class what) {
    memory.change = change;
    set_memory_class(static_cast<std::uint8_t>(what));
  }
  /// Makes this operation half of a message with the peer of that slot.
  void address(std::size_t slot, Tag tag, Mode mode = Mode::rendezvous) {
    message.slot = static_cast<std::uint16_t>(slot);
    message.tag = tag;
    message.mode = mode;
  }
  /// Copies or reduces data into `into`: those of the message, or those at `from`.
  void write_to(BufferRef into, Action action = Action::copy, BufferRef from = {}) { effect = {action, 0, from, into}; }
};
// Operations are trivially copyable, because programs yield them from coroutines, in which g++ 12 destroys non-trivial
// temporaries twice. They are small, because copying them is the executor's largest cost.
static_assert(std::is_trivially_copyable_v<Op>);
static_assert(sizeof(Op) <= 128);

}  // namespace trainyard
