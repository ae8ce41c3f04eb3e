// What runs beside what on one actor: the speed of its work and of its ports.
#include <fmt/format.h>

#include <algorithm>

#include "sim/error.hpp"
#include "sim/executor/executor_state.hpp"

namespace trainyard {

void Executor::change_active(Actor actor, Kind kind, int change) {
  if (change == 0 || kind == Kind::mark || kind == Kind::delay) return;
  ActorState& a = actors_[static_cast<std::size_t>(actor)];
  auto& count = a.active[static_cast<std::size_t>(kind)];
  count = static_cast<std::uint16_t>(count + change);
  settle_later(actor);
}

void Executor::settle_later(Actor actor) {
  ActorState& a = actors_[static_cast<std::size_t>(actor)];
  if (a.settling) return;
  a.settling = true;
  settling_.push_back(actor);
}

void Executor::settle() {
  for (const Actor actor : settling_) {
    ActorState& a = actors_[static_cast<std::size_t>(actor)];
    a.settling = false;
    KindSet kinds = 0;
    for (const Kind kind : {Kind::compute, Kind::local, Kind::send, Kind::recv})
      if (a.active[static_cast<std::size_t>(kind)] > 0) kinds |= bit(kind);
    if (kinds == a.active_kinds && !a.fresh_work) continue;
    retime(actor, kinds);
    if (kinds != a.active_kinds) slow_ports(actor, kinds);
    a.active_kinds = kinds;
    a.fresh_work = false;
  }
  settling_.clear();
}

/// Sets the timers of work begun in this step, and moves those of work whose speed has changed.
void Executor::retime(Actor actor, KindSet kinds) {
  ActorState& a = actors_[static_cast<std::size_t>(actor)];
  for (StreamState& s : a.streams) {
    if (!s.busy) continue;
    const Kind kind = s.front().kind;
    if (kind != Kind::compute && kind != Kind::local && kind != Kind::delay) continue;
    const double speed = kind == Kind::delay || !interferes_ ? 1.0 : machine_.speed(actor, kind, kinds);
    if (s.timed && speed == s.speed) continue;
    if (!(speed > 0)) throw InternalError(fmt::format("a speed of {} by interference", speed));
    if (s.timed) {
      agenda_.cancel(s.timer);
      s.remaining = std::max(0.0, s.remaining - (now_ - s.since) * s.speed);
    }
    s.since = now_;
    s.speed = speed;
    s.timer = agenda_.at(now_ + s.remaining / speed, token(Timer::work, ref_of(s)));
    s.timed = true;
  }
}

void Executor::slow_ports(Actor actor, KindSet kinds) {
  ActorState& a = actors_[static_cast<std::size_t>(actor)];
  const KindSet messages = bit(Kind::send) | bit(Kind::recv);
  const double speed = (kinds & messages) ? machine_.speed(actor, Kind::send, kinds) : 1.0;
  if (speed == a.port_speed) return;
  a.port_speed = speed;
  for (const LinkId link : machine_.ports(actor)) {
    port_speed_[static_cast<std::size_t>(link)] = speed;
    transport_.set_capacity(link, capacity_[static_cast<std::size_t>(link)] * speed);
  }
}

}  // namespace trainyard
