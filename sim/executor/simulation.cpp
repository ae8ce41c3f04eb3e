#include "sim/executor/simulation.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <simgrid/kernel/Timer.hpp>
#include <simgrid/kernel/resource/Model.hpp>
#include <simgrid/s4u/Engine.hpp>
#include <simgrid/s4u/Host.hpp>
#include <simgrid/s4u/NetZone.hpp>
#include <utility>

#include "sim/error.hpp"
#include "sim/executor/executor.hpp"
#include "sim/list_program.hpp"
#include "sim/transports/flow_transport.hpp"
#include "sim/transports/native_transport.hpp"
#include "sim/transports/packet_routes.hpp"
#include "sim/transports/packet_transport.hpp"

namespace trainyard {
namespace {

void check(const Link& link) {
  if (!std::isfinite(link.capacity.value) || link.capacity.value < 1)
    throw UserError(fmt::format("link {}: capacity {} B/s; expected a finite rate of at least 1 B/s", link.name,
                                link.capacity.value));
}

// With these a transfer takes exactly its bytes over its max-min share (no TCP window, no weights by latency), and events
// count as simultaneous within a picosecond instead of a nanosecond. All links have latency zero: latencies are paid
// before a flow starts.
constexpr const char* kExactSharing[] = {
    "--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0",      "--cfg=network/crosstraffic:0",
    "--cfg=network/weight-S:0", "--cfg=network/latency-factor:1", "--cfg=network/bandwidth-factor:1",
    "--cfg=network/optim:Lazy", "--cfg=surf/precision:1e-12",     "--cfg=maxmin/precision:1e-9",
};

simgrid::s4u::Engine& engine(TransportKind kind) {
  static bool used = false;
  if (used)
    throw InternalError("a second simulation in one process: SimGrid's clock does not restart; run it in a child");
  used = true;
  static std::vector<const char*> arguments{"trainyard", "--log=root.thres:error"};
  if (kind == TransportKind::packets)
    for (const char* setting : PacketTransport::settings()) arguments.push_back(setting);
  else
    arguments.insert(arguments.end(), std::begin(kExactSharing), std::end(kExactSharing));
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  static simgrid::s4u::Engine instance(&count, const_cast<char**>(arguments.data()));
  return instance;
}

std::unique_ptr<Transport> make_transport(TransportKind kind, std::span<const Link> links,
                                          const PacketNetwork* packets) {
  if (kind == TransportKind::native) return std::make_unique<NativeTransport>(links);
  if (kind == TransportKind::packets) return std::make_unique<PacketTransport>(links, *packets);
  simgrid::s4u::NetZone* zone = simgrid::s4u::create_empty_zone("trainyard");  // SimGrid runs no engine without one
  zone->create_host("idle", 1.0)->seal();
  zone->seal();
  return std::make_unique<FlowTransport>(links);
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
  Clock(Machine& machine, std::unique_ptr<Transport> transport)
      : Model("trainyard"), transport_(std::move(transport)), executor_(std::in_place, machine, *transport_, timers_) {}

  Executor& executor() { return *executor_; }
  /// The engine keeps this model until the process ends; what it ran goes earlier.
  void release() {
    executor_.reset();
    transport_.reset();
  }

  double next_occurring_event(double now) override {
    if (!executor_) return -1;
    if (ahead_ > now) return ahead_ - now;
    return until_next(now);
  }

  void update_actions_state(double now, double delta) override {
    if (!executor_ || ahead_ > now) return;
    if (!started_) {
      started_ = true;
      executor_->start();
    } else if (!step(now, delta)) {
      return;
    }
    if (!transport_->ends_by_itself()) run_ahead(executor_->now().value);
  }

 private:
  execution::Timers timers_;
  std::unique_ptr<Transport> transport_;
  std::optional<Executor> executor_;
  bool started_ = false;
  double ahead_ = 0;  // we have come so far; SimGrid's clock may be behind
  std::vector<execution::TimerToken> due_;
  std::vector<FlowToken> flows_;  // that have ended

  /// From `now` until our next event; −1: there is none.
  double until_next(double now) {
    const double flow_end = transport_->next(now);
    executor_->note_limits();  // the links have just been shared for the time to come
    if (started_ && executor_->finished()) return -1;
    if (!started_ || !due_.empty() || !flows_.empty()) return 0;
    const bool simgrid_ends_flows = transport_->ends_by_itself();
    if (simgrid_ends_flows && transport_->advance(now, now, flows_)) return 0;
    double next = timers_.next();
    if (flow_end >= 0 && (next < 0 || flow_end < next)) next = flow_end;
    if (next < 0) return -1;
    return std::max(0.0, simgrid_ends_flows ? transport_->step_to(now, next) : next - now);
  }

  /// Delivers what ends now; false if that is nothing.
  bool step(double now, double delta) {
    if (executor_->finished()) return false;
    const std::size_t before = due_.size();
    timers_.collect(now + kSameTime, due_);
    transport_->advance(now, now + kSameTime, flows_);
    if (due_.empty() && flows_.empty()) return false;
    // SimGrid's communications of this instant come after this call.
    if (transport_->ends_by_itself() && delta > 0 && due_.size() > before) return false;
    executor_->deliver(due_, flows_, now);
    due_.clear();
    flows_.clear();
    return true;
  }

  void run_ahead(double now) {
    for (;;) {
      const double delta = until_next(now);
      if (delta < 0) break;
      const double timer = simgrid::kernel::timer::Timer::next();
      if (timer >= 0 && timer <= now + delta) break;
      executor_->prefetch_upcoming();
      now += delta;
      if (!step(now, delta)) break;
      now = executor_->now().value;
    }
    ahead_ = now;
  }
};

TransportKind parse_transport(const std::string& name) {
  if (name == "native") return TransportKind::native;
  if (name == "flow") return TransportKind::flow;
  if (name == "packets") return TransportKind::packets;
  throw UserError(fmt::format("--transport: unknown transport \"{}\"; known: native, flow, packets", name));
}

Simulation::Simulation(Machine& machine, TransportKind kind, const PacketNetwork* packets) {
  for (const Link& link : machine.links()) check(link);
  if ((kind == TransportKind::packets) != (packets != nullptr))
    throw InternalError("a network of packets belongs to the transport of that name, and to no other");
  engine(kind);
  if (packets) without_cables_ = std::make_unique<PacketRoutes>(machine, *packets);
  clock_ =
      std::make_shared<Clock>(packets ? *without_cables_ : machine, make_transport(kind, machine.links(), packets));
}

Simulation::~Simulation() { clock_->release(); }

Executor& Simulation::executor() { return clock_->executor(); }
void Simulation::add(Actor actor, std::unique_ptr<Program> program) { executor().add(actor, std::move(program)); }
void Simulation::add(Programs programs) {
  for (std::size_t actor = 0; actor < programs.size(); ++actor) {
    if (!programs[actor]) programs[actor] = std::make_unique<ListProgram>(std::vector<Op>{});
    add(static_cast<Actor>(actor), std::move(programs[actor]));
  }
}
void Simulation::observe(Observer& observer) { executor().observe(observer); }
void Simulation::change(const LinkChange& change) { executor().change(change); }
void Simulation::change(ActorChange change) { executor().change(std::move(change)); }
void Simulation::end_when(const bool& enough) { executor().end_when(enough); }

SimulationResult Simulation::run() {
  simgrid::s4u::Engine& simgrid = *simgrid::s4u::Engine::get_instance();
  simgrid.add_model(clock_);
  simgrid.run();
  const Executor& executor = clock_->executor();
  if (!executor.finished()) throw Deadlock(executor.deadlock_report());
  clock_->executor().tell_observers_the_end();
  return {executor.end(), executor.operations(), executor.transfers(), executor.late_by_look_ahead(),
          executor.unmatched()};
}

SimulationResult run_programs(Machine& machine, Programs programs, RunSetup setup) {
  Simulation simulation(machine, setup.transport, setup.packets);
  simulation.add(std::move(programs));
  for (Observer* observer : setup.observers)
    if (observer) simulation.observe(*observer);
  for (const LinkChange& change : setup.link_changes) simulation.change(change);
  for (ActorChange& change : setup.actor_changes) simulation.change(std::move(change));
  if (setup.enough) simulation.end_when(*setup.enough);
  return simulation.run();
}

}  // namespace trainyard
