#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/op.hpp"
#include "sim/repeat.hpp"

namespace trainyard {

enum class Outcome : std::uint8_t { done, cancelled };

/// One of the program's own operations has ended.
struct Event {
  Stream stream = 0;
  Kind kind = Kind::mark;
  Tag tag = 0;
  Actor peer = -1;  ///< the other side of a message
  Outcome outcome = Outcome::done;
  Seconds now;
};

enum class Pull : std::uint8_t {
  op,       ///< an operation was yielded
  waiting,  ///< a dynamic program decides after its next event
  done,     ///< no more operations
  repeat,   ///< several rounds of operations (Repeat)
};

struct KnownGroup;

/// The edges over which a group moves bytes at the same time (see Kind::join): those of one ring, or of several.
struct GroupFlow {
  struct Edge {
    Actor from = 0, to = 0;
    std::int32_t weight = 1;  ///< multiple of the bytes and the rate of the operation
  };
  std::vector<Edge> edges;
  /// Bytes that one member sends and receives, as multiples of the operation's bytes.
  struct Share {
    Actor actor = 0;
    double sends = 0, receives = 0;
  };
  std::vector<Share> shares = {};  ///< used instead of edges if this group stands for several (sim/folding)
  double moved = 0;                ///< with shares: multiple of the operation's bytes that all edges move together
  double copies = 1;               ///< number of groups that this one stands for
  /// True: copy engines, drives or CPUs move the bytes. The flow pays the latency of its longest route and slows no
  /// kernels. False: kernels of the group move them, and the operation gives the latency.
  bool by_engines = false;
  /// Route and link owners, if they are known in advance. Null: `route_of_group` finds the route, and the owners are
  /// unknown.
  const KnownGroup* known_group = nullptr;
};

struct Series;

/// The operations of one actor, yielded one by one as they are needed. A static program never waits and never reads
/// events: the operations that it yields are its schedule.
class Program {
 public:
  virtual ~Program() = default;
  /// Assigns `op` if it returns Pull::op, and `rounds` if it returns Pull::repeat. The pointers stay valid until the
  /// next call. OpReader reads all operations one by one.
  virtual Pull next(const Op*& op, const Repeat*& rounds) = 0;
  /// Reports the end of an operation of this actor, before `next` is called again. Only dynamic programs are notified.
  virtual void notify(const Event&) {}
  virtual bool dynamic() const { return false; }
  /// Returns true if the program only serves others: the run ends when all programs except the daemons have ended.
  virtual bool daemon() const { return false; }
  /// The peers that messages refer to by slot.
  virtual std::span<const Actor> slots() const { return {}; }
  /// Two actors. In a program that stands for several (sim/folding), the machine routes the messages of a slot between
  /// them. −1: this actor and the peer.
  struct Endpoints {
    Actor from = -1, to = -1;
  };
  virtual Endpoints endpoints(std::uint16_t /*slot*/, bool /*sending*/) const { return {}; }
  /// The flows that joins refer to by slot. They live as long as the program. All members of a group share one.
  virtual std::span<const GroupFlow* const> group_flows() const { return {}; }
  /// The series that an operation of Kind::series stands for. Only one stream of an actor may have such operations.
  virtual const Series& series(Tag) const;
  /// Number of streams, numbered 0 … streams() − 1.
  virtual int streams() const { return 1; }
  /// Set of the streams, one bit each, that are refilled when they run dry. A program may leave out a stream with few
  /// operations if it yields them before the operations of other streams that they overlap with.
  virtual std::uint64_t driving() const { return ~std::uint64_t{0}; }
};

/// Reads the operations of a program one by one, including those of rounds that repeat.
class OpReader {
 public:
  /// The program must outlive it.
  explicit OpReader(Program& program) : program_(program) {}
  /// Assigns the operation if it returns Pull::op. Otherwise the program waits or has ended.
  Pull next(Op& op) {
    for (;;) {
      const Op* given = rounds_.take();
      const Repeat* rounds = nullptr;
      const Pull pull = given ? Pull::op : program_.next(given, rounds);
      if (pull == Pull::op) op = *given;
      if (pull != Pull::repeat) return pull;
      rounds_ = *rounds;
    }
  }

 private:
  Program& program_;
  Repeat rounds_;
};

/// Programs by actor, from 0 on. Null: the actor does nothing.
using Programs = std::vector<std::unique_ptr<Program>>;

/// Bounds of the look-ahead. When one stream of a program runs dry, the program is pulled until that stream has work,
/// but only so many operations ahead; rounds that repeat count as one operation. Operations that start late because of
/// this bound are counted and reported.
constexpr std::uint32_t kLeastLookAhead = 1024, kMostLookAhead = 65536;
/// All actors together hold at most this many operations ahead (512 MiB), but each at least kLeastLookAhead.
constexpr std::uint32_t kLookAheadOfAll = 1U << 22;
constexpr std::uint32_t look_ahead(std::size_t actors) {
  const std::size_t share = kLookAheadOfAll / (actors > 0 ? actors : 1);
  return share < kLeastLookAhead  ? kLeastLookAhead
         : share > kMostLookAhead ? kMostLookAhead
                                  : static_cast<std::uint32_t>(share);
}

/// A static program that yields a list of operations. With an empty list, the actor does nothing.
class ListProgram : public Program {
 public:
  ListProgram(std::vector<Op> ops, std::vector<Actor> slots = {}, int streams = 1)
      : ops_(std::move(ops)), slots_(std::move(slots)), streams_(streams) {}
  Pull next(const Op*& op, const Repeat*&) override {
    if (next_op_ == ops_.size()) return Pull::done;
    op = &ops_[next_op_++];
    return Pull::op;
  }
  std::span<const Actor> slots() const override { return slots_; }
  int streams() const override { return streams_; }

 private:
  std::vector<Op> ops_;
  std::vector<Actor> slots_;
  int streams_;
  std::size_t next_op_ = 0;
};

}  // namespace trainyard
