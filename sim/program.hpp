#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/op.hpp"

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
  op,       ///< an operation was given
  waiting,  ///< a dynamic program decides after its next event
  done,     ///< no more operations
};

/// The ways that a group uses all at once while it meets (see Kind::join): those of a ring, or of several.
struct GroupFlow {
  struct Edge {
    Actor from = 0, to = 0;
    std::int32_t weight = 1;  ///< so many times the bytes and the rate of the operation
  };
  std::vector<Edge> edges;
  /// Moved by copy engines, drives and CPUs: it pays the latency of its longest way, and slows no kernels. False: by
  /// kernels of the group, whose operation says the latency.
  bool by_engines = false;
};

/// What one actor does: gives its operations one by one, as they are needed. A static program never waits and never
/// looks at events; the operations that it gives are its schedule.
class Program {
 public:
  virtual ~Program() = default;
  /// Assigns the whole operation where it gives one.
  virtual Pull next(Op&) = 0;
  /// The same without a copy, where the program holds the operation itself: it stays valid until the next call.
  virtual Pull give(const Op*& op, Op& scratch) {
    op = &scratch;
    return next(scratch);
  }
  /// Every end of an operation of this actor, before `next` is asked again. Only for dynamic programs.
  virtual void notify(const Event&) {}
  virtual bool dynamic() const { return false; }
  /// Serves others: the run ends without it, when all other programs have ended.
  virtual bool daemon() const { return false; }
  /// The peers that messages name by slot.
  virtual std::span<const Actor> slots() const { return {}; }
  /// The flows that joins name by slot. They stay as long as the program, and all members of a group share one.
  virtual std::span<const GroupFlow* const> group_flows() const { return {}; }
  /// Number of streams used: 0 … streams() − 1.
  virtual int streams() const { return 1; }
  /// A bit for each stream that asks for more when it runs dry. A program whose one stream has most of the operations,
  /// and which gives what goes on beside an operation of it before that one, needs no look-ahead for the others.
  virtual std::uint64_t driving() const { return ~std::uint64_t{0}; }
};

/// A program whose one stream runs dry is pulled on until there is work for it, at most this many operations ahead: a
/// program that uses one stream only is not pulled to its end. What starts late for it is counted and reported.
constexpr std::uint32_t kLeastLookAhead = 1024, kMostLookAhead = 65536;
/// All actors together keep no more than this many operations ahead (512 MiB), as long as that leaves each the least.
constexpr std::uint32_t kLookAheadOfAll = 1U << 22;
constexpr std::uint32_t look_ahead(std::size_t actors) {
  const std::size_t share = kLookAheadOfAll / (actors > 0 ? actors : 1);
  return share < kLeastLookAhead  ? kLeastLookAhead
         : share > kMostLookAhead ? kMostLookAhead
                                  : static_cast<std::uint32_t>(share);
}

}  // namespace trainyard
