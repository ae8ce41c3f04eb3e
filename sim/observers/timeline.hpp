#pragma once
#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/index.hpp"
#include "sim/observer.hpp"

namespace trainyard {

/// Record of one operation.
struct OpRecord {
  OpId cause = 0;
  NameId name = 0;
  Actor actor = 0, peer = -1;
  double posted = 0, started = 0, ended = 0;  // s
  double bytes = 0;                           // for a message
  double latency = 0;                         // s, for a message
  double extra_latency = 0;                   // s, the part of it that the message states
  std::uint32_t latencies = 1;                // number of messages whose latencies a flow pays one after the other
  Tag tag = 0;
  Work work;
  LinkId limiting = -1;
  Kind kind = Kind::mark;
  Stream stream = 0;
  GroupId group = 0;
  PathClass path_class = PathClass::automatic;
  bool began = true;
  const char* path = "";  // name of a message's route
  HostLaunch launch;      // set if its host launched it late
};

/// Record of a finished operation. The route of a message is not known yet.
OpRecord record_of(const OpRun&);

/// Part of a message that moved in several parts: leg by leg, or over another route after a link failure. Each part
/// starts when the previous one ends.
struct LegRecord {
  double started = 0, ended = 0, latency = 0;  // s
  LinkId limiting = -1;
};

/// Records every operation of a run by its number (1 …): for traces, pictures and the critical path.
class Timeline : public Observer {
 public:
  Interest interest() const override { return {.level = Level::ops}; }
  void started(const OpRun&) override;
  void finished(const OpRun&) override;
  void transferred(const TransferRun&) override;
  void delivered(const OpRun& send, const OpRun& recv) override { share_message(send.id, recv.id); }
  const std::vector<OpRecord>& records() const { return records_; }  ///< records()[id − 1]
  /// Empty, except for both halves of a message that moved in several parts.
  const std::vector<LegRecord>& legs(OpId) const;

 private:
  std::vector<OpRecord> records_;
  std::unordered_map<OpId, std::vector<LegRecord>> legs_;
  OpRecord& record(OpId);
  void share_message(OpId send, OpId recv);
};

/// Resource of a message that no saturated link slows: its own rate cap limits it.
constexpr const char* kOwnLimit = "message's own limit";

/// Resource of the time in which a host launches operations one after the other, none of them in time.
constexpr const char* kHostLaunch = "host launch";

/// A part of the critical path, booked under a resource: "compute", "memory" (local work), "delay", a kind of link
/// ("HCA"), "latency", kOwnLimit, kHostLaunch, or "waiting" (for the other half of a message that was cancelled before it came).
struct PathStep {
  OpId id = 0;
  double begin = 0, end = 0;  ///< s
  std::string resource;
};

/// Splits an operation's time into pieces by resource, in order: visit(begin, end, resource).
template <class Visit>
void for_each_piece(const OpRecord& r, std::span<const LegRecord> legs, std::span<const Link> links, Visit visit) {
  if (!(r.ended > r.started)) return;
  if (!r.began) return visit(r.started, r.ended, std::string_view("waiting"));
  if (!waits_for_others(r.kind))
    return visit(r.started, r.ended,
                 std::string_view(r.kind == Kind::compute ? "compute"
                                  : r.kind == Kind::local ? "memory"
                                                          : "delay"));
  // A message's latency, then its bytes, leg by leg.
  const auto leg = [&](double started, double ended, double latency, LinkId limiting) {
    const double moving = std::min(ended, started + latency);
    if (moving > started) visit(started, moving, std::string_view("latency"));
    if (ended > moving)
      visit(moving, ended,
            limiting >= 0 ? std::string_view(links[position(limiting)].kind.text()) : std::string_view(kOwnLimit));
  };
  if (legs.empty()) return leg(r.started, r.ended, r.latency, r.limiting);
  for (const LegRecord& part : legs) leg(part.started, part.ended, part.latency, part.limiting);
}

/// Returns the critical path in order of time, from 0 to the end of the run or of the operation `last` (0: of the run).
/// Each operation on it waited for the previous one; the length of the path is the makespan. If several operations end
/// at the same moment, the path ends with that of the lowest actor on its first stream. A step goes back first to the
/// same stream, then to the same actor, then to a peer for which the actor waited. From work that its host launches late
/// it goes back to what the host waited for when it last paused; the time since then is kHostLaunch.
std::vector<PathStep> critical_path(const Timeline&, std::span<const Link>, OpId last = 0);

/// Seconds of the critical path by resource.
std::map<std::string, double> by_resource(const std::vector<PathStep>&);

}  // namespace trainyard
