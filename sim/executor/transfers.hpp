#pragma once
#include <vector>

#include "sim/executor/actor_state.hpp"
#include "sim/executor/context.hpp"
#include "sim/executor/links.hpp"
#include "sim/executor/route_cache.hpp"
#include "sim/executor/transfer.hpp"

namespace trainyard::execution {

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
    const Route& route = find_route(t);
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
    const Bytes moved = outcome == Outcome::done ? t.left : withdraw(id);
    t.ended = context_.now;
    report(id, moved, outcome, true, t.legs_left.empty());
    return true;
  }
  /// Stops a transfer that is under way. Returns the bytes that it has moved since it last departed.
  Bytes withdraw(TransferId);
  void report(TransferId id, Bytes moved, Outcome outcome, bool last, bool last_leg) const {
    if (!context_.observers.of_transfers().empty()) notify(id, moved, outcome, last, last_leg);
  }

  /// Reports joins of an interval, which had no transfers.
  void report(const TransferRun& run) {
    count_ += static_cast<std::uint64_t>(run.joins);
    for (Observer* o : context_.observers.of_transfers()) o->transferred(run);
  }
  const Route& find_route(const GroupFlow& group) { return routes_.find(group); }

  /// Ends a time step: all flows that begin in it depart together, so that SimGrid's code and data stay in the caches.
  void depart();
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

  const Route& find_route(const Transfer& t) {
    return t.is_join() ? routes_.find(*t.group) : routes_.find(t.channel, t.path, t.from, t.to);
  }
  void take_route(TransferId, const Route&);
  void park(TransferId, const Route&);
  void notify(TransferId, Bytes moved, Outcome, bool last, bool last_leg) const;
  void pay_latency(TransferId, Picoseconds);
  void start_flow(TransferId);
  void start_next_leg(TransferId);
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
