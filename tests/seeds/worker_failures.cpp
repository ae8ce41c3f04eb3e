// ASYNC-02: a worker dies. The asynchronous server goes on with the others, and the synchronous step stands still.
#include <fmt/format.h>

#include "scenarios/src/running/server_cell.hpp"
#include "sim/executor/simulation.hpp"
#include "tests/seeds/simple_training.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

constexpr BytesPerSecond kAnyLink{1e9};  // no message has bytes

/// Counts calls of one kind that ended on an actor by `until`, and cancelled computations. Records the last end (s).
class CallCounter : public Observer {
 public:
  CallCounter(Actor actor, int call, double until) : actor_(actor), call_(call), until_(until * (1 + 1e-12)) {}
  void finished(const OpRun& run) override {
    if (run.outcome == Outcome::cancelled) {
      lost_ += run.op->kind == Kind::compute ? 1 : 0;
      return;
    }
    last_ = run.ended.value;
    if (run.op->actor == actor_ && run.op->effect.action == Action::call && run.op->effect.call == call_ &&
        run.ended.value <= until_)
      ++calls_;
  }
  int calls() const { return calls_; }
  int lost() const { return lost_; }
  double last() const { return last_; }

 private:
  Actor actor_;
  int call_;
  double until_;
  int calls_ = 0, lost_ = 0;
  double last_ = 0;
};

/// Returns the fate of synchronous workers whose step takes `ms`, if one of them dies and nothing recovers.
std::string synchronous_without_recovery(int workers, double ms, Actor victim, double fail_s, double horizon_s) {
  const Network network = simple_layers(1, 1, milliseconds(ms));
  TrainingPlan plan = simple_plan(network, workers, "ring", false);
  send_nothing(plan);
  plan.values = true;  // operations carry calls
  plan.steps = static_cast<int>(horizon_s * 1e3 / ms);
  Names names;
  ClusterMachine machine(star_cluster(workers, kAnyLink), SoftwareStack{});
  CallCounter counter(0, static_cast<int>(TrainingCall::update), horizon_s);
  Simulation simulation(machine);
  const TrainingPrograms programs(plan, names);
  simulation.add(programs.programs());
  simulation.change(ActorChange{Seconds{fail_s}, victim, nullptr});
  simulation.observe(counter);
  try {
    simulation.run();
  } catch (const Deadlock& e) {
    const bool names_victim = std::string(e.what()).find(fmt::format("rank {} ", victim)) != std::string::npos &&
                              std::string(e.what()).find("which failed at") != std::string::npos;
    return fmt::format("{} at {:.0f} ms: {} complete steps", names_victim ? "stalls" : "stalls for no reason given",
                       counter.last() * 1e3, counter.calls());
  }
  return "goes on";
}

SeedFigures async_02(const Node& inputs) {
  const int workers = static_cast<int>(number_of(inputs, "workers"));
  const auto victim = static_cast<Actor>(number_of(inputs, "worker"));
  const double ms = number_of(inputs, "ms"), fail_s = number_of(inputs, "fail_at_ms") * 1e-3,
               horizon_s = number_of(inputs, "horizon_ms") * 1e-3;
  ServerCell cell;
  cell.workers = workers;
  cell.steps = static_cast<int>(horizon_s * 1e3 / ms);
  cell.compute = Seconds{ms * 1e-3};
  cell.failures = {{victim, Seconds{fail_s}}};
  cell.change = [](ServerPlan& plan) { plan.consistency = Consistency::asynchronous; };
  CallCounter counter(workers, static_cast<int>(ServerCall::apply), horizon_s);
  ServerCellRun run(cell);
  run.run({&counter});
  return {{"minibatches_done", counter.calls()},
          {"minibatches_lost", counter.lost()},
          {"sync_without_recovery", synchronous_without_recovery(workers, ms, victim, fail_s, horizon_s)}};
}

const RegisterSeed worker_failures{"ASYNC-02", async_02};

}  // namespace
}  // namespace trainyard
