#pragma once
#include <vector>

#include "sim/executor/actor_state.hpp"
#include "sim/executor/context.hpp"
#include "sim/executor/links.hpp"
#include "sim/executor/route_cache.hpp"
#include "sim/executor/transfer.hpp"

namespace trainyard::execution {

/// Moves what messages and joins carry: finds a route, pays latencies, hands bytes to the transport, and reroutes what a
/// failed link stops.
class Transfers {
 public:
  Transfers(Context& context, ActorTable& table, Links& links)
      : context_(context), table_(table), links_(links), routes_(context.machine) {}

  Transfer& operator[](TransferId id) { return pool_[id]; }
  const Transfer& operator[](TransferId id) const { return pool_[id]; }
  TransferId end_id() const { return pool_.end_id(); }
  auto begin() { return pool_.begin(); }
  auto end() { return pool_.end(); }

  /// The channel's messages are routed between others than its sender and receiver.
  void set_way(ChannelId channel, Program::Way way) { routes_.set_way(channel, way); }
  /// Of the send or join at the head of a stream.
  TransferId create(const StreamState& sender);
  void release(TransferId id) {
    pool_[id].state = Transfer::State::free;
    pool_.release(id);
  }
  /// The operation that sends it, also when its sender has gone on.
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
  /// How far a join has come with nobody else on its links.
  struct Moved {
    double latency_left = 0;  ///< s; 0: it is over
    Bytes bytes;
    LinkId limiting = -1;
  };
  void take_up(TransferId, double began, const Moved&);
  /// Its latency is over.
  void arrive(TransferId);
  /// False: it goes on over its next leg. Else it is reported, and taken off the machine if it was cancelled.
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
  /// Takes it off the machine; the bytes that it moved since it last left.
  Bytes withdraw(TransferId);
  void report(TransferId id, Bytes moved, Outcome outcome, bool last, bool last_leg) const {
    if (!context_.observers.of_transfers().empty()) notify(id, moved, outcome, last, last_leg);
  }

  /// Joins of a stretch, which were no transfers.
  void report(const TransferRun& run) {
    count_ += static_cast<std::uint64_t>(run.joins);
    for (Observer* o : context_.observers.of_transfers()) o->transferred(run);
  }
  const Route& find_route(const GroupFlow& group) { return routes_.find(group); }

  /// The end of a time step: all flows that begin in it leave together. SimGrid's code and data then stay in the caches.
  void depart();
  /// Transfers without bytes, which end in this time step.
  const std::vector<TransferId>& instant() const { return instant_; }
  void clear_instant() { instant_.clear(); }
  /// A link failed or came back: what it stopped is rerouted where there is another path.
  void reroute_all();

  /// To be called when the transport has shared its links anew: what limits the flows that have just left.
  void note_limits();
  void prefetch_upcoming() const;
  std::uint64_t count() const { return count_; }
  std::size_t in_use() const { return pool_.in_use(); }
  /// So many more have come and gone (see Rounds).
  void skip(std::uint64_t transfers) { count_ += transfers; }

 private:
  Context& context_;
  ActorTable& table_;
  Links& links_;
  RouteCache routes_;
  Pool<Transfer, TransferId> pool_;
  IndexedVector<Op, TransferId> sent_;  // where the sender may go on before its message is received
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

/// Tells the observers the rate of every link in each time step.
class LinkRates {
 public:
  LinkRates(Context& context, Links& links, Transfers& transfers)
      : context_(context), links_(links), transfers_(transfers) {}
  /// Since the last call.
  void record(double until);

 private:
  Context& context_;
  Links& links_;
  Transfers& transfers_;
  IndexedVector<BytesPerSecond, LinkId> rates_;
  double since_ = 0;
};

}  // namespace trainyard::execution
