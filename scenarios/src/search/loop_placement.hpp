#pragma once
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

/// A question about a post-training loop.
struct LoopQuestion {
  double samples_per_s = 0;                  ///< least samples per second; 0: the fastest loop on the scenario's nodes
  int most_nodes = 0;                        ///< with `samples_per_s`: most nodes; 0: four times those of the scenario
  std::vector<std::string> node_types = {};  ///< names of node types to compare; empty: the scenario's
  double confidence = 0.5;  ///< least probability that a real loop has the samples; 0.5: the prediction must have them
  std::optional<double> headroom = {};  ///< share of a GPU's memory that stays free; no value: `default_headroom`
};

/// A placement of a loop, simulated.
struct LoopRow {
  std::string node;                     ///< name of the type of node
  int nodes = 0, generation_nodes = 0;  ///< `generation_nodes` only generate; 0: all GPUs generate, then train
  bool hybrid = false;                  ///< the GPUs that train generate too, beside those that only generate
  int critic_nodes = 0;                 ///< nodes of a critic, which neither generate nor train the policy
  int gpus = 0, engine_gpus = 0;
  std::string engine;    ///< degrees of an engine in words, such as "tensor 4"
  std::string training;  ///< plan of the training half in words
  std::int64_t prompts = 0, samples_per_prompt = 0;
  std::string schedule;  ///< "synchronous", "one-step-off", "asynchronous"
  double staleness = 0;  ///< bound, in steps
  double step_time = 0, generation = 0, training_half = 0;
  double goodput = 1;        ///< share of the loop's time in steps that count; 1: the scenario has no failures
  double samples_per_s = 0;  ///< mean over the whole loop, with its failures
  std::optional<std::array<double, 2>> likely_samples;  ///< interval of `samples_per_s` with a probability of 80 %
  std::string unmeasured;        ///< properties of this loop that no measured loop has; empty: none
  double hour = 0, million = 0;  ///< rent of an hour, and of a million samples; 0: there are no prices
  bool meets = false;            ///< it has the samples per second of the question
  /// Peak memory and memory of the fullest GPU that trains (bytes), the share of it that a search leaves free, and the
  /// probability that it runs out of memory.
  double peak = 0, capacity = 0, headroom = 0, risk = 0;
  std::string tight;  ///< reason why the training half does not leave the headroom; empty: it does
  std::string error;  ///< reason why there is no such loop; empty: there is one
  Overrides changes;  ///< keys that turn the scenario into this placement
};

/// The degrees of an engine.
struct EngineDegrees {
  int tensor = 1, data = 1, expert = 1;

  int gpus() const { return tensor * data; }
  std::string words() const;  ///< "tensor 4 x data 2, experts over 8"
  auto operator<=>(const EngineDegrees&) const = default;
};
EngineDegrees engine_degrees(const EngineLayout&);
/// Returns engines with so many GPUs, of the kind that the layout is. No value: there are none.
std::optional<EngineDegrees> scaled_engine(const EngineDegrees&, int gpus);

/// The generation of the answers of a step, without its loop.
struct GeneratedStep {
  double seconds = 0;
  double least = 0;  ///< see `least_generation`
  Bytes sent;        ///< see `EngineCosts::sent`
};

/// The generation of loops with one batch, which differ in the nodes that generate and in their engines. Splits whose
/// engines lie on equally many nodes generate alike, so that only the first of them is simulated.
class GeneratedSteps {
 public:
  /// Throws UserError for engines that the model does not fit on.
  GeneratedStep find(const Scenario&);

 private:
  std::mutex mutex_;
  std::map<std::pair<int, EngineDegrees>, GeneratedStep> steps_;  // indexed by the number of nodes that generate
};

/// A placement of a loop that has not been simulated.
struct LoopPlacement {
  std::string node = {};  ///< name of the type of node; empty: the scenario's
  int nodes = 0, generation_nodes = 0;
  EngineDegrees engine = {};
  std::string schedule = {};
  std::optional<double> staleness = {};              ///< with asynchronous engines; no value: the scenario's
  std::int64_t prompts = 0, samples_per_prompt = 0;  ///< 0: the scenario's
  std::optional<Node> plan = {};                     ///< section `plan`; no value: the scenario's
  bool hybrid = false;  ///< the GPUs that train generate too, beside those that only generate
};

/// Network that joins several nodes of a placement, if neither scenario nor type of node states one.
inline constexpr const char* kDefaultFabric = "nonblocking";

/// Returns the schedules that are no staler than the scenario's, for engines on nodes of their own.
std::vector<std::string> split_schedules(const PostTrainingChoice&);
/// Returns the numbers of nodes that generate, of `nodes`: an eighth of them to seven, without 0.
std::vector<int> split_nodes(const PostTrainingChoice&, int nodes);
/// Returns the layouts of engines that are tried on the nodes that generate: those of up to a node's GPUs, or twice the
/// scenario's, which divide the nodes. Experts are split as other layers, or spread over all GPUs of an engine.
/// `generation_nodes`: those that only generate; `hybrid`: the others generate too.
std::vector<EngineDegrees> engines_on(const Scenario&, int generation_nodes, bool hybrid = false);
/// Returns the placement of the scenario's own loop.
LoopPlacement own_placement(const Scenario&);
/// Returns true if the scenario's loop has one of these values in a field that a search varies ("plan.tensor_parallel",
/// "post_training.prompts"). False: it has another one, or `plan` does not state the field.
bool has_value(const Scenario&, const std::string& path, const std::vector<std::string>& values);
/// Returns the changes that turn the scenario into this placement.
Overrides changes_of(const Scenario&, const LoopPlacement&);
/// Simulates the loop as `run` does. A loop that does not exist or does not fit has `LoopRow::error`.
LoopRow simulated_row(const Scenario&, const LoopPlacement&, const LoopQuestion&);
JsonFields<LoopRow> loop_row_fields();

/// A schedule of a loop, with its bound of staleness. Synchronous loops have three names, by where they generate.
struct LoopSchedule {
  std::string name;  ///< "colocated", "hybrid", "synchronous" (split), "one-step-off", "asynchronous"
  double staleness = 0;
  auto operator<=>(const LoopSchedule&) const = default;
};

/// Returns the schedules with these bounds of staleness: 0 is a synchronous loop, and 1 also one with training one step
/// off. A colocated loop is always among them, since it is synchronous and needs no split.
std::vector<LoopSchedule> schedules_with(const std::vector<double>& staleness, bool asynchronous);
/// Returns the schedules that are no staler than the scenario's.
std::vector<LoopSchedule> own_schedules(const PostTrainingChoice&);

}  // namespace trainyard
