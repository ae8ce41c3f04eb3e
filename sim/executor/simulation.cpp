#include "sim/executor/simulation.hpp"

#include <fmt/format.h>

#include <cmath>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/s4u/Engine.hpp>
#include <simgrid/s4u/Host.hpp>
#include <simgrid/s4u/NetZone.hpp>

#include "sim/error.hpp"
#include "sim/transports/flow_transport.hpp"
#include "sim/transports/native_transport.hpp"

namespace trainyard {
namespace {

void check(const Link& link) {
  if (!std::isfinite(link.capacity.value) || link.capacity.value < 1)
    throw UserError(fmt::format("link {}: capacity {} B/s; expected a finite rate of at least 1 B/s", link.name,
                                link.capacity.value));
}

simgrid::s4u::Engine& engine() {
  static bool used = false;
  if (used)
    throw InternalError("a second simulation in one process: SimGrid's clock does not restart; run it in a child");
  used = true;
  // With these a transfer takes exactly its bytes over its max-min share (no TCP window, no weights by latency), and
  // events count as simultaneous within a picosecond instead of a nanosecond. All links have latency zero: latencies
  // are paid before a flow starts.
  static const char* arguments[] = {
      "trainyard",
      "--log=root.thres:error",
      "--cfg=network/model:CM02",
      "--cfg=network/TCP-gamma:0",
      "--cfg=network/crosstraffic:0",
      "--cfg=network/weight-S:0",
      "--cfg=network/latency-factor:1",
      "--cfg=network/bandwidth-factor:1",
      "--cfg=network/optim:Lazy",
      "--cfg=surf/precision:1e-12",
      "--cfg=maxmin/precision:1e-9",
      nullptr,
  };
  int count = static_cast<int>(std::size(arguments)) - 1;
  static simgrid::s4u::Engine instance(&count, const_cast<char**>(arguments));
  return instance;
}

}  // namespace

/// The executor's only face towards SimGrid: a resource model that keeps our timers on SimGrid's clock and hands over
/// what has ended.
///
/// Over a transport whose flows SimGrid completes, a time step has two rounds: the first notes timers that are due while
/// SimGrid completes its communications of the same instant, the second delivers all of them together. Otherwise nothing
/// but our own events moves the simulation, and we run ahead of SimGrid's clock up to its next timer: its loop around an
/// event costs as much as the event. Its clock then follows in one step.
class Simulation::Clock : public simgrid::kernel::resource::Model {
 public:
  Clock(Agenda& agenda, Transport& transport, Executor& executor)
      : Model("trainyard"), agenda_(agenda), transport_(transport), executor_(executor) {}

  double next_occurring_event(double now) override {
    if (ahead_ > now) return ahead_ - now;
    return until_next(now);
  }

  void update_actions_state(double now, double delta) override {
    if (ahead_ > now) return;
    if (!started_) {
      started_ = true;
      executor_.start();
    } else if (!step(now, delta)) {
      return;
    }
    if (!transport_.ends_by_itself()) run_ahead(now);
  }

 private:
  Agenda& agenda_;
  Transport& transport_;
  Executor& executor_;
  bool started_ = false;
  double ahead_ = 0;  // we have come so far; SimGrid's clock may be behind
  std::vector<Agenda::Token> timers_;
  std::vector<FlowToken> flows_;

  /// From `now` until our next event; −1: there is none.
  double until_next(double now) {
    const double flow_end = transport_.next(now);
    executor_.note_limits();  // the links have just been shared for the time to come
    if (started_ && executor_.finished()) return -1;
    if (!started_ || !timers_.empty() || !flows_.empty()) return 0;
    if (transport_.ends_by_itself() && transport_.advance(now, now, flows_)) return 0;
    double next = agenda_.next();
    if (flow_end >= 0 && (next < 0 || flow_end < next)) next = flow_end;
    return next < 0 ? -1 : std::max(0.0, next - now);
  }

  /// Delivers what ends now; false if that is nothing.
  bool step(double now, double delta) {
    if (executor_.finished()) return false;
    const std::size_t before = timers_.size();
    agenda_.collect(now + kSameTime, timers_);
    transport_.advance(now, now + kSameTime, flows_);
    if (timers_.empty() && flows_.empty()) return false;
    // SimGrid's communications of this instant come after this call.
    if (transport_.ends_by_itself() && delta > 0 && timers_.size() > before) return false;
    executor_.deliver(timers_, flows_, now);
    timers_.clear();
    flows_.clear();
    return true;
  }

  void run_ahead(double now) {
    for (;;) {
      const double delta = until_next(now);
      if (delta < 0) break;
      const double timer = simgrid::kernel::timer::Timer::next();
      if (timer >= 0 && timer <= now + delta) break;
      executor_.look_forward();
      now += delta;
      if (!step(now, delta)) break;
    }
    ahead_ = now;
  }
};

TransportKind parse_transport(const std::string& name) {
  if (name == "native") return TransportKind::native;
  if (name == "flow") return TransportKind::flow;
  throw UserError(fmt::format("--transport: unknown transport \"{}\"; known: native, flow", name));
}

Simulation::Simulation(Machine& machine, TransportKind kind) {
  for (const Link& link : machine.links()) check(link);
  engine();
  if (kind == TransportKind::native) {
    transport_ = std::make_unique<NativeTransport>(machine.links());
  } else {
    simgrid::s4u::NetZone* zone = simgrid::s4u::create_empty_zone("trainyard");  // SimGrid runs no engine without one
    zone->create_host("idle", 1.0)->seal();
    zone->seal();
    transport_ = std::make_unique<FlowTransport>(machine.links());
  }
  executor_ = std::make_unique<Executor>(machine, *transport_, agenda_);
}

Simulation::~Simulation() = default;

SimulationResult Simulation::run() {
  simgrid::s4u::Engine& simgrid = *simgrid::s4u::Engine::get_instance();
  clock_ = std::make_shared<Clock>(agenda_, *transport_, *executor_);
  simgrid.add_model(clock_);
  simgrid.run();
  if (!executor_->finished()) throw Deadlock(executor_->stuck());
  return {executor_->end(), executor_->operations(), executor_->transfers(), executor_->late_by_look_ahead(),
          executor_->unmatched()};
}

}  // namespace trainyard
