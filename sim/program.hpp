#pragma once
#include <cstdint>
#include <memory>
#include <span>
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
  Actor peer = -1;  ///< of a message
  Outcome outcome = Outcome::done;
  Seconds now;
};

enum class Pull : std::uint8_t {
  op,       ///< an operation was yielded
  waiting,  ///< a dynamic program decides after its next event
  done,     ///< no more operations
  repeat,   ///< a number of rounds of operations (Repeat)
};

/// The edges over which a group moves bytes at once (see Kind::join): those of a ring, or of several.
struct GroupFlow {
  struct Edge {
    Actor from = 0, to = 0;
    std::int32_t weight = 1;  ///< multiple of the bytes and the rate of the operation
  };
  std::vector<Edge> edges;
  /// Of a group that stands for several (sim/folding), in place of edges: what a member sends and receives of the bytes, what
  /// all edges move, and how many groups there are.
  struct Share {
    Actor actor = 0;
    double sends = 0, receives = 0;
  };
  std::vector<Share> shares = {};
  double moved = 0;
  double copies = 1;
  /// Moved by copy engines, drives and CPUs: it pays the latency of its longest route, and slows no kernels. False: moved
  /// by kernels of the group; the operation gives the latency.
  bool by_engines = false;
};

struct Series;

/// What one actor does: yields its operations one by one, as they are needed. A static program never waits and never
/// reads events; the operations that it yields are its schedule.
class Program {
 public:
  virtual ~Program() = default;
  /// Assigns `op` if it returns Pull::op, and `rounds` if Pull::repeat. What they point to stays valid until the next call.
  /// OpReader gives all operations one by one.
  virtual Pull next(const Op*& op, const Repeat*& rounds) = 0;
  /// Every end of an operation of this actor, before `next` is asked again. Only for dynamic programs.
  virtual void notify(const Event&) {}
  virtual bool dynamic() const { return false; }
  /// It serves others: the run ends when all programs but the daemons have ended.
  virtual bool daemon() const { return false; }
  /// The peers that messages name by slot.
  virtual std::span<const Actor> slots() const { return {}; }
  /// Between whom the machine routes what is sent or received over a slot, where that is not this actor and that peer: of
  /// a program that stands for several (sim/folding).
  struct Way {
    Actor from = -1, to = -1;
  };
  virtual Way way(std::uint16_t /*slot*/, bool /*sending*/) const { return {}; }
  /// The flows that joins name by slot. They live as long as the program, and all members of a group share one.
  virtual std::span<const GroupFlow* const> group_flows() const { return {}; }
  /// What an operation of Kind::series stands for. Only one stream of an actor may have such operations.
  virtual const Series& series(Tag) const;
  /// Number of streams used: 0 … streams() − 1.
  virtual int streams() const { return 1; }
  /// A bit for each stream that is refilled when it runs dry. If one stream has most of the operations, and the program
  /// yields those of other streams before the operation that they overlap with, the others need no look-ahead.
  virtual std::uint64_t driving() const { return ~std::uint64_t{0}; }
};

/// The operations of a program one by one, those of rounds that repeat too.
class OpReader {
 public:
  /// The program must outlive it.
  explicit OpReader(Program& program) : program_(program) {}
  /// Assigns the operation if it returns Pull::op; otherwise the program waits or has ended.
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

/// By actor, from 0; null: one that does nothing.
using Programs = std::vector<std::unique_ptr<Program>>;

/// When one stream of a program runs dry, the program is pulled until that stream has work, at most this many operations
/// ahead, where rounds that repeat count as one. Operations that start late because of this bound are counted and reported.
constexpr std::uint32_t kLeastLookAhead = 1024, kMostLookAhead = 65536;
/// All actors together hold at most this many operations ahead (512 MiB), unless that leaves one less than the least.
constexpr std::uint32_t kLookAheadOfAll = 1U << 22;
constexpr std::uint32_t look_ahead(std::size_t actors) {
  const std::size_t share = kLookAheadOfAll / (actors > 0 ? actors : 1);
  return share < kLeastLookAhead  ? kLeastLookAhead
         : share > kMostLookAhead ? kMostLookAhead
                                  : static_cast<std::uint32_t>(share);
}

}  // namespace trainyard
