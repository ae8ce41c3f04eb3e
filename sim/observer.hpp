#pragma once
#include <limits>
#include <span>

#include "sim/machine.hpp"
#include "sim/op.hpp"
#include "sim/program.hpp"
#include "sim/series.hpp"

namespace trainyard {

/// Events within this time are one time step (absolute; SimGrid's surf/precision).
constexpr double kSameTime = 1e-12;  // s

/// How much is recorded. Memory grows with the number of operations only from `ops` on.
enum class Level : std::uint8_t {
  none,    ///< the end
  totals,  ///< sums per actor and link
  ops,     ///< each operation and message
  links,   ///< also the rate of every link over time
};

/// What an observer is told, since calls are most of the cost of observing, and at which level of detail.
struct Interest {
  Level level = Level::totals;
  bool operations = true;  ///< false: no calls about operations
  bool transfers = true;   ///< false: no calls about messages
  /// Parts of a series that nothing interrupts are told as one operation (OpRun::stretch). The parts that go on when one is
  /// interrupted are posted, with a time of posting that is past; then it ends. Where somebody takes no stretches, each part
  /// is an operation.
  bool stretches = false;
  /// Rounds of operations that have become alike (execution::Rounds) pass as so many times one of them. Operations have no
  /// effects then.
  bool rounds = false;
  bool takes_stretches() const { return stretches || !operations; }
};

/// One execution of an operation. `started` ≥ `posted`: a message waits for its other half.
struct OpRun {
  const Op* op = nullptr;
  OpId id = 0;
  OpId cause = 0;  ///< the operation whose end let this one start
  Seconds posted, started, ended;
  Actor peer = -1;  ///< of a message
  Outcome outcome = Outcome::done;
  const SeriesStretch* stretch = nullptr;  ///< of Kind::series: what it stands for, until it has finished
  int part = -1;      ///< when posted: of a stretch (`stretch`, `cause`) that was interrupted, the part that goes on
  bool began = true;  ///< false: a message cancelled before its other half was posted
  // Of a message, when it has ended (an eager sender ends before: see TransferRun):
  Bytes bytes;
  Picoseconds latency;
  LinkId limiting = -1;
};

/// A message that moved: from `started`, latency first, then bytes until `ended`.
struct TransferRun {
  Actor from = 0, to = 0;
  const Op* send = nullptr;
  const Op* recv = nullptr;  ///< null for a put or eager message whose receive is not posted yet
  OpId send_id = 0, recv_id = 0;
  Bytes bytes;  ///< that moved this way
  Route route;
  Seconds started, ended;
  Picoseconds latency;   ///< of this route and extra
  LinkId limiting = -1;  ///< the link that set the rate when the bytes left; −1: none (no bytes, or the rate cap)
  Outcome outcome = Outcome::done;
  const GroupFlow* group = nullptr;  ///< of a group: `bytes` over each of its edges, at once
  double joins = 1;                  ///< of a stretch: so many of the group, one after the other; `bytes` are theirs
  bool last = true;  ///< false: more of the message follows: other bytes over another route, or these on the next leg
  bool last_leg = true;  ///< false: a buffer on the route has stored the message, and passes it on
};

/// What an observer knows, where rounds that are alike pass at once.
class RoundSums {
 public:
  virtual ~RoundSums() = default;
  /// A round is over. False: what is known has not grown by the same as in the round before. `live`: operations under way,
  /// those that ended last on each stream, and what messages under way follow, each as at the end of the round before; 0:
  /// none.
  virtual bool end_round(std::span<const OpId> live) = 0;
  /// So many rounds like the last one have passed at once.
  virtual void repeat_round(double times) = 0;
};

/// Watches a run. Times in calls never go back.
class Observer {
 public:
  virtual ~Observer() = default;
  /// An operation was posted: its dependencies are met (a message may wait on for its peer; `started` is not set).
  virtual void posted(const OpRun&) {}
  /// Work begins; for messages, both halves when the transfer begins.
  virtual void started(const OpRun&) {}
  virtual void finished(const OpRun&) {}
  virtual void transferred(const TransferRun&) {}
  virtual void link_changed(LinkId, BytesPerSecond /*capacity*/) {}
  /// The value of a message moves from its sender to its receiver: called when both halves are known, in the order of
  /// ends.
  virtual void delivered(const OpRun& /*send*/, const OpRun& /*recv*/) {}
  /// Level::links: rate of every link that carried bytes in [from, to).
  virtual void link_rates(Seconds /*from*/, Seconds /*to*/, std::span<const BytesPerSecond>) {}
  /// The bytes of a send that has been posted, where its program could not know them (NaN): what is computed decides. NaN:
  /// this observer knows no more. The first who does is believed.
  virtual Bytes size_of(const OpRun&) { return Bytes{std::numeric_limits<double>::quiet_NaN()}; }
  /// All programs have ended, the last operation at `end`. Not after a deadlock.
  virtual void ended(Seconds /*end*/) {}
  virtual Interest interest() const { return {}; }
  /// Null: it takes no rounds, or knows nothing that they change.
  virtual RoundSums* round_sums() { return nullptr; }
};

}  // namespace trainyard
