#pragma once
#include <memory>
#include <string>

#include "sim/executor/changes.hpp"
#include "sim/observer.hpp"
#include "sim/transports/transport_kind.hpp"

namespace trainyard {

class Executor;
struct PacketNetwork;

struct SimulationResult {
  Seconds end;  ///< of the last operation; messages that nobody waits for do not count
  std::uint64_t operations = 0;
  std::uint64_t transfers = 0;
  std::uint64_t late_by_look_ahead = 0;
  std::size_t unmatched = 0;  ///< messages that nobody received (eager, put), and receives that daemons still wait for
};

/// Runs programs on a machine to their end. There may be any number of simulations, one after the other and side by side.
class Simulation {
 public:
  /// Checks the machine's links (finite capacity > 0, at least one byte per second): UserError names the link.
  /// `packets`: the network of the transport of that name, which must outlive it; of others null.
  explicit Simulation(Machine&, TransportKind = kDefaultTransport, const PacketNetwork* packets = nullptr);
  ~Simulation();
  Simulation(const Simulation&) = delete;

  void add(Actor, std::unique_ptr<Program>);  ///< actors from 0 without gaps
  void add(Programs);
  void observe(Observer&);
  void change(const LinkChange&);
  void change(ActorChange);           ///< the run goes on until all actors that come back have done so, and have ended
  void end_when(const bool& enough);  ///< see RunSetup

  /// Until all programs have ended. Throws Deadlock when nothing can go on before, and Interrupted.
  SimulationResult run();

  Executor& executor();

 private:
  struct Loop;
  std::unique_ptr<Loop> loop_;
};

/// What a run has besides machine and programs.
struct RunSetup {
  std::vector<Observer*> observers = {};  ///< told in this order; null ones are left out
  std::vector<LinkChange> link_changes = {};
  std::vector<ActorChange> actor_changes = {};
  TransportKind transport = kDefaultTransport;
  const PacketNetwork* packets = nullptr;  ///< of the transport of that name
  /// The run is over as soon as this is true (an observer may set it): what is under way then is cancelled. Null: when
  /// all programs have ended.
  const bool* enough = nullptr;
};

/// Puts a simulation together and runs it to its end.
SimulationResult run_programs(Machine&, Programs, RunSetup = {});

}  // namespace trainyard
