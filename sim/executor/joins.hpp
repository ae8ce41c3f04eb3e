#pragma once
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/executor/streams.hpp"
#include "sim/executor/transfers.hpp"

namespace trainyard::execution {

/// Joins (see Kind::join): the last member to arrive lets all go on, or starts the flow of the group.
class Joins {
 public:
  Joins(Context& context, ActorTable& table, Interference& interference, Streams& streams, Transfers& transfers)
      : context_(context), table_(table), interference_(interference), streams_(streams), transfers_(transfers) {}

  /// Does anything move, or is it a barrier?
  static bool flows(const Message& m) { return m.bytes.value > 0 || m.extra_latency.count > 0; }
  void begin(StreamState&);
  void end(TransferId, Outcome);
  /// One that meets itself, and has gone on since s.started with nobody else on its links.
  void take_up(StreamState&, const Transfers::Moved&);
  /// The flow that a join of the actor names; an empty one, of a join that is latency alone.
  const GroupFlow& group_flow(Actor, const Message&) const;

  /// A member that waits for others is taken back.
  void withdraw(const StreamState&);
  /// The flow is lost if the actor that fails is a member. The other members are added to `orphans`.
  void lose(TransferId, Actor failed, std::vector<StreamId>& orphans);
  /// An orphan waits for all members again.
  void wait_again(const StreamState&);

  /// Those who wait at the join with that tag.
  std::span<const StreamId> waiting(Tag tag) const { return waiting_.at(tag); }

 private:
  using Members = std::vector<StreamId>;

  Context& context_;
  ActorTable& table_;
  Interference& interference_;
  Streams& streams_;
  Transfers& transfers_;
  std::unordered_map<Tag, Members> waiting_;
  Pool<Members, MembersId> members_;  // of groups whose flow is on its way

  const GroupFlow& group_flow(const StreamState& s) const { return group_flow(s.actor, s.front().message); }
  TransferId make_flow(Members);
  /// Takes the transfer and its list of members away.
  Members release(TransferId);
};

}  // namespace trainyard::execution
