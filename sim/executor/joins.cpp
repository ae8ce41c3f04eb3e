#include "sim/executor/joins.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/error.hpp"
#include "sim/same_moment.hpp"

namespace trainyard::execution {

Joins::Members& Joins::members_waiting(Tag tag) {
  if (spare_.empty()) return waiting_[tag];
  if (const auto found = waiting_.find(tag); found != waiting_.end()) return found->second;
  auto entry = std::move(spare_.back());
  spare_.pop_back();
  entry.key() = tag;
  return waiting_.insert(std::move(entry)).position->second;
}

/// Returns the members of a join that is complete, and keeps its entry for another one.
Joins::Members Joins::take_waiting(std::unordered_map<Tag, Members>::iterator complete) {
  auto entry = waiting_.extract(complete);
  Members all = std::move(entry.mapped());
  entry.mapped() = {};
  if (!spare_lists_.empty()) {
    entry.mapped() = std::move(spare_lists_.back());
    spare_lists_.pop_back();
  }
  spare_.push_back(std::move(entry));
  return all;
}

void Joins::give_back(Members list) {
  list.clear();
  spare_lists_.push_back(std::move(list));
}

/// A member that was posted at the same moment as the last one keeps its own cause. The others get the cause of the
/// first such member.
void Joins::begin(StreamState& last) {
  const Message m = last.front().message;
  Members& waiting = members_waiting(m.tag);
  waiting.push_back(table_.id_of(last));
  if (waiting.size() < m.steps) return;
  Members all = take_waiting(waiting_.find(m.tag));
  std::ranges::sort(all);
  const auto came_last = [&](StreamId id) { return same_moment(table_.streams[id].posted, context_.now); };
  const OpId cause = table_.streams[*std::ranges::find_if(all, came_last)].cause;
  const bool moves = flows(m);
  for (const StreamId id : all) {
    StreamState& s = table_.streams[id];
    s.started = context_.now;
    if (!came_last(id)) s.cause = cause;
    streams_.announce_start(s);
    if (!moves) streams_.finish(s, Outcome::done);
  }
  if (!moves) return give_back(std::move(all));
  const TransferId flow = make_flow(std::move(all));
  transfers_.start(flow);
  if (!transfers_[flow].slow) begin_counting(flow);
}

void Joins::begin_counting(TransferId id) {
  Transfer& t = transfers_[id];
  t.counts = true;
  if (t.group->by_engines) return;
  for (const StreamId member : members_[t.members])
    interference_.change_moving(table_.streams[member].actor, Kind::send, t.slow, +1);
}

void Joins::stop_counting(const Transfer& t, StreamId member) {
  if (!t.counts || t.group->by_engines) return;
  interference_.change_moving(table_.streams[member].actor, Kind::send, t.slow, -1);
}

void Joins::resume(StreamState& s, const Transfers::MovedBytes& moved) {
  streams_.announce_start(s);
  const TransferId flow = make_flow({table_.id_of(s)});
  transfers_.resume(flow, s.started, moved);
  if (!transfers_[flow].slow) begin_counting(flow);
}

const GroupFlow& Joins::group_flow(Actor actor, const Message& m) const {
  const std::span<const GroupFlow* const> group_flows = table_.actors[actor].program->group_flows();
  if (m.bytes.value > 0 && (m.slot >= group_flows.size() || !group_flows[m.slot]))
    throw InternalError(
        fmt::format("{} names group flow {}, of {}", context_.machine.actor_name(actor), m.slot, group_flows.size()));
  static const GroupFlow empty;
  return m.slot < group_flows.size() && group_flows[m.slot] ? *group_flows[m.slot] : empty;
}

/// Makes one flow over all routes of the group at once. Whatever slows one edge slows all, as in the rings of a
/// collective library.
TransferId Joins::make_flow(Members members) {
  StreamState& first = table_.streams[members.front()];
  first.peer = first.actor;
  const TransferId id = transfers_.create(first);
  first.peer = -1;
  Transfer& t = transfers_[id];
  t.mode = Mode::rendezvous;
  t.group = &group_flow(first);
  t.steps = 1;
  t.members = members_.acquire();
  for (const StreamId member : members) table_.streams[member].transfer = id;
  members_[t.members] = std::move(members);
  return id;
}

Joins::Members Joins::release(TransferId id) {
  const MembersId list = transfers_[id].members;
  Members members = std::move(members_[list]);
  members_.release(list);
  transfers_.release(id);
  return members;
}

void Joins::end(TransferId id, Outcome outcome) {
  Members members = release(id);
  const Transfer t = transfers_[id];
  for (const StreamId member : members) {
    StreamState& s = table_.streams[member];
    note_transfer(t, s);
    stop_counting(t, member);
    streams_.finish(s, outcome);
  }
  give_back(std::move(members));
}

void Joins::withdraw(const StreamState& s) {
  if (const auto found = waiting_.find(s.front().message.tag); found != waiting_.end())
    std::erase(found->second, table_.id_of(s));
}

void Joins::lose(TransferId id, Actor failed, std::vector<StreamId>& orphans) {
  const Transfer& t = transfers_[id];
  const auto of_failed = [this, failed](StreamId member) { return table_.streams[member].actor == failed; };
  const Members& under_way = members_[t.members];
  if (std::ranges::none_of(under_way, of_failed)) return;
  transfers_.report(id, transfers_.withdraw(id), Outcome::cancelled, true, true);
  for (const StreamId member : release(id)) {
    table_.streams[member].transfer = {};
    stop_counting(t, member);
    if (!of_failed(member)) orphans.push_back(member);
  }
}

void Joins::wait_again(const StreamState& s) { waiting_[s.front().message.tag].push_back(table_.id_of(s)); }

}  // namespace trainyard::execution
