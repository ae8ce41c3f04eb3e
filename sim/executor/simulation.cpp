#include "sim/executor/simulation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/error.hpp"
#include "sim/executor/executor.hpp"
#include "sim/process/job.hpp"
#include "sim/program.hpp"
#include "sim/transports/engine_process.hpp"
#include "sim/transports/flow_transport.hpp"
#include "sim/transports/packet_network.hpp"

namespace trainyard {
namespace {

void check(const Link& link) {
  if (!std::isfinite(link.capacity.value) || link.capacity.value < 1)
    throw UserError(fmt::format("link {}: capacity {} B/s; expected a finite rate of at least 1 B/s", link.name,
                                link.capacity.value));
}

std::unique_ptr<Machine> packet_routes(Machine& machine, const PacketNetwork* packets) {
  return packets ? std::make_unique<PacketRoutes>(machine, *packets) : nullptr;
}

std::unique_ptr<Transport> make_transport(TransportKind kind, std::span<const Link> links,
                                          const PacketNetwork* packets) {
  if ((kind == TransportKind::packets) != (packets != nullptr))
    throw InternalError("a network of packets belongs to the transport of that name, and to no other");
  for (const Link& link : links) check(link);
  if (kind == TransportKind::flow) return std::make_unique<FlowTransport>(links);
  return std::make_unique<EngineProcess>(links, packets);
}

}  // namespace

/// Finds what happens next, and when: timers that are due and flows that end.
struct Simulation::Loop {
  Loop(Machine& base, TransportKind kind, const PacketNetwork* packets)
      : routes(packet_routes(base, packets)),
        machine(routes ? *routes : base),
        transport(make_transport(kind, machine.links(), packets)),
        executor(machine, *transport, timers) {}

  std::unique_ptr<Machine> routes;  // for packets: routes without the latencies of the cables
  Machine& machine;
  std::unique_ptr<Transport> transport;
  execution::Timers timers;
  Executor executor;
  std::vector<execution::TimerToken> due;
  std::vector<FlowToken> flows;  // that have ended

  /// Time of the next event; −1: there is none.
  double next(double now) {
    const double flow_end = transport->next(now);
    executor.note_limits();  // the transport has just computed the rates from now on
    if (executor.is_finished()) return -1;
    const double timer = timers.next();
    return flow_end >= 0 && (timer < 0 || flow_end < timer) ? flow_end : timer;
  }

  /// Ends all timers and flows that are due at `now`.
  void step(double now) {
    timers.collect(now + kSameTime, due);
    transport->advance(now, now + kSameTime, flows);
    if (due.empty() && flows.empty()) return;
    executor.deliver(due, flows, now);
    due.clear();
    flows.clear();
  }

  void run_flows() {
    executor.start();
    double now = executor.now().value;
    for (std::uint32_t steps = 0;; ++steps) {
      const double time = next(now);
      if (time < 0) return;
      if (steps % kLookEvery == 0) end_if_interrupted();
      executor.prefetch_upcoming();
      now += std::max(0.0, time - now);
      step(now);
      now = std::max(now, executor.now().value);
    }
  }

  void run_engine(EngineProcess& engine) {
    bool started = false;
    engine.run(
        [this, &started](double now) {
          executor.note_limits();  // for the flows that departed in the previous step
          if (std::exchange(started, true))
            step(now);
          else
            executor.start();
          return timers.next();
        },
        [this, &started] { return started && executor.is_finished(); });
  }

 private:
  static constexpr std::uint32_t kLookEvery = 256;  // steps between two looks at signals; one takes a few microseconds
};

Simulation::Simulation(Machine& machine, TransportKind kind, const PacketNetwork* packets)
    : loop_(std::make_unique<Loop>(machine, kind, packets)) {}

Simulation::~Simulation() = default;

Executor& Simulation::executor() { return loop_->executor; }
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
  Executor& executor = loop_->executor;
  if (auto* engine = dynamic_cast<EngineProcess*>(loop_->transport.get()))
    loop_->run_engine(*engine);
  else
    loop_->run_flows();
  if (!executor.is_finished()) throw Deadlock(executor.deadlock_report());
  executor.tell_observers_the_end();
  return {executor.end(), executor.operations(), executor.transfers(), executor.late_by_look_ahead(),
          executor.unmatched_messages()};
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
