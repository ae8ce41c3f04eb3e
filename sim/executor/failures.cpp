#include "sim/executor/failures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/error.hpp"

namespace trainyard::execution {

void Failures::add(ActorChange change) {
  if (!table_.actors.contains(change.actor))
    throw InternalError(fmt::format("change of actor {}, of {} actors", change.actor, table_.actors.size()));
  if (change.program) streams_.expect(*change.program);
  changes_.push_back(std::move(change));
}

void Failures::set_timers() {
  for (std::uint32_t i = 0; i < changes_.size(); ++i)
    context_.set_timer(changes_[i].time.value, TimerToken::Kind::actor_change, i);
}

void Failures::apply() {
  std::ranges::sort(due_);
  for (const std::uint32_t index : due_) {
    ActorChange& change = changes_[index];
    if (change.program)
      revive(change.actor, std::move(change.program));
    else
      fail(change.actor);
  }
  due_.clear();
}

void Failures::fail(Actor actor) {
  ActorState& a = table_.actors[actor];
  if (a.failed) return;
  a.failed = true;
  a.failed_at = context_.now;
  a.dynamic = false;  // its program is no longer notified
  const std::vector<StreamId> orphans = lose_transfers(actor);
  for (const StreamState& s : a.streams) {
    if (!s.busy || !waits_for_others(s.front().kind)) continue;
    if (s.front().kind == Kind::join)
      joins_.withdraw(s);
    else
      messages_.withdraw(s);
  }
  streams_.fail(actor);
  for (const StreamId id : orphans) {
    StreamState& s = table_.streams[id];
    if (!s.busy) continue;
    s.began = false;
    s.started = s.posted;
    if (s.front().kind == Kind::join)
      joins_.wait_again(s);
    else
      messages_.wait_again(s);
  }
}

/// Loses everything on its way from or to an actor. Returns the streams of the peers whose halves still run.
std::vector<StreamId> Failures::lose_transfers(Actor actor) {
  std::vector<StreamId> orphans;
  for (TransferId id{0}; id < transfers_.end_id(); ++id) {
    const Transfer& t = transfers_[id];
    if (t.state == Transfer::State::free) continue;
    if (t.is_join())
      joins_.lose(id, actor, orphans);
    else
      messages_.lose(id, actor, orphans);
  }
  return orphans;
}

void Failures::revive(Actor actor, std::unique_ptr<Program> program) {
  ActorState& a = table_.actors[actor];
  if (!a.failed)
    throw InternalError(fmt::format("{} comes back, but has not failed", context_.machine.actor_name(actor)));
  lose_transfers(actor);  // eager messages that arrived while it was down
  streams_.restart(actor, std::move(program));
  messages_.connect(a);
}

}  // namespace trainyard::execution
