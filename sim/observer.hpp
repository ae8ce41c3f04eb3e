#pragma once
#include <limits>
#include <optional>
#include <span>

#include "sim/machine.hpp"
#include "sim/op.hpp"
#include "sim/program.hpp"
#include "sim/series.hpp"

namespace trainyard {

/// Events closer than this belong to one time step (absolute; SimGrid's surf/precision).
constexpr double kSameTime = 1e-12;  // s

/// Level of detail of a recording. Memory grows with the number of operations only from `ops` on.
enum class Level : std::uint8_t {
  none,    ///< only the end of the run
  totals,  ///< sums per actor and link
  ops,     ///< each operation and message
  links,   ///< as `ops`, and the rate of every link over time
};

/// The calls that an observer wants, and at which level of detail. Calls are most of the cost of observing.
struct Interest {
  Level level = Level::totals;
  bool operations = true;  ///< false: no calls about operations
  bool transfers = true;   ///< false: no calls about messages
  /// True: parts of a series that run without interruption are reported as one operation (OpRun::interval). If the
  /// series is interrupted, the parts still running are posted with their past posting time, and then the interval
  /// ends. If any observer sets this to false, each part is reported as an operation.
  bool stretches = false;
  /// True: rounds of operations that have become identical (execution::Rounds) are skipped and reported as a multiple
  /// of one of them. Operations must have no effects then.
  bool rounds = false;
  bool takes_stretches() const { return stretches || !operations; }
};
/// Interest of a sum over ended operations.
inline constexpr Interest kSums{.level = Level::none, .transfers = false, .stretches = true, .rounds = true};

/// The launch of an operation by a host that may be late.
struct HostLaunch {
  Seconds wait;       ///< how much longer the work takes because its host launches it late; 0: it does not
  Seconds since;      ///< time since which the host has launched operations without a pause
  OpId cause = 0;     ///< the operation for whose end the host waited before; 0: none
  Seconds tail = {};  ///< time at the end of the work for which the host has launched all that is executed
};

/// One execution of an operation. `started` ≥ `posted`: a message waits for its other half.
struct OpRun {
  const Op* op = nullptr;
  OpId id = 0;
  OpId cause = 0;  ///< the operation whose end allowed this one to start
  Seconds posted, started, ended;
  Actor peer = -1;  ///< the other side of a message
  Outcome outcome = Outcome::done;
  /// For Kind::series: the interval that the operation stands for, valid until the operation has finished.
  const SeriesInterval* interval = nullptr;
  /// Number of a part of a series that continues on its own after its interval (`interval`, `cause`) was interrupted;
  /// set only for `posted`. −1: any other operation.
  int part = -1;
  bool began = true;  ///< false: a message that was cancelled before its other half was posted
  HostLaunch launch;  ///< set for `started` only
  // Set when a message has ended. An eager sender ends before its message: see TransferRun.
  Bytes bytes;
  Picoseconds latency;
  Picoseconds extra_latency;    ///< the part of `latency` that the message states: Message::extra_latency
  std::uint32_t latencies = 1;  ///< number of messages whose latencies a flow pays one after the other
  LinkId limiting = -1;

  /// Returns the series that the operation stands for, if all its parts have ended; else null.
  const SeriesTimes* whole_series() const { return interval && interval->is_whole() ? interval->times : nullptr; }
  /// Calls visit(op) for the operation; for an interval, for each part that has ended.
  template <class Visit>
  void for_each_op(Visit visit) const {
    if (!interval) return visit(*op);
    interval->for_each_part([&](std::size_t i) { visit(interval->part(i)); });
  }
};

/// A transfer of a message: latency from `started` on, then bytes until `ended`.
struct TransferRun {
  Actor from = 0, to = 0;
  const Op* send = nullptr;
  const Op* recv = nullptr;  ///< null for a put or eager message whose receive is not posted yet
  OpId send_id = 0, recv_id = 0;
  Bytes bytes;  ///< bytes moved by this transfer
  Route route;
  Seconds started, ended;
  Picoseconds latency;   ///< latency of this route plus the message's extra latency
  LinkId limiting = -1;  ///< link that set the rate when the last byte left; −1: none (no bytes, or the rate cap)
  Outcome outcome = Outcome::done;
  const GroupFlow* group = nullptr;  ///< set for the flow of a group: `bytes` move over each of its edges at once
  /// Set for joins of a series: the group of the breakdown (see Names) that these joins belong to.
  std::optional<GroupId> joins_of = {};
  double joins = 1;  ///< number of consecutive joins that this transfer stands for; `bytes` is their sum
  /// False: more of the message follows (other bytes over another route, or the same bytes on the next leg).
  bool last = true;
  bool last_leg = true;  ///< false: a buffer on the route has stored the message and forwards it
};

/// State of an observer that can skip rounds that have become identical.
class RoundSums {
 public:
  virtual ~RoundSums() = default;
  /// The executor calls this function at the end of a round. Returns false if the observer's sums did not grow as in
  /// the previous round. `live` has three entries for each stream, in the same order in every round: the operation
  /// under way, the operation that ended last, and the cause of the message under way. 0: none.
  virtual bool end_round(std::span<const OpId> live) = 0;
  /// `times` rounds identical to the last one have been skipped.
  virtual void repeat_round(double times) = 0;
};

/// Watches a run. The times in its calls never decrease.
class Observer {
 public:
  virtual ~Observer() = default;
  /// An operation was posted: its dependencies are met. `started` is not set: a message may still wait for its peer.
  virtual void posted(const OpRun&) {}
  /// An operation begins. For a message, called for both halves when the transfer begins.
  virtual void started(const OpRun&) {}
  virtual void finished(const OpRun&) {}
  virtual void transferred(const TransferRun&) {}
  virtual void link_changed(LinkId, BytesPerSecond /*capacity*/) {}
  /// The value of a message moves from its sender to its receiver. Called when both halves are known, in the order in
  /// which messages end.
  virtual void delivered(const OpRun& /*send*/, const OpRun& /*recv*/) {}
  /// For Level::links: the rate of every link that carried bytes in [from, to).
  virtual void link_rates(Seconds /*from*/, Seconds /*to*/, std::span<const BytesPerSecond>) {}
  /// Size of a posted send whose program left it open (NaN), because it depends on computed values. Returns NaN if this
  /// observer does not know it either. The first observer that returns a number decides.
  virtual Bytes size_of(const OpRun&) { return Bytes{std::numeric_limits<double>::quiet_NaN()}; }
  /// All programs have ended, the last operation at `end`. Not called after a deadlock.
  virtual void ended(Seconds /*end*/) {}
  virtual Interest interest() const { return {}; }
  /// Returns null if the observer cannot skip rounds, or has no state that they change.
  virtual RoundSums* round_sums() { return nullptr; }
};

}  // namespace trainyard
