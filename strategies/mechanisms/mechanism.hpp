#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/reading/registry.hpp"
#include "models/software/training_memory.hpp"
#include "sim/folding/outline.hpp"
#include "sim/observers/breakdown.hpp"
#include "sim/program.hpp"
#include "strategies/mechanisms/mechanism_figures.hpp"
#include "strategies/plan/training_plan.hpp"
#include "topologies/machines/cluster_machine.hpp"
#include "topologies/machines/placed_machine.hpp"

namespace trainyard {

class PassTables;
class TrainingValues;

/// The part of a plan that a mechanism's keys depend on.
struct MechanismSetting {
  const ClusterSpec& cluster;
  const Mesh& mesh;
  bool splits_model = false;  ///< over tensor, pipeline, context or expert ranks, by ZeRO, recomputation or offload
};

/// What training keeps of each parameter.
struct TrainingStates {
  Precision precision = Precision::bf16;
  Optimizer optimizer;
  SoftwareStack software;
};

/// When a step is one like all others.
struct StepRhythm {
  int turns = 1;  ///< what happens repeats after so many steps: steps that are looked at are a multiple of it
  std::string turns_reason;  ///< why, of turns > 1
  std::optional<int> steps;  ///< that are looked at where the plan does not say; none: one
  double warm = 0;           ///< steps before those at least: buffers fill, fast workers run ahead
  int fewest = 1;            ///< steps below which the plan's own number is refused
  bool varies = false;       ///< steps differ of themselves: when they are alike on average is found by looking
};

/// The steps of a run that are looked at, after `warm` others.
struct StepsLookedAt {
  int warm = 0;
  int steps = 1;
  bool found = false;                          ///< there may be steps after them, too
  std::function<BreakdownParts(Actor)> parts;  ///< of a worker's time in its own steps among them
  std::function<double(Actor)> own_steps;      ///< how many these are
  Seconds step;                                ///< of all workers together
};

/// One simulation of a plan by a mechanism: its programs, and its own account of what happened.
class MechanismRun {
 public:
  virtual ~MechanismRun() = default;

  virtual Programs programs() = 0;
  /// The same programs where those of ranks that are alike may be folded; null: each is made.
  virtual const ProgramSource* source() const { return nullptr; }
  virtual std::vector<std::string> streams() const = 0;  ///< of its actors, for traces
  virtual const PassTables& tables() const = 0;
  virtual const TrainingPlan& plan() const = 0;  ///< that its programs run
  /// Says what the calls of its programs mean, where that is not what they mean to ranks that all-reduce. The values are
  /// those of `plan`; the run must outlive theirs.
  virtual void add_values(TrainingValues&) {}
  /// Watches the run for its own account; null: nobody does.
  virtual Observer* observer() { return nullptr; }
  /// Actors from the first to before the second whose ends of steps (`marks_steps`) make a step of all: ranks, or servers.
  virtual std::pair<Actor, Actor> end_steps() const { return {0, plan().ranks()}; }
  /// A step of all is over: of workers that are not in step, as many steps as there are workers.
  virtual void step_over() {}
  virtual void book(MechanismFigures&, const StepsLookedAt&) const {}
};

/// Everything that a run needs; all of it must outlive the run.
struct MechanismSite {
  const TrainingPlan& plan;  ///< made whole, with all steps
  const ClusterMachine& machine;
  const TrainingStates& states;
  Names& names;
};

/// How the replicas of a model come to common parameters: a data-parallel mechanism as a plan chooses it, with what its
/// keys say. Defaults are those of replicas in step that run the same training program.
class Mechanism {
 public:
  virtual ~Mechanism() = default;

  // What its keys say.
  virtual std::optional<int> workers() const { return std::nullopt; }         ///< ranks, where they say it
  virtual void settle(Fields& /*data_parallel*/, const MechanismSetting&) {}  ///< the rest, once the mesh is known
  // What others ask.
  virtual bool all_reduces() const { return true; }  ///< replicas all-reduce (or, with ZeRO, reduce-scatter) gradients
  virtual bool ranks_alike() const { return true; }  ///< ranks run the training program, and nobody else does anything
  virtual bool in_step() const { return true; }      ///< all workers do each step together
  /// Why gradients cannot be compressed on their way, or "".
  virtual std::string refuses_compression() const { return ""; }
  virtual bool stops_together() const { return true; }          ///< a step takes the gradients of all workers
  virtual int servers() const { return 0; }                     ///< processes beside the ranks
  virtual bool goes_on_without_some() const { return false; }   ///< ranks that fail leave the others going on
  virtual bool survives_server() const { return false; }        ///< so does a server that fails
  virtual std::vector<int> server_nodes() const { return {}; }  ///< the nodes that servers are on

  // Planning. `plan` is laid out as if gradients were all-reduced.
  virtual void lay_out(TrainingPlan&, const TrainingStates&) const {}
  virtual StepRhythm rhythm() const { return {}; }
  /// Operations of all actors in one step for what replicas exchange.
  virtual double operations(const TrainingPlan&) const;

  // Running.
  /// Where its actors are, ranks first; empty: they are the machine's own.
  virtual std::vector<PlacedMachine::Placed> actors(const TrainingPlan&, const ClusterMachine&) const { return {}; }
  virtual std::unique_ptr<MechanismRun> run(const MechanismSite&) const;

  // Answering.
  virtual void book(MechanismFigures&, const TrainingPlan&, int /*steps*/) const {}
  /// What takes long to find out, once for an answer.
  virtual void book_slow(MechanismFigures&) const {}
  /// "gossip (ring)"; `all_reduce` is what replicas do that sum gradients themselves.
  virtual std::string summary(const std::string& all_reduce) const { return all_reduce; }
  /// Lines of a report and what stands before the first of them; `time` shows seconds in the unit of the step.
  struct Report {
    std::string label;
    std::vector<std::string> lines;
  };
  virtual Report report(const MechanismFigures&, const std::function<std::string(double)>& /*time*/,
                        const std::string& /*unit*/) const {
    return {};
  }
};

/// A mechanism as the registry knows it.
struct MechanismKind {
  std::string name;         ///< plan.data_parallel.mechanism
  std::string description;  ///< for `trainyard list mechanisms`
  std::vector<Key> keys;    ///< of plan.data_parallel: its own, refused with others
  /// Is it chosen by one of its keys, where the mechanism is all-reduce or not said? Null: by name alone.
  bool (*chosen)(Fields& data_parallel) = nullptr;
  std::unique_ptr<Mechanism> (*read)(Fields& data_parallel, const ClusterSpec&) = nullptr;
  std::vector<MechanismFigureKind> figures = {};  ///< that it books
  const char* figures_when = "";                  ///< when an answer has them: "with gossip"
  /// Which of the figures it books.
  FiguresByKey MechanismFigures::*group = &MechanismFigures::replicas;
};

Registry<MechanismKind>& mechanisms();

/// Reads `mechanism` and the keys of the one that is chosen, and refuses those of all others. Throws UserError.
struct ChosenMechanism {
  std::string name;
  std::unique_ptr<Mechanism> mechanism;
};
ChosenMechanism read_mechanism(Fields& data_parallel, const ClusterSpec&);

struct RegisterMechanism {
  explicit RegisterMechanism(MechanismKind kind) {
    const std::string name = kind.name;
    mechanisms().add(name, std::move(kind));
  }
};

}  // namespace trainyard
