#include "sim/executor/executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sim/error.hpp"
#include "sim/executor/deadlock_report.hpp"
#include "sim/stable_sort.hpp"

namespace trainyard {

using namespace execution;

Executor::Executor(Machine& machine, Transport& transport, Timers& timers)
    : context_{machine, transport, timers, {}, 0},
      links_(context_),
      interference_(context_, table_, links_),
      streams_(context_, table_, interference_),
      transfers_(context_, table_, links_),
      messages_(parts_),
      joins_(parts_),
      series_(parts_, joins_),
      rounds_(parts_),
      failures_(parts_, messages_, joins_),
      link_rates_(context_, links_, transfers_) {}

void Executor::add(Actor actor, std::unique_ptr<Program> program) {
  streams_.add(actor, std::move(program));
  messages_.connect(table_.actors[actor]);
}

void Executor::change(const LinkChange& change) {
  if (!links_.contains(change.link))
    throw InternalError(fmt::format("change of link {}, of {} links", change.link, links_.size()));
  if (change.period.value > 0 && !context_.transport.can_shift())
    throw UserError("changes of links that repeat need the transport flow");
  link_changes_.push_back(change);
}

void Executor::change(ActorChange change) { failures_.add(std::move(change)); }

void Executor::start() {
  streams_.start();
  for (const LinkChange& change : link_changes_)  // flows that depart at once are limited by what is left for them
    if (change.time.value <= 0 && change.capacity.value > 0) links_.set_capacity(change.link, change.capacity);
  const bool is_steady = link_changes_.empty() && failures_.empty();
  if (is_steady && enough_ == &kNever && context_.observers.take_intervals() && context_.machine.contention() &&
      context_.transport.can_shift())
    series_.allow_intervals();
  if (is_steady && context_.observers.take_rounds() && context_.transport.can_shift()) {
    rounds_.allow();
    streams_.drop_effects();
  }
  for (std::uint32_t i = 0; i < link_changes_.size(); ++i) set_timer_of_change(i);
  failures_.set_timers();
  run_touched();
}

void Executor::deliver(const std::vector<TimerToken>& timers, const std::vector<FlowToken>& flows, double now) {
  using enum TimerToken::Kind;
  for (const FlowToken flow : flows) transfers_[TransferId{flow}].state = Transfer::State::landed;
  bool any_change = false;
  for (const TimerToken timer : timers) {  // the queue has dropped these timers
    if (timer.kind == work) table_.streams[StreamId{timer.number}].timed = false;
    if (timer.kind == latency) transfers_[TransferId{timer.number}].timed = false;
    any_change |= timer.kind == link_change || timer.kind == actor_change;
  }
  if (context_.observers.record_link_rates()) link_rates_.record(now);
  context_.now = now;
  if (any_change) {
    const bool moves = !flows.empty() || !std::ranges::all_of(timers, [this](TimerToken t) { return repeats(t); });
    begin_changes(timers, moves);
  }
  end_latencies(timers);

  endings_.clear();
  for (const TimerToken timer : timers)
    if (timer.kind == work) add_ending(StreamId{timer.number});
  for (const FlowToken flow : flows) add_ending(transfers_[TransferId{flow}].send, TransferId{flow});
  add_instant();
  sort_nearly_sorted(endings_);
  finish_all();
  failures_.apply_due();
  run_touched();
  if (*enough_) return cancel_all();
  if (!transfers_.chooses_paths()) rounds_.settle();
}

/// Packs both indices into one number that sorts by the stream first. Transfers count from 1; none is 0.
void Executor::add_ending(StreamId stream, TransferId transfer) {
  endings_.push_back(static_cast<std::uint64_t>(stream.number()) << 32 | (transfer.number() + 1));
}

bool Executor::repeats(const TimerToken& timer) const {
  return timer.kind == TimerToken::Kind::link_change && link_changes_[timer.number].period.value > 0;
}

void Executor::set_timer_of_change(std::uint32_t number) {
  const LinkChange& change = link_changes_[number];
  context_.set_timer(change.time.value, TimerToken::Kind::link_change, number);
  if (change.period.value > 0) ++repeating_;
}

/// Sets the capacities that are due. Changes repeat only while something else moves: otherwise a deadlock would never be
/// found. `moves`: something else has ended in this time step.
void Executor::begin_changes(const std::vector<TimerToken>& timers, bool moves) {
  for (const TimerToken timer : timers) repeating_ -= repeats(timer) ? 1 : 0;
  moves = moves || context_.transport.flows() > 0 || context_.timers.size() > repeating_;
  for (const TimerToken timer : timers) {
    if (timer.kind == TimerToken::Kind::actor_change) failures_.note(timer.number);
    if (timer.kind != TimerToken::Kind::link_change) continue;
    LinkChange& change = link_changes_[timer.number];
    if (links_.set_capacity(change.link, change.capacity)) transfers_.reroute_all();
    if (!moves || change.period.value <= 0) continue;
    change.time += change.period;
    set_timer_of_change(timer.number);
  }
}

/// Ends latencies in the order of (actor, stream).
void Executor::end_latencies(const std::vector<TimerToken>& timers) {
  endings_.clear();
  for (const TimerToken timer : timers)
    if (timer.kind == TimerToken::Kind::latency)
      add_ending(transfers_[TransferId{timer.number}].send, TransferId{timer.number});
  sort_nearly_sorted(endings_);
  for (const std::uint64_t ending : endings_) transfers_.arrive(TransferId{static_cast<std::uint32_t>(ending) - 1});
}

void Executor::add_instant() {
  for (const TransferId id : transfers_.instant()) add_ending(transfers_[id].send, id);
  transfers_.clear_instant();
}

void Executor::finish_all() {
  for (const std::uint64_t ending : endings_) {
    const TransferId transfer{static_cast<std::uint32_t>(ending) - 1};
    // An operation that ended earlier in this step may have cancelled it.
    if (transfer) {
      if (transfers_[transfer].state != Transfer::State::free) end_transfer(transfer, Outcome::done);
    } else if (StreamState& s = table_.streams[StreamId{ending >> 32}]; s.busy) {
      if (s.front().kind == Kind::series)
        series_.end(s);
      else
        streams_.finish(s, Outcome::done);
    }
  }
}

void Executor::run_touched() {
  do {
    while (streams_.any_touched() || !transfers_.instant().empty()) {
      streams_.take_touched(round_);
      for (const Actor actor : round_) advance(actor);
      if (transfers_.instant().empty()) continue;
      endings_.clear();
      add_instant();
      finish_all();
    }
    count_departing();
  } while (series_.settle());
  transfers_.depart();
  interference_.settle();
}

/// A message on a slow route slows work once its latency is over and its bytes depart.
void Executor::count_departing() {
  for (const TransferId id : transfers_.departing()) {
    const Transfer& t = transfers_[id];
    if (t.counts) continue;
    if (t.is_join())
      joins_.begin_counting(id);
    else
      messages_.begin_counting(id);
  }
}

void Executor::advance(Actor actor) {
  ActorState& a = table_.actors[actor];
  for (bool again = true; again;) {
    again = false;
    streams_.pull(a);
    // An operation that begins may end at once and make other streams of the actor idle.
    for (std::uint64_t ahead = ~std::uint64_t{0}; (a.idle & ahead) != 0;) {
      const int index = std::countr_zero(a.idle & ahead);
      ahead = index + 1 < kMaxStreams ? ~std::uint64_t{0} << (index + 1) : 0;
      StreamState& s = a.streams[position(index)];
      if (!Streams::ready(a, s.front())) continue;
      begin(a, s);
      again |= !s.busy;
    }
  }
  streams_.note_end(a);
}

void Executor::begin(ActorState& a, StreamState& s) {
  if (s.front().kind == Kind::series) return series_.begin(s);
  streams_.post(a, s);
  switch (s.front().kind) {
    case Kind::send:
      return messages_.begin_send(s);
    case Kind::recv:
      return messages_.begin_recv(s);
    case Kind::join:
      return joins_.begin(s);
    case Kind::mark:
    case Kind::compute:
    case Kind::local:
    case Kind::delay:
      return streams_.begin_work(s);
    case Kind::series:
      return;
  }
}

void Executor::end_transfer(TransferId id, Outcome outcome) {
  if (!transfers_.finish(id, outcome)) return;
  if (transfers_[id].is_join())
    joins_.end(id, outcome);
  else
    messages_.end(id, outcome);
}

bool Executor::cancel(Actor actor, Stream index) {
  if (!table_.actors.contains(actor) || index >= table_.actors[actor].streams.size())
    throw InternalError(fmt::format("cancel of stream {} of actor {}: there is none", index, actor));
  StreamState& s = table_.actors[actor].streams[index];
  if (!s.busy) return false;
  // The message of this half is just ending: the other half has been reported already.
  if (s.transfer && transfers_[s.transfer].state == Transfer::State::free) return false;
  if (s.transfer) {
    end_transfer(s.transfer, Outcome::cancelled);
    return true;
  }
  if (s.front().kind == Kind::join)
    joins_.withdraw(s);
  else if (waits_for_others(s.front().kind))
    messages_.withdraw(s);
  streams_.finish(s, Outcome::cancelled);
  return true;
}

void Executor::cancel_all() {
  for (Actor actor = 0; actor < table_.actors.end_id(); ++actor)
    for (const StreamState& s : table_.actors[actor].streams) cancel(actor, s.index);
}

std::string Executor::deadlock_report() const {
  return execution::deadlock_report(context_, table_, joins_, streams_.look_ahead());
}

}  // namespace trainyard
