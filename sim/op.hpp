#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "sim/units.hpp"

namespace trainyard {

using Actor = std::int32_t;    ///< anything that does work: a rank, a server, a loader, a switch
using Stream = std::uint8_t;   ///< operations of one stream of an actor run in order
using OpId = std::uint32_t;    ///< number of an operation of one simulation, in the order of starting; 0 is none
using Tag = std::uint64_t;     ///< matches a send with its receive
using NameId = std::uint32_t;  ///< a name kept in `Names`
using GroupId = std::uint8_t;  ///< a group kept in `Names`: what a piece of time is booked under

constexpr int kMaxStreams = 64;
/// Buffers numbered from kScratch on are scratch: three for each of the first 1,845 buffers, of the same length, made at
/// their first use. Further buffers share them, which is right for times but not for values.
constexpr std::uint16_t kScratch = 60000;
constexpr std::uint16_t kScratched = (65535 - kScratch) / 3;
constexpr std::uint16_t scratch_of(std::uint16_t buffer, int which) {
  return static_cast<std::uint16_t>(kScratch + 3 * (buffer % kScratched) + which - 1);
}
constexpr std::uint16_t owner_of_scratch(std::uint16_t id) { return static_cast<std::uint16_t>((id - kScratch) / 3); }
/// A buffer is cut into so many chunks at most. The buffer of chunks beyond: nobody counts them, so that they are right for
/// times but not for values.
constexpr int kMostParts = 65535;
constexpr std::uint16_t kUncounted = 0xffff;
/// As the peer of a receive: any actor, the first that sends with that tag.
constexpr std::uint16_t kAnyPeer = 0xffff;

enum class Kind : std::uint8_t {
  compute,  ///< arithmetic on the actor
  local,    ///< work of the actor bound by its memory
  send,
  recv,
  delay,  ///< time passes, nothing is occupied; priced by the Machine too
  mark,   ///< takes no time; carries dependencies, effects, memory
  /// A barrier of `Message::steps` operations of this kind and tag. They end together when all have been posted; with
  /// bytes or latency, when the flow of the group has ended (Program::group_flows, by `Message::slot`). Bytes, extra
  /// latency and rate cap are then those of an edge of weight 1.
  join,
  /// Several operations one after the other (sim/series.hpp), by `Message::tag` (Program::series).
  series,
};
constexpr int kKinds = 8;
/// Does it wait for operations of other actors?
constexpr bool waits_for_others(Kind kind) { return kind == Kind::send || kind == Kind::recv || kind == Kind::join; }

/// When a message moves. rendezvous: when both halves have been posted; both end with it. eager: at once, and the sender
/// goes on (buffered). put: at once, and the sender waits for its end; the receiver need not be ready. get: the sender
/// exposes its data and goes on; when both halves have been posted, the receiver asks for them over the route and reads
/// them, so that it pays the route's latency once more than a put does.
enum class Mode : std::uint8_t { rendezvous, eager, put, get };
constexpr const char* kModeNames[] = {"rendezvous", "eager", "put", "get"};
/// Does the sender go on before the message has arrived?
constexpr bool sender_goes_on(Mode mode) { return mode == Mode::eager || mode == Mode::get; }

/// Which path a message takes, where there are several. network: no NVLink; fabric: between network adapters only.
enum class PathClass : std::uint8_t { automatic, nvlink, pcie, network, fabric };
constexpr int kPathClasses = 5;

/// An amount of work, which the Machine prices. `kernel` and `precision` are numbers that the Machine defines.
struct Work {
  Flops flops;
  Bytes bytes;  ///< moved to and from the actor's own memory
  std::uint16_t kernel = 0;
  std::uint8_t precision = 0;
  std::uint32_t sample = 0;  ///< number of the step that it belongs to: random durations are drawn anew for each
  constexpr bool operator==(const Work&) const = default;
};

struct Message {
  Bytes bytes{};  ///< NaN, of a send: see Observer::size_of
  Tag tag = 0;
  Picoseconds extra_latency{};
  BytesPerSecond rate_cap{};  ///< 0: none
  std::uint16_t slot = 0;     ///< which of the program's peers, or kAnyPeer
  Mode mode = Mode::rendezvous;
  PathClass path = PathClass::automatic;  ///< of a join: over which links its rate cap lies; automatic: none
  /// One message that stands for so many in sequence: it pays the latency of its route as often. 0: not at all
  /// (`extra_latency` has it all). Of a join: the number of members.
  std::uint32_t steps = 1;
  constexpr bool operator==(const Message&) const = default;
};

/// Waits until `count` operations of `stream` of the same actor have ended. A stream ends its operations in order.
struct Dep {
  std::uint32_t count = 0;  ///< 0: no dependency
  Stream stream = 0;
  constexpr bool operator==(const Dep&) const = default;
};

/// Change of the actor's memory: `change` > 0 is taken at the start, < 0 given back at the end;
/// `high_water` is held in addition while the operation runs.
struct Memory {
  double change = 0;
  double high_water = 0;
  constexpr bool operator==(const Memory&) const = default;
};

/// A named buffer of the actor, or `count` of its `of` near-equal chunks, from `chunk` on.
struct BufferRef {
  std::uint16_t buffer = 0;
  std::uint16_t chunk = 0;
  std::uint16_t of = 0;  ///< 0: no buffer
  std::uint16_t count = 1;
  constexpr bool operator==(const BufferRef&) const = default;
  constexpr explicit operator bool() const { return of != 0; }
};

/// What an operation does to values; timing ignores it.
/// reduce adds; divide divides `write` by `call`.
enum class Action : std::uint8_t { none, copy, reduce, reduce_max, reduce_product, divide, call };
struct Effect {
  Action action = Action::none;
  std::uint16_t call = 0;  ///< which registered call
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
  std::uint8_t memory_class : 7 = 0;  ///< what the memory is booked under
  Work work{};
  Message message{};
  Dep deps[2]{};
  Memory memory{};
  Effect effect{};
  NameId name = 0;

  constexpr bool operator==(const Op&) const = default;
  void set_memory_class(std::uint8_t c) { memory_class = c & 0x7fU; }
  /// `change` as in Memory, booked under one of an enumeration of classes.
  template <class Class>
  void book_memory(double change, Class what) {
    memory.change = change;
    set_memory_class(static_cast<std::uint8_t>(what));
  }
  /// Half of a message with the peer of that slot.
  void address(std::size_t slot, Tag tag, Mode mode = Mode::rendezvous) {
    message.slot = static_cast<std::uint16_t>(slot);
    message.tag = tag;
    message.mode = mode;
  }
  /// What it brings, or reads of `from`, is copied there, or summed up.
  void write_to(BufferRef into, Action action = Action::copy, BufferRef from = {}) { effect = {action, 0, from, into}; }
};
// Programs yield ops from coroutines (g++ 12 destroys non-trivial temporaries twice there), and copying is the
// executor's largest cost.
static_assert(std::is_trivially_copyable_v<Op>);
static_assert(sizeof(Op) <= 128);

}  // namespace trainyard
