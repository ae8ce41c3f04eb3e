#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/energy/energy.hpp"
#include "models/energy/prices.hpp"
#include "models/networks/layers/network.hpp"
#include "models/reading/overrides.hpp"
#include "models/software/stack.hpp"
#include "models/software/training_memory.hpp"
#include "scenarios/src/reading/learn_choice.hpp"
#include "scenarios/src/reading/measured_run.hpp"
#include "scenarios/src/reading/plan_choice.hpp"
#include "scenarios/src/reading/read_failures.hpp"
#include "scenarios/src/reading/read_input.hpp"
#include "scenarios/src/reading/read_network.hpp"
#include "scenarios/src/reading/read_post_training.hpp"
#include "scenarios/src/reading/slow_parts.hpp"
#include "scenarios/src/reading/training_length.hpp"
#include "sim/transports/transport.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// A step with a given time, which is not simulated.
struct PrescribedStep {
  Seconds time;
  std::string source;
  bool exists() const { return time.value > 0; }
};

/// The scenario of the user, checked. Nothing of it is laid out (see `Plan`) or simulated.
struct Scenario {
  // Copied and destroyed in many places: compiled once.
  Scenario() = default;
  Scenario(const Scenario&);
  Scenario(Scenario&&) noexcept;
  Scenario& operator=(const Scenario&);
  Scenario& operator=(Scenario&&) noexcept;
  ~Scenario();

  std::string name;
  ClusterSpec cluster;
  ModelChoice model;
  Network network;  ///< the whole model, for one micro-batch
  SoftwareStack software;
  bool software_given = false;  ///< whether the scenario has `software`; false: the default, plain
  Precision precision = Precision::bf16;
  bool fp8 = false;  ///< true: `precision` is bf16, but linear layers of transformers multiply in fp8, or in fewer bits
  /// Returns the precision of the products of linear layers.
  Precision multiplied_in() const { return fp8 ? format_of(software.fp8_scaling) : precision; }
  /// Returns the name of that precision; for a format below 8 bits the name of its scaling, such as nvfp4.
  std::string precision_word() const;
  std::string stated_precision;  ///< name in the plan if it states the scaling too, such as mxfp8; "" otherwise
  /// Returns the name of the precision for a heading: the stated one, or `precision_word`.
  std::string precision_title() const;
  Optimizer optimizer;
  std::int64_t global_batch_size = 1;  ///< samples
  std::int64_t micro_batch_size = 1;
  std::string strategy;  ///< name of a framework's mode; "": none
  PlanChoice plan;
  MeasuredSteps measured;    ///< `plan.measured_step`: step times of one device
  MeasuredRun measured_run;  ///< `measured`
  InputChoice input;
  TrainingLength training;  ///< `plan.training`
  SlowParts slow;           ///< stragglers and links of `faults`
  FailureChoice failures;   ///< failures, checkpoints and restart of `faults`
  PrescribedStep prescribed_step;
  TransportKind transport = kDefaultTransport;
  Site site;
  Prices prices;
  LearnChoice learn;
  std::shared_ptr<const PostTrainingChoice> post_training;  ///< null: none; the rest is then the training half
  /// With plan.mode inference: engines that answer prompts. Null: none; then forward passes are all.
  std::shared_ptr<const PostTrainingChoice> generation;
  std::shared_ptr<const LibraryModel> library;  ///< model of the software's library on the cluster; null: none
  Sources sources;                              ///< sources of all figures that the answer depends on
  Node document;                                ///< the document, with overrides

  int ranks() const { return plan.mesh.ranks(); }
  /// Returns the number of micro-batches of one rank in a step.
  int micro_batches() const { return static_cast<int>(global_batch_size / (micro_batch_size * plan.mesh.data)); }
};

/// Reads the file (or the row of a family of measured runs, FILE@ROW), applies the overrides, resolves names in the
/// catalog and checks everything. Throws UserError ("file:line:column: …", or "--set PATH: …" about an override).
Scenario read_scenario(const std::filesystem::path&, const Overrides& = {});
/// Does the same with a document that was read before. `name`: name of the scenario.
Scenario read_scenario(const Node& document, const std::string& name, const Overrides& = {});
/// Does the same with a text, for tests. `name` stands for the path of the file.
Scenario read_scenario_text(std::string_view text, const std::string& name, const Overrides& = {});

/// Reads the scenario with another section `plan`, fast enough to search through many plans: cluster, model and
/// software are not read again. The result has a network without layers (see `network_of`) and no sources. Throws
/// UserError with the place.
Scenario read_with_plan(const Scenario&, const Node& plan);

/// Reads the scenario with further overrides, and resolves all names again. Throws UserError with the place.
Scenario read_again(const Scenario&, const Overrides&);

/// Returns the sources of the figures that the scenario's answer depends on.
Sources sources_of(const Scenario&);

/// Gives each expert of the model the load that the plan states. Throws UserError if the model has no experts.
void take_expert_loads(Scenario&);

}  // namespace trainyard
