// Actors that fail and come back. Nothing of this is on the way of a run without failures.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/error.hpp"
#include "sim/executor/executor_state.hpp"

namespace trainyard {

void Executor::change(ActorChange change) {
  if (change.actor < 0 || static_cast<std::size_t>(change.actor) >= actors_.size())
    throw InternalError(fmt::format("change of actor {}, of {} actors", change.actor, actors_.size()));
  if (change.program && !change.program->daemon()) ++running_;
  actor_changes_.push_back(std::move(change));
}

void Executor::apply_change(std::uint32_t index) {
  if (index < changes_.size()) return apply(changes_[index]);
  actors_changing_.push_back(index - static_cast<std::uint32_t>(changes_.size()));
}

void Executor::change_actors() {
  std::sort(actors_changing_.begin(), actors_changing_.end());
  for (const std::uint32_t index : actors_changing_) {
    ActorChange& change = actor_changes_[index];
    if (change.program)
      revive(change.actor, std::move(change.program));
    else
      fail_actor(change.actor);
  }
  actors_changing_.clear();
}

void Executor::fail_actor(Actor actor) {
  ActorState& a = actors_[static_cast<std::size_t>(actor)];
  if (a.failed) return;
  a.failed = true;
  a.failed_at = now_;
  a.dynamic = false;  // it is told nothing any more
  std::vector<Ref> left_waiting;
  lose_messages(actor, left_waiting);
  stop_streams(a);
  if (!a.ended) {
    a.ended = true;
    if (!a.daemon) --running_;
  }
  for (const Ref ref : left_waiting) wait_again(ref);
}

/// Everything on its way from or to an actor is lost; halves of others that it was a partner of wait for another.
void Executor::lose_messages(Actor actor, std::vector<Ref>& left_waiting) {
  for (std::uint32_t index = 0; index < transfers_pool_.size(); ++index) {
    Transfer& t = transfers_pool_[index];
    if (t.state == Transfer::State::free) continue;
    if (t.members != kNone) {
      lose_group(index, actor, left_waiting);
      continue;
    }
    const bool arrived = t.state == Transfer::State::arrived;
    // What has come whole before its sender failed is there.
    if (t.to != actor && (t.from != actor || arrived)) continue;
    const Bytes moved = withdraw(index);
    t.ended = now_;
    if (!arrived) {
      report(index, moved, Outcome::cancelled, true, t.legs_left.empty());
      set_active(t.from, Kind::send, -1);
      if (t.recv != kNone) set_active(t.to, Kind::recv, -1);
    }
    if (t.recv == kNone) matcher_.withdraw_send(t.channel, kTransferRef | index);
    const bool sender_waits = t.mode != Mode::eager && !arrived;
    if (sender_waits) streams_[t.send].transfer = kNone;
    if (sender_waits && t.from != actor) left_waiting.push_back(t.send);
    if (t.recv != kNone) streams_[t.recv].transfer = kNone;
    if (t.recv != kNone && t.to != actor) left_waiting.push_back(t.recv);
    release_transfer(index);
  }
}

/// The others of a group that lost a member stay where they met.
void Executor::lose_group(std::uint32_t index, Actor actor, std::vector<Ref>& left_waiting) {
  const std::uint32_t list = transfers_pool_[index].members;
  const auto of_actor = [this, actor](Ref ref) { return streams_[ref].actor == actor; };
  if (std::none_of(member_lists_[list].begin(), member_lists_[list].end(), of_actor)) return;
  const Bytes moved = withdraw(index);
  report(index, moved, Outcome::cancelled, true, true);
  const std::vector<Ref> members = std::move(member_lists_[list]);
  free_member_lists_.push_back(list);
  release_transfer(index);
  for (const Ref ref : members) {
    streams_[ref].transfer = kNone;
    set_active(streams_[ref].actor, Kind::send, -1);
    if (!of_actor(ref)) left_waiting.push_back(ref);
  }
}

/// What an actor was doing ends without effect, and what it would have done is forgotten.
void Executor::stop_streams(ActorState& a) {
  for (StreamState& s : a.streams) {
    if (s.busy) {
      const Op& op = s.front();
      // A message of which both halves were there has been taken off the machine already.
      if (op.kind == Kind::join && joins_.contains(op.message.tag))
        withdraw_join(op.message.tag, ref_of(s));
      else if (op.kind == Kind::send && s.channel >= 0)
        matcher_.withdraw_send(s.channel, ref_of(s));
      else if (op.kind == Kind::recv && op.message.slot == kAnyPeer)
        matcher_.withdraw_any(s.actor, ref_of(s));
      else if (op.kind == Kind::recv && s.channel >= 0)
        matcher_.withdraw_recv(s.channel, ref_of(s));
      finish(s, Outcome::cancelled);
    }
    while (!s.empty()) s.pop();
    s.closed = true;
  }
  a.queued = 0;
  a.idle = a.dry = 0;
  a.exhausted = true;
  a.waiting = false;
}

void Executor::wait_again(Ref ref) {
  StreamState& s = streams_[ref];
  if (!s.busy) return;
  s.began = false;
  s.started = s.posted;
  switch (s.front().kind) {
    case Kind::send:
      // Until the other half is there, whatever its mode: nobody is there to put it to.
      matcher_.send(s.channel, s.front().message.tag, ref);
      return;
    case Kind::recv:
      return begin_recv(s);
    default:
      joins_[s.front().message.tag].push_back(ref);
  }
}

void Executor::revive(Actor actor, std::unique_ptr<Program> program) {
  ActorState& a = actors_[static_cast<std::size_t>(actor)];
  if (!a.failed) throw InternalError(fmt::format("{} comes back, but has not failed", machine_.actor_name(actor)));
  const auto count = static_cast<std::size_t>(program->streams());
  if (count < 1 || count > a.streams.size())
    throw InternalError(
        fmt::format("{} comes back with {} streams, of {}", machine_.actor_name(actor), count, a.streams.size()));
  std::vector<Ref> nobody;
  lose_messages(actor, nobody);  // eager ones that came while it was away
  for (StreamState& s : a.streams) {
    s.closed = false;
    s.done = 0;
    s.last_id = 0;
    s.last_end = -1;
  }
  a.driving = program->driving() & ~std::uint64_t{0} >> (kMaxStreams - count);
  a.dry = a.driving;
  a.idle = 0;
  a.channels = static_cast<std::uint32_t>(channels_.size());
  a.slots = static_cast<std::uint32_t>(program->slots().size());
  channels_.resize(channels_.size() + 2 * a.slots, -1);
  for (const Actor peer : program->slots())
    if (peer < 0 || static_cast<std::size_t>(peer) >= actors_.size())
      throw InternalError(fmt::format("a slot names actor {}, of {} actors", peer, actors_.size()));
  a.dynamic = program->dynamic();
  a.daemon = program->daemon();
  a.failed = a.exhausted = a.ended = a.waiting = a.bound_hit = false;
  a.program = std::move(program);
  touch(actor);
}

}  // namespace trainyard
