#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "models/networks/mlp/mlp.hpp"
#include "models/software/stack.hpp"
#include "scenarios/planning/tuner.hpp"
#include "scenarios/reading/measured_step.hpp"
#include "scenarios/reading/parallel.hpp"
#include "scenarios/reading/read_failures.hpp"
#include "scenarios/reading/read_input.hpp"
#include "scenarios/reading/slow_parts.hpp"
#include "scenarios/reading/training_length.hpp"
#include "strategies/step/data_parallel.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// What such a step took on a real machine.
struct MeasuredRun {
  std::string family, source;  ///< family: runs of one source that are alike
  Seconds step_time;
  Bytes peak_memory;  ///< of the fullest rank; 0: not measured
  bool given() const { return step_time.value > 0; }
};

/// What the user asked, checked: one training step of a model on a cluster.
struct Scenario {
  std::string name;
  ClusterSpec cluster;
  Network network;  ///< of one micro-batch
  SoftwareStack software;
  bool software_given = false;  ///< false: the plain default
  Precision precision = Precision::bf16;
  Optimizer optimizer;
  std::int64_t global_batch_size = 1;  ///< samples
  std::int64_t micro_batch_size = 1;
  DataParallelPlan plan;        ///< what is said of all ranks, and of replicas
  std::string strategy;         ///< a framework's name for all of this, where the plan says one
  ParallelChoice parallel;      ///< how the model is split
  Network share;                ///< where it is split: one rank's part of every layer, of one micro-batch
  bool tied = false;            ///< the first and the last pipeline stage share a weight
  TrainingPlan mesh_plan;       ///< where it is split; made whole by `prepared_plan`
  std::optional<Tuning> tuned;  ///< of the all-reduce, where the plan says `auto`
  MeasuredSteps measured;       ///< of one device, where the plan says them
  double compute_scale = 1;     ///< on modelled kernels and host work, so that a step alone takes what was measured
  MeasuredRun measured_run;     ///< where the scenario says it
  int warm_steps = 0;           ///< before the steps that are looked at: until all buffers are as full as they stay
  InputChoice input;            ///< where the scenario says how samples come
  TrainingLength training;      ///< where the plan says it
  SlowParts slow;               ///< where `faults` says them
  FailureChoice failures;       ///< where the scenario says it
  struct {
    Seconds time;  ///< of a step, where the plan says it: it is not simulated then; 0: it is
    std::string source;
  } said_step;
  Sources sources;  ///< of every figure that is used
  Node document;    ///< as read, with overrides

  int ranks() const { return plan.ranks; }
};

/// What carries out its all-reduce: the algorithm, or the library that is modelled.
std::string all_reduce_name(const Scenario&);

/// `--set` overrides, in order.
using Overrides = std::vector<std::pair<std::string, std::string>>;

/// Reads the file, applies the overrides, resolves names in the catalog, checks everything. Throws UserError
/// ("file:line:column: …").
Scenario read_scenario(const std::filesystem::path&, const Overrides& = {});
/// The same from a text, for tests; `name` stands for the file.
Scenario read_scenario_text(std::string_view text, const std::string& name, const Overrides& = {});

/// The same scenario with further overrides, all names resolved anew. Throws UserError with the place.
Scenario read_again(const Scenario&, const Overrides&);

/// Splits "path=value". Throws UserError.
std::pair<std::string, std::string> parse_override_option(const std::string&);

}  // namespace trainyard
