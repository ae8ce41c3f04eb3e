#pragma once
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/executor/parts.hpp"

namespace trainyard::execution {

/// Joins (see Kind::join). The last member to arrive ends the join for all, or starts the flow of the group.
class Joins : private Parts {
 public:
  explicit Joins(const Parts& parts) : Parts(parts) {}

  /// Returns true if the join moves bytes or takes time. False: it is a barrier.
  static bool flows(const Message& m) { return m.bytes.value > 0 || m.extra_latency.count > 0; }
  void begin(StreamState&);
  /// Counts a flow as active at its members, unless copy engines move it.
  void begin_counting(TransferId);
  void end(TransferId, Outcome);
  /// Resumes a join with a single member that has run since s.started with no other flow on its links.
  void resume(StreamState&, const Transfers::MovedBytes&);
  /// The flow that a join of the actor refers to. It is empty for a join that only has latency.
  const GroupFlow& group_flow(Actor, const Message&) const;

  /// Removes a member that waits for others.
  void withdraw(const StreamState&);
  /// Loses the flow if the failed actor is a member. Adds the other members to `orphans`.
  void lose(TransferId, Actor failed, std::vector<StreamId>& orphans);
  /// Makes an orphan wait for all members again.
  void wait_again(const StreamState&);

  /// The streams that wait at the join with that tag.
  std::span<const StreamId> waiting(Tag tag) const { return waiting_.at(tag); }

 private:
  using Members = std::vector<StreamId>;

  std::unordered_map<Tag, Members> waiting_;
  // Entries of joins that are over, with their lists: a step has millions of joins, and none of them allocates.
  std::vector<std::unordered_map<Tag, Members>::node_type> spare_;
  std::vector<Members> spare_lists_;
  Pool<Members, MembersId> members_;  // members of groups whose flow is under way

  const GroupFlow& group_flow(const StreamState& s) const { return group_flow(s.actor, s.front().message); }
  TransferId make_flow(Members);
  void stop_counting(const Transfer&, StreamId member);
  Members& members_waiting(Tag);
  Members take_waiting(std::unordered_map<Tag, Members>::iterator);
  void give_back(Members);
  /// Releases the transfer and returns its members.
  Members release(TransferId);
};

}  // namespace trainyard::execution
