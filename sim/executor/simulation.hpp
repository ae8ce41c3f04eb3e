#pragma once
#include <memory>

#include "sim/executor/changes.hpp"
#include "sim/observer.hpp"
#include "sim/transports/transport.hpp"

namespace trainyard {

class Executor;
struct PacketNetwork;

struct SimulationResult {
  Seconds end;  ///< end of the last operation; messages that nobody waits for do not count
  std::uint64_t operations = 0;
  std::uint64_t transfers = 0;
  std::uint64_t late_by_look_ahead = 0;
  std::size_t unmatched = 0;  ///< messages that nobody received (eager, put), and unmet receives of daemons
};

/// Runs programs on a machine to their end. Any number of simulations may run, one after the other or side by side.
class Simulation {
 public:
  /// Checks the machine's links (finite capacity > 0, at least one byte per second): UserError names the link.
  /// `packets`: the network of the transport `packets`, which must outlive the simulation; null for other transports.
  explicit Simulation(Machine&, TransportKind = kDefaultTransport, const PacketNetwork* packets = nullptr);
  ~Simulation();
  Simulation(const Simulation&) = delete;

  void add(Actor, std::unique_ptr<Program>);  ///< adds actors from 0 on without gaps
  void add(Programs);
  void observe(Observer&);
  void change(const LinkChange&);
  void change(ActorChange);           ///< the run continues until all actors that come back have done so and have ended
  void end_when(const bool& enough);  ///< see RunSetup

  /// Runs until all programs have ended. Throws Deadlock if nothing can continue before that, and Interruption if
  /// `is_interrupted()`.
  SimulationResult run();

  Executor& executor();

 private:
  struct Loop;
  std::unique_ptr<Loop> loop_;
};

/// Optional settings of a run.
struct RunSetup {
  std::vector<Observer*> observers = {};  ///< called in this order; null entries are skipped
  std::vector<LinkChange> link_changes = {};
  std::vector<ActorChange> actor_changes = {};
  TransportKind transport = kDefaultTransport;
  const PacketNetwork* packets = nullptr;  ///< network of the transport `packets`
  /// The run ends as soon as this is true (an observer may set it): operations under way are cancelled. Null: it ends
  /// when all programs have ended.
  const bool* enough = nullptr;
};

/// Creates a simulation and runs it to its end.
SimulationResult run_programs(Machine&, Programs, RunSetup = {});

}  // namespace trainyard
