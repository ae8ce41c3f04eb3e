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
  /// True if the plan splits the model (over tensor, pipeline, context or expert ranks, or by ZeRO), recomputes or
  /// offloads.
  bool splits_model = false;
  ZeroStage zero = ZeroStage::none;
  int zero_group = 0;  ///< number of ranks that share the states of a copy of the model; 0: all share them
};

/// Precision, optimizer and software: they decide what training stores for each parameter.
struct TrainingStates {
  Precision precision = Precision::bf16;
  Optimizer optimizer;
  SoftwareStack software;
};

/// Number of steps that a run needs until its steps are typical.
struct StepRhythm {
  int turns = 1;              ///< period of the steps: the number of evaluated steps is a multiple of it
  std::string turns_reason;   ///< reason of a period above 1, for error messages
  std::optional<int> steps;   ///< evaluated steps if the plan sets no number; no value: the common default
  double warm = 0;            ///< least number of warm-up steps: buffers fill, fast workers run ahead
  int fewest = 1;             ///< smallest number of steps that a plan may set
  bool varies = false;        ///< steps differ by nature: the run goes on until their mean is steady
  int exchange_interval = 1;  ///< steps from one exchange between replicas to the next
};

/// The steps of a run that the answer is computed from. They follow `warm` warm-up steps.
struct StepWindow {
  int warm = 0;
  int steps = 1;
  bool found = false;                          ///< true: a search for the steady state ended them; more may follow
  std::function<BreakdownParts(Actor)> parts;  ///< breakdown of a worker's time in its own steps of the window
  std::function<double(Actor)> own_steps;      ///< number of a worker's own steps in the window
  std::function<double(Actor)> work;           ///< time of an actor's kernels in a step, s
  Seconds step;                                ///< time of one step of all workers
};

/// One simulation of a plan by a mechanism: its programs, and the figures that it collects about the run.
class MechanismRun {
 public:
  virtual ~MechanismRun() = default;

  virtual Programs programs() = 0;
  /// The source of the same programs if equivalent ranks may be folded; null: folding is not possible.
  virtual const ProgramSource* source() const { return nullptr; }
  virtual std::vector<std::string> streams() const = 0;  ///< names of the streams of its actors, for traces
  virtual const PassTables& tables() const = 0;
  virtual const TrainingPlan& plan() const = 0;  ///< the plan that its programs execute
  /// Defines the calls of its programs that do something else than in programs of ranks that all-reduce.
  /// `TrainingValues` must be made for `plan()`. The run must outlive it.
  virtual void add_values(TrainingValues&) {}
  /// The observer that collects the mechanism's own figures; null: the mechanism needs none.
  virtual Observer* observer() { return nullptr; }
  /// The actors [first, second), ranks or servers, that mark the ends of their steps (`marks_steps`). Once all of them
  /// have marked one, a step of all workers has ended.
  virtual std::pair<Actor, Actor> end_steps() const { return {0, plan().ranks()}; }
  /// The run calls this function when a step of all workers ends. If workers are not in step, this is after as many
  /// worker steps as there are workers.
  virtual void step_over() {}
  virtual void add_figures(MechanismFigures&, const StepWindow&) const {}
};

/// Everything that a run needs. All of it must outlive the run.
struct MechanismSite {
  const TrainingPlan& plan;  ///< the complete plan, with its number of steps
  const ClusterMachine& machine;
  const TrainingStates& states;
  Names& names;
};

/// Defines how the replicas of a model come to common parameters: the data-parallel mechanism of a plan, with the
/// values of its keys. The defaults describe replicas that run the same training program in step.
class Mechanism {
 public:
  virtual ~Mechanism() = default;

  // Reading.
  virtual std::optional<int> workers() const { return std::nullopt; }  ///< number of ranks, if its keys set it
  /// Reads and checks the keys that depend on the mesh. Throws UserError.
  virtual void read_setting(Fields& /*data_parallel*/, const MechanismSetting&) {}

  // Properties.
  virtual bool all_reduces() const { return true; }  ///< replicas all-reduce (or, with ZeRO, reduce-scatter) gradients
  virtual bool averages_parameters() const { return false; }  ///< replicas all-reduce parameters, not gradients
  virtual bool ranks_alike() const { return true; }  ///< all ranks run the training program; there are no other actors
  virtual bool is_synchronous() const { return true; }  ///< all workers execute each step together
  /// The reason why gradients cannot be compressed before they are sent; "": they can.
  virtual std::string refuses_compression() const { return ""; }
  virtual bool stops_together() const { return true; }          ///< a step takes the gradients of all workers
  virtual int servers() const { return 0; }                     ///< number of processes besides the ranks
  virtual bool goes_on_without_some() const { return false; }   ///< if a rank fails, the others continue
  virtual bool survives_server() const { return false; }        ///< if a server fails, training continues
  virtual std::vector<int> server_nodes() const { return {}; }  ///< nodes of the servers

  // Planning.
  /// Changes a plan that was laid out as if gradients were all-reduced.
  virtual void lay_out(TrainingPlan&, const TrainingStates&) const {}
  virtual StepRhythm rhythm() const { return {}; }
  /// Number of operations of all actors in one step that exchange gradients or parameters.
  virtual double operations(const TrainingPlan&) const;

  // Running.
  /// The places of its actors, ranks first; empty: the actors are those of the machine.
  virtual std::vector<PlacedMachine::PlacedActor> actors(const TrainingPlan&, const ClusterMachine&) const {
    return {};
  }
  virtual std::unique_ptr<MechanismRun> run(const MechanismSite&) const;

  // Answering.
  virtual void add_figures(MechanismFigures&, const TrainingPlan&, int /*steps*/) const {}
  /// Adds the figures that take long to compute. It is called once for an answer.
  virtual void add_slow_figures(MechanismFigures&) const {}
  /// The mechanism in a few words, for example "gossip (ring)". `all_reduce` describes the all-reduce of the plan.
  virtual std::string summary(const std::string& all_reduce) const { return all_reduce; }
  /// Lines of a report and the label before the first of them.
  struct Report {
    std::string label;
    std::vector<std::string> lines;
  };
  /// `time` formats seconds in the unit of the step.
  virtual Report report(const MechanismFigures&, const std::function<std::string(double)>& /*time*/,
                        const std::string& /*unit*/) const {
    return {};
  }
};

/// An entry of the registry of mechanisms.
struct MechanismKind {
  std::string name;         ///< value of plan.data_parallel.mechanism
  std::string description;  ///< for `trainyard list mechanisms`
  std::vector<Key> keys;    ///< its own keys of plan.data_parallel, refused with other mechanisms
  /// True if one of its keys chooses it while `mechanism` is all-reduce or absent. Null: only its name chooses it.
  bool (*chosen)(Fields& data_parallel) = nullptr;
  std::unique_ptr<Mechanism> (*read)(Fields& data_parallel, const ClusterSpec&) = nullptr;
  std::vector<MechanismFigureKind> figures = {};  ///< the figures that it books
  const char* figures_when = "";                  ///< when an answer has them, for example "with gossip"
  /// The group that it books them in.
  FiguresByKey MechanismFigures::*group = &MechanismFigures::replicas;
};

Registry<MechanismKind>& mechanisms();

struct ChosenMechanism {
  std::string name;
  std::unique_ptr<Mechanism> mechanism;
};
/// Reads `mechanism` and the keys of the chosen mechanism, and refuses the keys of all others. Throws UserError.
ChosenMechanism read_mechanism(Fields& data_parallel, const ClusterSpec&);

struct RegisterMechanism {
  explicit RegisterMechanism(MechanismKind kind) {
    const std::string name = kind.name;
    mechanisms().add(name, std::move(kind));
  }
};

}  // namespace trainyard
