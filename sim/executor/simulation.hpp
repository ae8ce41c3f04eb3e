#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sim/executor/executor.hpp"

namespace trainyard {

struct SimulationResult {
  Seconds end;  ///< of the last operation; messages that nobody waits for do not count
  std::uint64_t operations = 0;
  std::uint64_t transfers = 0;
  std::uint64_t late_by_look_ahead = 0;
  std::size_t unmatched = 0;  ///< messages that nobody received (eager, put), and receives of daemons that still wait
};

/// Who shares the links: SimGrid's own communications (the oracle), or our solver on SimGrid's clock (fast).
enum class TransportKind : std::uint8_t { native, flow };
TransportKind parse_transport(const std::string&);  ///< throws UserError naming both
constexpr TransportKind kDefaultTransport = TransportKind::flow;

/// Programs on a machine, run to their end on SimGrid's clock. SimGrid's engine is one a process and its clock does
/// not go back: one Simulation a process. Whoever needs many runs each `in_child`.
class Simulation {
 public:
  /// Checks the machine's links (finite capacity > 0, at least one byte per second): UserError names the link.
  explicit Simulation(Machine&, TransportKind = kDefaultTransport);
  ~Simulation();
  Simulation(const Simulation&) = delete;

  void add(Actor actor, std::unique_ptr<Program> program) { executor_->add(actor, std::move(program)); }
  void observe(Observer& observer) { executor_->observe(observer); }
  void change(const LinkChange& change) { executor_->change(change); }
  void change(ActorChange change) { executor_->change(std::move(change)); }

  /// Until all programs have ended. Throws Deadlock when nothing can go on before.
  SimulationResult run();

  Executor& executor() { return *executor_; }

 private:
  class Clock;
  Agenda agenda_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Executor> executor_;
  std::shared_ptr<Clock> clock_;
};

/// All that ends within this time is one time step (absolute; SimGrid's surf/precision).
constexpr double kSameTime = 1e-12;

}  // namespace trainyard
