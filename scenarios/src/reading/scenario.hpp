#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/energy/energy.hpp"
#include "models/energy/prices.hpp"
#include "models/networks/layers/network.hpp"
#include "models/software/stack.hpp"
#include "models/software/training_memory.hpp"
#include "scenarios/src/reading/learn_choice.hpp"
#include "scenarios/src/reading/measured_run.hpp"
#include "scenarios/src/reading/measured_step.hpp"
#include "scenarios/src/reading/plan_choice.hpp"
#include "scenarios/src/reading/read_failures.hpp"
#include "scenarios/src/reading/read_input.hpp"
#include "scenarios/src/reading/read_network.hpp"
#include "scenarios/src/reading/slow_parts.hpp"
#include "scenarios/src/reading/training_length.hpp"
#include "sim/transports/transport_kind.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// A step whose time the plan prescribes: it is not simulated.
struct PrescribedStep {
  Seconds time;
  std::string source;
  bool given() const { return time.value > 0; }
};

/// What the user asked, checked; nothing of it is laid out (see `Plan`) or simulated.
struct Scenario {
  std::string name;
  ClusterSpec cluster;
  ModelChoice model;
  Network network;  ///< the whole model, one micro-batch
  SoftwareStack software;
  bool software_given = false;  ///< false: the plain default
  Precision precision = Precision::bf16;
  bool fp8 = false;  ///< `precision` is bf16, but linear layers of transformers multiply in fp8
  /// What the plan says.
  Precision multiplied_in() const { return fp8 ? Precision::fp8 : precision; }
  Optimizer optimizer;
  std::int64_t global_batch_size = 1;  ///< samples
  std::int64_t micro_batch_size = 1;
  std::string strategy;  ///< a framework's name for the plan, where it says one
  PlanChoice plan;
  MeasuredSteps measured;    ///< of one device, where the plan says them
  MeasuredRun measured_run;  ///< where the scenario says it
  InputChoice input;         ///< where the scenario says how samples come
  TrainingLength training;   ///< where the plan says it
  SlowParts slow;            ///< where `faults` says them
  FailureChoice failures;    ///< where the scenario says it
  PrescribedStep prescribed_step;
  TransportKind transport = kDefaultTransport;
  Site site;                                    ///< around the cluster
  Prices prices;                                ///< where the scenario says them
  LearnChoice learn;                            ///< where the scenario says it
  std::shared_ptr<const LibraryModel> library;  ///< of the cluster under the software; null: there is no model of it
  Sources sources;                              ///< of every figure that is used
  Node document;                                ///< as read, with overrides

  int ranks() const { return plan.mesh.ranks(); }
  /// A step and rank.
  int micro_batches() const { return static_cast<int>(global_batch_size / (micro_batch_size * plan.mesh.data)); }
};

/// `--set` overrides, in order.
using Overrides = std::vector<std::pair<std::string, std::string>>;

/// Reads the file (or the row of a family of measured runs, FILE@ROW), applies the overrides, resolves names in the catalog, checks everything. Throws UserError
/// ("file:line:column: …").
Scenario read_scenario(const std::filesystem::path&, const Overrides& = {});
/// The same of a file that was read before, for many points; `name` is what the scenario is called.
Scenario read_scenario(const Node& document, const std::string& name, const Overrides& = {});
/// The same from a text, for tests; `name` stands for the file.
Scenario read_scenario_text(std::string_view text, const std::string& name, const Overrides& = {});

/// The same scenario with another section `plan`, for searches through many: cluster, model and software are those
/// that were read. No layers of its network are made (see `network_of`), and no sources are told. Throws UserError
/// with the place.
Scenario read_with_plan(const Scenario&, const Node& plan);

/// The same scenario with further overrides, all names resolved anew. Throws UserError with the place.
Scenario read_again(const Scenario&, const Overrides&);

/// Splits "path=value". Throws UserError.
std::pair<std::string, std::string> parse_override_option(const std::string&);
Overrides parse_overrides(const std::vector<std::string>& options);

}  // namespace trainyard
