#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/executor/agenda.hpp"
#include "sim/executor/matcher.hpp"
#include "sim/machine.hpp"
#include "sim/observer.hpp"
#include "sim/program.hpp"
#include "sim/transports/transport.hpp"

namespace trainyard {

/// A link takes another capacity at a time; 0: it fails, its flows are rerouted where a way is left, else they stall.
struct LinkChange {
  Seconds at;
  LinkId link = 0;
  BytesPerSecond capacity;
};

/// An actor fails, or comes back. What ends in the very moment of a failure has ended; all else that it was doing has no
/// effect, and its messages on their way, either direction, are lost. Who meets them waits on: a failure is seen by what does not
/// come.
struct ActorChange {
  Seconds at;
  Actor actor = 0;
  std::unique_ptr<Program> program;  ///< what it does when it is back, with no more streams than before; none: it fails
};

/// Runs programs on a machine: pulls their operations as streams run dry, starts each when its dependencies are met,
/// matches sends with receives, prices work, and re-times it where interference changes. Everything that ends within
/// one time step is finished first, in the order of (actor, stream); then each touched actor goes on, once.
class Executor {
 public:
  Executor(Machine&, Transport&, Agenda&);
  ~Executor();

  void add(Actor, std::unique_ptr<Program>);  ///< actors from 0 without gaps, before the start
  void observe(Observer&);
  void change(const LinkChange&);
  void change(ActorChange);  ///< a run goes on until all that come back have done so, and have ended

  void start();
  /// One time step: the timers and flows that have ended by `now`.
  void deliver(const std::vector<Agenda::Token>& timers, const std::vector<FlowToken>& flows, double now);

  /// Ends the running operation of a stream (and, of a message, both halves) without its effect. False if none runs.
  bool cancel(Actor, Stream);

  /// All programs but the daemons have ended.
  bool finished() const { return running_ == 0; }
  /// Why nothing moves although operations are left: the cycle of waits, or what each actor waits for.
  std::string stuck() const;
  Seconds now() const { return Seconds{now_}; }
  /// End of the last operation of a program that is no daemon.
  Seconds end() const { return Seconds{end_}; }
  /// Halves of messages whose other half never came.
  std::size_t unmatched() const { return matcher_.unmatched(); }
  /// Fetches what the next flows to end will touch. With thousands of actors whose messages end one by one, most of the
  /// time would go into waiting for memory otherwise.
  void look_forward() const;
  /// To be called when the transport has shared its links anew: what limits the flows that have just left.
  void note_limits();
  std::uint64_t operations() const { return next_id_; }
  std::uint64_t transfers() const { return transfers_; }
  /// Operations that started late because the look-ahead was full when they could have started.
  std::uint64_t late_by_look_ahead() const { return late_by_look_ahead_; }

 private:
  struct StreamState;
  struct ActorState;
  struct Transfer;
  using Ref = Matcher::Ref;  // a stream, by its number in streams_, or (with the top bit) a transfer

  Machine& machine_;
  Transport& transport_;
  Agenda& agenda_;
  const bool interferes_;
  std::vector<Observer*> observers_;
  std::vector<Observer*> operation_observers_, transfer_observers_;  // those of them that look
  bool record_limiting_ = false;
  bool record_link_rates_ = false;
  std::vector<ActorState> actors_;
  std::vector<StreamState> streams_;  // of all actors, in their order
  std::vector<ChannelId> channels_;   // of all slots of all actors, sends and receives, −1: not asked yet
  Matcher matcher_;
  std::unordered_map<Tag, std::vector<Ref>> joins_;  // who waits there
  std::vector<std::vector<Ref>> member_lists_;       // of groups whose flow is on its way
  std::vector<std::uint32_t> free_member_lists_;
  std::vector<Transfer> transfers_pool_;
  std::vector<Op> sent_ops_;  // by transfer, where the sender may go on before its message is received
  std::vector<std::uint32_t> free_transfers_;
  std::vector<LinkChange> changes_;
  std::vector<ActorChange> actor_changes_;
  std::vector<std::uint32_t> actors_changing_;  // of this time step
  std::vector<BytesPerSecond> capacity_;        // of each link, now
  std::vector<double> port_speed_;              // of each link: slowed by interference on its actor
  std::vector<std::uint32_t> departed_;         // transfers whose limiting link is not known yet
  std::vector<std::uint32_t> parked_;           // transfers without a way
  std::vector<BytesPerSecond> rates_;           // scratch of record_rates
  struct KnownRoute {
    Route route;
    const KnownRoute* older;  // of the same channel and class, from before links failed or came back
  };
  struct CachedRoute {
    const KnownRoute* now = nullptr;
    const KnownRoute* newest = nullptr;
    std::uint32_t version = 0;
  };
  std::deque<KnownRoute> routes_;                 // all that were ever asked for: messages on their way refer to them
  std::deque<std::vector<LinkUse>> group_links_;  // that routes of groups refer to
  std::unordered_map<const GroupFlow*, CachedRoute> group_route_cache_;
  std::vector<CachedRoute> route_cache_[kPathClasses];  // by channel
  std::uint32_t look_ahead_ = kLeastLookAhead;
  std::uint32_t route_version_ = 1;  // links that fail or come back make cached routes stale
  double now_ = 0;
  double end_ = 0;
  std::size_t running_ = 0;  // programs that have not ended, daemons apart
  double rates_since_ = 0;
  OpId next_id_ = 0;
  std::uint64_t transfers_ = 0;
  std::uint64_t late_by_look_ahead_ = 0;
  std::vector<Actor> touched_;
  std::vector<Actor> settling_;         // actors whose active kinds may have changed
  Op pulled_;                           // scratch of pull
  std::vector<Actor> round_;            // scratch of run_touched
  std::vector<std::uint64_t> endings_;  // a stream, then a transfer's number + 1 or 0: in the order of both
  static std::uint64_t ending(Ref stream, std::uint32_t transfer) {
    return static_cast<std::uint64_t>(stream) << 32 | (transfer + 1);
  }
  std::vector<std::uint32_t> departing_;  // transfers whose bytes start to move at the end of this time step
  std::vector<std::uint32_t> instant_;    // transfers that need no time

  Ref ref_of(const StreamState&) const;
  ActorState& actor_of(const StreamState&);
  void touch(Actor);
  void advance(Actor);
  void pull(ActorState&);
  void accept(ActorState&, const Op&);
  bool ready(const ActorState&, const Op&) const;
  bool could_have_started(const ActorState&, const Op&) const;
  void begin(StreamState&);
  OpId cause(const StreamState&) const;
  void finish(StreamState&, Outcome);
  void arrive(const std::vector<Agenda::Token>& timers);
  void add_instant();
  void finish_all();
  void run_touched();
  void settle();
  void settle_later(Actor);
  void retime(Actor, KindSet);
  void slow_ports(Actor, KindSet);
  void set_active(Actor actor, Kind kind, int change) {
    if (interferes_) change_active(actor, kind, change);
  }
  void change_active(Actor, Kind, int change);

  void begin_join(StreamState&);
  void begin_group(std::vector<Ref> members);
  const GroupFlow& group_flow(const StreamState&) const;
  void end_group(std::uint32_t transfer, Outcome);
  const Route& find_group_route(const GroupFlow&);
  void withdraw_join(Tag, Ref);
  void begin_send(StreamState&);
  void begin_recv(StreamState&);
  ChannelId channel(const StreamState&, bool sending, std::uint16_t slot);
  std::uint32_t new_transfer(const StreamState& sender);
  void attach(std::uint32_t transfer, Ref recv);
  void start_transfer(std::uint32_t);
  void set_off(std::uint32_t, const Route&);
  void pay_latency(std::uint32_t, Picoseconds);
  void next_leg(std::uint32_t);
  void start_flow(std::uint32_t);
  void depart();
  void end_transfer(std::uint32_t, Outcome);
  void release_transfer(std::uint32_t);
  const Op& sent(std::uint32_t) const;
  OpRun run_of(const StreamState&, double ended, Outcome = Outcome::done) const;
  void announce_start(StreamState&);
  void announce_delivery(std::uint32_t, const StreamState& receiver);
  Bytes withdraw(std::uint32_t);
  void report(std::uint32_t, Bytes moved, Outcome, bool last, bool last_leg) const;
  const Route& find_route(const Transfer&);
  void apply_change(std::uint32_t);
  void apply(const LinkChange&);
  void change_actors();
  void fail_actor(Actor);
  void lose_messages(Actor, std::vector<Ref>& left_waiting);
  void lose_group(std::uint32_t transfer, Actor, std::vector<Ref>& left_waiting);
  void stop_streams(ActorState&);
  void wait_again(Ref);
  void revive(Actor, std::unique_ptr<Program>);
  std::string name_with_state(Actor) const;
  bool reroute(std::uint32_t);
  bool crosses_dead_link(std::span<const LinkUse>) const;
  bool any_link_down() const;
  void record_rates(double until);
};

}  // namespace trainyard
