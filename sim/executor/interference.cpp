#include "sim/executor/interference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "sim/error.hpp"

namespace trainyard::execution {

void Interference::add_work(Actor actor) {
  table_.actors[actor].new_work = true;
  settle_later(actor);
}

void Interference::count(Actor actor, Kind kind, int change) {
  if (change == 0 || kind == Kind::mark || kind == Kind::delay || kind == Kind::series) return;
  ActorState& a = table_.actors[actor];
  std::uint16_t& count = a.active[static_cast<std::uint8_t>(kind)];
  count = static_cast<std::uint16_t>(count + change);
  a.present_kinds = static_cast<KindSet>(count > 0 ? a.present_kinds | bit(kind) : a.present_kinds & ~bit(kind));
  if (a.interval) interrupted_.push_back(actor);
  settle_later(actor);
}

void Interference::settle_later(Actor actor) {
  ActorState& a = table_.actors[actor];
  if (a.unsettled) return;
  a.unsettled = true;
  unsettled_.push_back(actor);
}

void Interference::settle() {
  for (const Actor actor : unsettled_) {
    ActorState& a = table_.actors[actor];
    a.unsettled = false;
    const KindSet kinds = a.present_kinds;
    if (kinds == a.active_kinds && !a.new_work) continue;
    retime(actor, kinds);
    if (kinds != a.active_kinds) slow_ports(actor, kinds);
    a.active_kinds = kinds;
    a.new_work = false;
  }
  unsettled_.clear();
}

/// Sets the timers of work begun in this time step, and moves those of work whose speed has changed.
void Interference::retime(Actor actor, KindSet kinds) {
  const ActorState& a = table_.actors[actor];
  for (std::uint64_t left = a.working; left != 0; left &= left - 1) {
    StreamState& s = a.streams[position(std::countr_zero(left))];
    const Kind kind = s.front().kind;
    const double speed = kind == Kind::delay || !contention_ ? 1.0 : contention_->speed(actor, kind, kinds);
    if (s.timed && speed == s.speed) continue;
    if (!(speed > 0)) throw InternalError(fmt::format("interference gives a speed of {}; expected more than 0", speed));
    if (s.timed) {
      context_.timers.cancel(s.timer);
      s.remaining = std::max(0.0, s.remaining - s.progress(context_.now));
    }
    s.since = context_.now;
    s.speed = speed;
    s.timer = context_.set_timer(context_.now + s.time_left(), TimerToken::Kind::work, table_.id_of(s).number());
    s.timed = true;
  }
}

void Interference::slow_ports(Actor actor, KindSet kinds) {
  ActorState& a = table_.actors[actor];
  const KindSet messages = bit(Kind::send) | bit(Kind::recv) | kSlowMessages;
  const double speed = contention_ && (kinds & messages) ? contention_->speed(actor, Kind::send, kinds) : 1.0;
  if (speed == a.port_speed) return;
  a.port_speed = speed;
  for (const LinkId link : contention_->ports(actor)) links_.slow(link, speed);
}

}  // namespace trainyard::execution
