#include "sim/executor/rounds.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace trainyard::execution {
namespace {

constexpr std::uint32_t kFirstLook = 16;  // rounds
constexpr double kWorthWhile = 8;         // least number of rounds to skip at once

/// Returns true if executions of the operation can be skipped. They cannot if each takes memory: a later one may exceed
/// the present peak.
bool can_repeat(const Op& op) {
  if (op.memory.change != 0) return false;
  if (op.kind == Kind::join || op.kind == Kind::series) return false;
  return op.kind != Kind::recv || op.message.slot != kAnyPeer;
}

}  // namespace

/// Chooses the stream whose long run began last, unless the present anchor is in the middle of its own run.
void Rounds::choose_anchor() {
  const StreamId newest = streams_.take_long_run();
  if (anchor_) {
    const StreamState& s = table_.streams[anchor_];
    if (s.behind && s.behind->run_position().left >= kFirstLook) return;
  }
  anchor_ = newest;
  wait_ = kFirstLook;
  identical_rounds_ = -1;
  next_look_ = table_.streams[anchor_].done + wait_;
}

void Rounds::wait_longer() {
  identical_rounds_ = -1;
  wait_ += wait_ / 2;
  next_look_ = table_.streams[anchor_].done + wait_;
}

void Rounds::look() {
  const StreamState& anchor = table_.streams[anchor_];
  next_look_ = anchor.done + 1;
  const OpQueue::RunPosition run = anchor.behind ? anchor.behind->run_position() : OpQueue::RunPosition{};
  if (run.left < kWorthWhile) {
    identical_rounds_ = -1;
    wait_ = kFirstLook;
    next_look_ = anchor.done + wait_;
    return;
  }
  if (!take_state(now_)) return wait_longer();
  if (identical_rounds_ >= 0 && !is_alike()) return wait_longer();
  const bool observed = tell_observers();
  ++identical_rounds_;
  if (identical_rounds_ >= 2) {
    const double rounds = observed ? std::floor(most_rounds()) : 0;
    if (rounds < kWorthWhile) return wait_longer();
    take(static_cast<std::uint32_t>(std::min(rounds, 1e9)));
    wait_ = kFirstLook;
    identical_rounds_ = -1;
    next_look_ = anchor.done + wait_;
    return;
  }
  std::swap(before_, now_);
}

/// Records the present state. Returns false if something is under way that cannot be compared.
bool Rounds::take_state(State& r) const {
  r.now = context_.now;
  r.end = streams_.end();
  r.pulls = streams_.pulls();
  r.late = streams_.late_by_look_ahead();
  r.operations = streams_.operations();
  r.transfers = transfers_.count();
  r.facts.clear();
  r.amounts.clear();
  r.times.clear();
  r.done.clear();
  r.heads.clear();
  r.ids.clear();
  const auto fact = [&r](auto number) { r.facts.push_back(static_cast<std::uint64_t>(number)); };
  std::size_t timers = 0, moving = 0, flows = 0;
  for (const ActorState& a : table_.actors) {
    if (a.dynamic || a.interval || a.failed) return false;
    for (const std::uint64_t bits : {a.idle, a.dry, a.working}) fact(bits);
    fact(a.exhausted);
    fact(a.active_kinds);
    for (const std::uint16_t running : a.active) fact(running);
    r.amounts.push_back({a.port_speed, 0});
    r.times.push_back({{}, a.host});
    r.times.push_back({{}, a.launch.since.value});
    for (const StreamState& s : a.streams) {
      const StreamId id = table_.id_of(s);
      r.done.push_back(s.done);
      r.heads.push_back(s.front());
      r.ids.push_back(s.busy ? s.id : 0);
      for (const bool flag : {s.busy, s.empty(), s.timed, s.busy && s.began, s.last_end == context_.now}) fact(flag);
      r.times.push_back({id, s.last_end});
      if (!s.busy) continue;
      if (s.series) return false;
      r.times.push_back({id, s.posted});
      r.times.push_back({id, s.started});
      fact(s.peer);
      if (s.timed) {
        ++timers;
        r.times.push_back({id, context_.timers.due(s.timer)});
        r.times.push_back({id, s.since});
        r.times.push_back({id, s.launched_by});
        r.amounts.push_back({s.remaining, precision()});
        r.amounts.push_back({s.speed, 0});
      }
      fact(static_cast<bool>(s.transfer));
      if (!s.transfer) continue;
      const Transfer& t = transfers_[s.transfer];
      fact(t.send.number());
      if (t.send != id) continue;
      ++moving;
      if (t.is_join() || sender_goes_on(t.mode)) return false;
      timers += t.timed ? 1 : 0;
      flows += t.state == Transfer::State::flowing ? 1 : 0;
      take_transfer(r, id, t);
    }
  }
  return moving == transfers_.in_use() && timers == context_.timers.size() && flows == context_.transport.flows();
}

void Rounds::take_transfer(State& r, StreamId sender, const Transfer& t) const {
  for (const std::uint64_t fact :
       {static_cast<std::uint64_t>(t.state), static_cast<std::uint64_t>(t.recv.number()),
        static_cast<std::uint64_t>(std::bit_cast<std::uintptr_t>(t.links.data())),
        static_cast<std::uint64_t>(t.legs_left.size()), static_cast<std::uint64_t>(t.by_legs),
        static_cast<std::uint64_t>(t.timed), static_cast<std::uint64_t>(t.latency.count)})
    r.facts.push_back(fact);
  for (const double time : {t.started, t.leg_started, t.send_posted}) r.times.push_back({sender, time});
  for (const Bytes bytes : {t.bytes, t.left}) r.amounts.push_back({bytes.value, 0});
  if (t.timed) r.times.push_back({sender, context_.timers.due(t.timer)});
  if (t.state != Transfer::State::flowing) return;
  double rate = t.rate_cap.value;  // upper bound of the rate
  for (const LinkUse& use : t.links) {
    const double most = context_.machine.links()[position(use.link)].capacity.value / use.weight;
    rate = rate > 0 ? std::min(rate, most) : most;
  }
  r.amounts.push_back({context_.transport.remaining(t.flow).value, rate * precision()});
}

bool Rounds::is_alike() const {
  const double length = period();
  if (!(length > 1e3 * precision()) || now_.facts != before_.facts || now_.pulls != before_.pulls ||
      now_.late != before_.late || now_.amounts.size() != before_.amounts.size() ||
      now_.times.size() != before_.times.size())
    return false;
  for (std::size_t i = 0; i < now_.amounts.size(); ++i)
    if (std::abs(now_.amounts[i].value - before_.amounts[i].value) > now_.amounts[i].precision) return false;
  for (std::size_t i = 0; i < now_.times.size(); ++i) {
    const auto [stream, time] = now_.times[i];
    const double moved = time - before_.times[i].time;
    const bool stands = moved == 0, goes = std::abs(moved - length) <= precision();
    if (stream ? !(step(stream) == 0 ? stands : goes) : !stands && !goes) return false;
  }
  for (StreamId s{0}; s < now_.done.end_id(); ++s) {
    if (step(s) > 0) continue;
    if (now_.ids[s] != before_.ids[s] || now_.heads[s] != before_.heads[s]) return false;
  }
  return true;
}

double Rounds::most_rounds() const {
  double most = std::numeric_limits<OpId>::max() - static_cast<double>(now_.operations);  // operation numbers left
  most /= static_cast<double>(now_.operations - before_.operations);
  for (const ActorState& a : table_.actors) {
    std::uint32_t taken = 0;
    for (const StreamState& s : a.streams) {
      most = std::min(most, most_rounds(table_.id_of(s), s));
      taken += step(table_.id_of(s));
    }
    if (a.dry == 0 || a.exhausted || a.waiting || taken == 0) continue;
    // The program is asked for more operations once the look-ahead is no longer full.
    most = std::min(most, (static_cast<double>(a.queued - a.at_once) - streams_.look_ahead()) / taken);
  }
  return most;
}

double Rounds::most_rounds(StreamId id, const StreamState& s) const {
  const ActorState& a = table_.actors[s.actor];
  const Op& head = s.front();
  const auto stream_of = [&](const Dep& dep) -> const StreamState& { return a.streams[dep.stream]; };
  const std::uint32_t step_size = step(id);
  if (step_size == 0) {
    double most = HUGE_VAL;
    if (s.timed) most = (context_.timers.due(s.timer) - context_.now) / period() - 1;
    if (s.busy || s.empty()) return most;
    for (const Dep& dep : head.deps)
      if (dep.count > stream_of(dep).done)
        if (const std::uint32_t waited = step(table_.id_of(stream_of(dep))); waited > 0)
          most = std::min(most, (dep.count - stream_of(dep).done - 1.0) / waited);
    return most;
  }
  const OpQueue::RunPosition run = s.behind ? s.behind->run_position() : OpQueue::RunPosition{};
  if (!can_repeat(head) || run.popped <= 2 * step_size || run.left < 1) return 0;
  if (run.stride->read != 0 || run.stride->write != 0) return 0;
  if (!follows(now_.heads[id], before_.heads[id], *run.stride, step_size)) return 0;
  for (std::size_t d = 0; d < std::size(head.deps); ++d) {
    const Dep& dep = head.deps[d];
    const std::uint32_t further = run.stride->counts[d], waited = step(table_.id_of(stream_of(dep)));
    const bool is_met = further == 0 && dep.count <= stream_of(dep).done;
    if (!is_met && further * step_size != waited) return 0;
  }
  return (run.left - 1.0) / step_size;
}

/// Returns true if the sums of all observers have grown as in the previous round.
bool Rounds::tell_observers() {
  live_.clear();
  for (const StreamState& s : table_.streams) {
    live_.push_back(s.busy ? s.id : 0);
    live_.push_back(s.last_id);
    live_.push_back(s.busy && s.transfer ? transfers_[s.transfer].cause : 0);
  }
  bool same = true;
  for (RoundSums* sums : context_.observers.round_sums()) same = sums->end_round(live_) && same;
  return same;
}

void Rounds::take(std::uint32_t rounds) {
  const double later = rounds * period();
  const auto move = [later](double& time) { time += later; };
  context_.timers.shift(later, [this](const TimerToken& token) {
    return token.kind == TimerToken::Kind::latency || step(StreamId{token.number}) > 0;
  });
  context_.transport.shift(later);
  std::size_t times_of_hosts = 0;  // two of each actor
  for (std::size_t i = 0; i < now_.times.size(); ++i) {
    if (now_.times[i].stream) continue;
    ActorState& a = table_.actors[static_cast<Actor>(times_of_hosts / 2)];
    if (now_.times[i].time != before_.times[i].time) move(times_of_hosts % 2 == 0 ? a.host : a.launch.since.value);
    ++times_of_hosts;
  }
  for (StreamState& s : table_.streams) {
    const std::uint32_t step_size = step(table_.id_of(s));
    if (step_size == 0) continue;
    for (double* time : {&s.posted, &s.started, &s.last_end, &s.since, &s.launched_by}) move(*time);
    table_.actor_of(s).at_once -= s.skip(rounds * step_size);
    table_.actor_of(s).queued -= rounds * step_size;
  }
  for (Transfer& t : transfers_)
    if (t.state != Transfer::State::free)
      for (double* time : {&t.started, &t.leg_started, &t.send_posted}) move(*time);
  streams_.skip(rounds * (now_.operations - before_.operations), now_.end == before_.end ? 0 : later);
  transfers_.skip(rounds * (now_.transfers - before_.transfers));
  move(context_.now);
  for (RoundSums* sums : context_.observers.round_sums()) sums->repeat_round(rounds);
}

}  // namespace trainyard::execution
