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

/// What one actor does: gives its operations one by one, as they are needed. A static program never waits and never
/// looks at events; the operations that it gives are its schedule.
class Program {
 public:
  virtual ~Program() = default;
  /// Assigns the whole operation where it gives one.
  virtual Pull next(Op&) = 0;
  /// Every end of an operation of this actor, before `next` is asked again. Only for dynamic programs.
  virtual void notify(const Event&) {}
  virtual bool dynamic() const { return false; }
  /// Serves others: the run ends without it, when all other programs have ended.
  virtual bool daemon() const { return false; }
  /// The peers that messages name by slot.
  virtual std::span<const Actor> slots() const { return {}; }
  /// Number of streams used: 0 … streams() − 1.
  virtual int streams() const { return 1; }
};

/// A look-ahead of this many operations per actor, like a launch queue: a program that uses one stream only is not
/// pulled to its end to find work for another.
constexpr std::uint32_t kLookAhead = 1024;

}  // namespace trainyard
