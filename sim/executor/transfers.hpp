#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/executor/actor_state.hpp"
#include "sim/executor/context.hpp"
#include "sim/executor/ids.hpp"
#include "sim/executor/links.hpp"
#include "sim/group_balance.hpp"
#include "sim/machine.hpp"
#include "sim/op.hpp"
#include "sim/program.hpp"
#include "sim/transports/transport.hpp"

namespace trainyard::execution {

/// Caches the machine's routes, which are requested once for each channel and path class. Replaced routes stay valid,
/// because messages in flight refer to them.
class RouteCache {
 public:
  explicit RouteCache(const Machine& machine) : machine_(machine) {}

  const Route& find(ChannelId channel, PathClass path, Actor from, Actor to) {
    IndexedVector<Entry, ChannelId>& cache = by_path_[static_cast<std::uint8_t>(path)];
    if (cache.contains(channel) && cache[channel].version == version_) return cache[channel].current->route;
    return ask(channel, path, from, to);
  }
  const Route& find(const GroupFlow&);
  /// Routes the channel's messages between other actors than its sender and receiver.
  void set_endpoints(ChannelId channel, Program::Endpoints endpoints) { endpoints_.grown(channel) = endpoints; }
  /// A link failed or came back: all routes are requested again.
  void invalidate() {
    ++version_;
    balance_ = {};
  }

 private:
  struct CachedRoute {
    Route route;
    const CachedRoute* older;  // route of the same entry from before a link failed or came back
  };
  struct Entry {
    const CachedRoute* current = nullptr;
    const CachedRoute* newest = nullptr;
    std::uint32_t version = 0;
  };
  const Machine& machine_;
  std::array<IndexedVector<Entry, ChannelId>, kPathClasses> by_path_;
  IndexedVector<Program::Endpoints, ChannelId> endpoints_;
  std::unordered_map<const GroupFlow*, Entry> group_entries_;
  std::deque<CachedRoute> cached_;
  std::deque<std::vector<LinkUse>> group_links_;  // referred to by the routes of groups
  std::uint32_t version_ = 1;
  GroupBalance balance_;

  const Route& ask(ChannelId, PathClass, Actor from, Actor to);
  void add(Entry&, const Route&);
};

/// A message under way, or the flow of a join: latency first, then bytes, over its whole route or leg by leg.
struct alignas(64) Transfer {
  enum class State : std::uint8_t {
    free,
    latency,    ///< the timer of its latency runs
    parked,     ///< no path is left: it waits for a link to come back
    departing,  ///< its bytes depart at the end of this time step
    flowing,    ///< the transport moves it
    landed,     ///< all bytes arrived in this time step
    instant,    ///< it has no bytes to move and ends in this time step
    arrived,    ///< it is buffered at the receiver, which has not asked for it yet
    exposed,    ///< it lies at the sender until the receiver gets it
  };
  State state = State::free;
  Mode mode = Mode::rendezvous;
  PathClass path = PathClass::automatic;
  bool timed = false;  // a timer for its latency is set
  bool by_legs = false;
  bool is_load = false;  // it counts as a load of its links
  bool slow = false;     // the route that it started on is slow: see kSlowMessages
  bool counts = false;   // it counts as active at its actors
  Actor from = 0, to = 0;
  StreamId send, recv;  // an eager sender may have continued
  ChannelId channel;
  MembersId members;                 // for a join
  const GroupFlow* group = nullptr;  // for a join
  OpId send_id = 0;
  OpId cause = 0;
  FlowId flow;  // set while it flows
  LinkId limiting = -1;
  TimerId timer;
  std::uint32_t steps = 1;
  Bytes bytes;  // size of the whole message
  Picoseconds extra_latency;
  BytesPerSecond rate_cap;
  double send_posted = 0;         // s
  double started = 0, ended = 0;  // s
  Bytes left;                     // still to be moved when it was (re)started, without later flowlets
  Bytes later;                    // bytes of flowlets that choose their routes when they start
  Bytes seen;                     // left when the rates of links were last recorded
  const Route* route = nullptr;
  std::span<const LinkUse> links;  // links of the route, or of the present leg if buffers store the whole message
  std::span<const Leg> legs_left;  // after the present leg
  Bytes leg_bytes;                 // bytes that each leg moves
  double leg_started = 0;          // s, start of the present leg, or of the rest of it on another route
  Picoseconds latency;             // sum over all legs
  Picoseconds leg_latency;         // latency of the present leg

  /// Returns true if it is not moving: it has arrived, or waits to be fetched.
  bool rests() const { return state == State::arrived || state == State::exposed; }
  bool is_join() const { return group != nullptr; }
};

/// Records the size, latency and limiting link of an ended transfer with one of its operations.
inline void note_transfer(const Transfer& t, StreamState& s) {
  s.bytes = t.bytes;
  s.latency = t.latency;
  s.extra_latency = t.extra_latency;
  s.latencies = t.steps;
  s.limiting = t.limiting;
}

/// Moves the bytes of messages and joins: finds a route, pays latencies, hands bytes to the transport, and reroutes
/// what a failed link stops.
class Transfers {
 public:
  Transfers(Context& context, ActorTable& table, Links& links)
      : context_(context), table_(table), links_(links), routes_(context.machine) {}

  Transfer& operator[](TransferId id) { return pool_[id]; }
  const Transfer& operator[](TransferId id) const { return pool_[id]; }
  TransferId end_id() const { return pool_.end_id(); }
  auto begin() { return pool_.begin(); }
  auto end() { return pool_.end(); }

  /// Routes the channel's messages between other actors than its sender and receiver.
  void set_endpoints(ChannelId channel, Program::Endpoints endpoints) { routes_.set_endpoints(channel, endpoints); }
  /// Creates the transfer of the send or join at the head of a stream.
  TransferId create(const StreamState& sender);
  void release(TransferId id) {
    pool_[id].state = Transfer::State::free;
    pool_.release(id);
  }
  /// The operation that sends it, even if its sender has continued.
  const Op& sent(TransferId) const;

  void start(TransferId id) {
    Transfer& t = pool_[id];
    ++count_;
    t.started = t.leg_started = context_.now;
    const Route& route = choose_route(t);
    t.slow = route.slow;
    if (route.reachable)
      take_route(id, route);
    else
      park(id, route);
  }
  /// Progress of a join that ran with no other flow on its links.
  struct MovedBytes {
    double latency_left = 0;  ///< s; 0: the latency is over
    Bytes bytes;
    LinkId limiting = -1;
  };
  /// Continues the transfer of a join that has run since `began`.
  void resume(TransferId, double began, const MovedBytes&);
  /// Starts the flow of bytes when the latency of a transfer is over.
  void arrive(TransferId);
  /// Ends a transfer or its present leg. Returns false if it continues over its next leg. Otherwise reports it, and
  /// withdraws it if it was cancelled.
  bool finish(TransferId id, Outcome outcome) {
    Transfer& t = pool_[id];
    if (outcome == Outcome::done && !t.legs_left.empty()) {
      start_next_leg(id);
      return false;
    }
    if (outcome == Outcome::done && t.later.value > 0) {
      start_next_flowlet(id);
      return false;
    }
    const Bytes moved = outcome == Outcome::done ? t.left : withdraw(id);
    t.ended = context_.now;
    if (t.is_load) drop_load(t);
    report(id, moved, outcome, true, t.legs_left.empty());
    return true;
  }
  /// Stops a transfer that is under way. Returns the bytes that it has moved since it last departed.
  Bytes withdraw(TransferId);
  void report(TransferId id, Bytes moved, Outcome outcome, bool last, bool last_leg) const {
    if (!context_.observers.transfer_observers().empty()) notify(id, moved, outcome, last, last_leg);
  }

  /// Reports joins of an interval, which had no transfers.
  void report(const TransferRun& run) {
    count_ += static_cast<std::uint64_t>(run.joins);
    for (Observer* o : context_.observers.transfer_observers()) o->transferred(run);
  }
  const Route& find_route(const GroupFlow& group) { return routes_.find(group); }

  /// Ends a time step: all flows that begin in it depart together, so that SimGrid's code and data stay in the caches.
  void depart();
  /// Transfers whose bytes depart at the end of this time step.
  const std::vector<TransferId>& departing() const { return departing_; }
  /// Transfers without bytes that end in this time step.
  const std::vector<TransferId>& instant() const { return instant_; }
  void clear_instant() { instant_.clear(); }
  /// A link failed or came back: stopped transfers are rerouted if there is another path.
  void reroute_all();

  /// Records which links limit the flows that have just departed. Call it after the transport has shared its links
  /// anew.
  void note_limits();
  void prefetch_upcoming() const;
  std::uint64_t count() const { return count_; }
  std::size_t in_use() const { return pool_.in_use(); }
  /// Returns true if a message has had a choice of paths: rounds may then differ although their operations do not.
  bool chooses_paths() const { return chooses_paths_; }
  /// Counts transfers of skipped rounds (see Rounds).
  void skip(std::uint64_t transfers) { count_ += transfers; }

 private:
  Context& context_;
  ActorTable& table_;
  Links& links_;
  RouteCache routes_;
  Pool<Transfer, TransferId> pool_;
  IndexedVector<Op, TransferId> sent_;  // copies, because the sender may continue before its message is received
  std::vector<TransferId> departing_;
  std::vector<TransferId> instant_;
  std::vector<TransferId> parked_;
  std::vector<TransferId> departed_;  // their limiting link is not known yet
  std::uint64_t count_ = 0;
  bool chooses_paths_ = false;
  LinkLoads loads_;  // loads by messages whose path was chosen

  const Route& choose_route(Transfer&);
  void drop_load(Transfer&);
  static void cut_flowlet(Transfer&);
  const Route& find_route(const Transfer& t) {
    return t.is_join() ? routes_.find(*t.group) : routes_.find(t.channel, t.path, t.from, t.to);
  }
  void take_route(TransferId, const Route&);
  void park(TransferId, const Route&);
  void notify(TransferId, Bytes moved, Outcome, bool last, bool last_leg) const;
  void pay_latency(TransferId, Picoseconds);
  void start_flow(TransferId);
  void start_next_leg(TransferId);
  void start_next_flowlet(TransferId);
  bool reroute(TransferId);
};

/// Reports the rate of every link in each time step to the observers.
class LinkRates {
 public:
  LinkRates(Context& context, Links& links, Transfers& transfers)
      : context_(context), links_(links), transfers_(transfers) {}
  /// Reports the rates since the last call.
  void record(double until);

 private:
  Context& context_;
  Links& links_;
  Transfers& transfers_;
  IndexedVector<BytesPerSecond, LinkId> rates_;
  double since_ = 0;
};

}  // namespace trainyard::execution
