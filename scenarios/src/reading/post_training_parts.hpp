#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/generation/answer_lengths.hpp"
#include "models/generation/decode_costs.hpp"
#include "models/generation/engine.hpp"
#include "models/generation/rl_stack.hpp"
#include "models/networks/network_entry.hpp"
#include "models/reading/catalog.hpp"
#include "scenarios/src/reading/training_length.hpp"
#include "sim/units.hpp"

namespace trainyard {

inline constexpr std::int64_t kMostLoopSamples = 1 << 20, kMostLoopTokens = 1 << 24;

/// Engines and training that run at the same time, with a limit on how far engines are ahead.
struct AsynchronyChoice {
  double staleness = 1;  ///< steps
  bool by_start = false, partial_rollouts = true;
  std::int64_t parts = 1;  ///< equal parts of a step's prompts, of which training takes each as soon as it has ended
};

/// The rounds in which a step samples, as by DAPO's dynamic sampling: prompts whose answers all have one reward are
/// thrown away, and rounds of further prompts are answered until a step has its prompts.
struct SamplingChoice {
  double useful_share = 1;         ///< probability that the answers to a prompt differ in reward
  std::int64_t round_prompts = 0;  ///< prompts of a round; 0: there is one round, and nothing is thrown away
  int most_rounds = 0;
  int rounds = 1;                  ///< rounds that a step takes
  std::vector<bool> useful;        ///< whether the answers to each started prompt differ in reward
  bool masks_cut_answers = false;  ///< answers that were cut are trained without a loss
  bool is_given() const { return round_prompts > 0; }
};

/// Calls of tools, or of an environment, while an answer is generated.
struct ToolChoice {
  int calls = 0;         ///< calls of an answer; 0: none
  double variation = 0;  ///< standard deviation of the waiting times over their mean
  double tokens = 0;     ///< tokens of the result of a call
  int sandboxes = 0;     ///< most calls at once, on all engines; 0: no limit
  int cores = 0;         ///< cores of the CPUs that a sandbox takes; 0: calls run outside of the nodes
  Seconds wait;          ///< mean time of a call
  Place place;

  /// Draws the waiting times of the calls of each answer. Empty if there are no calls, or if these take no time and
  /// have no result.
  std::vector<std::vector<Seconds>> draw(std::size_t answers, std::uint64_t seed) const;
};

/// Speculative decoding of the engines.
struct SpeculationChoice {
  int tokens = 0;  ///< tokens that are drafted before the model verifies them; 0: no speculation
  double acceptance = 0;
  std::optional<NetworkEntry> draft;  ///< no value: a further layer of the model drafts
  Place place;
};

/// A model of the loop beside the policy.
struct LoopModel {
  Node model;     ///< as `model` of a scenario; null: the policy's
  int nodes = 0;  ///< nodes that only this model has; 0: it takes turns with the policy
  Place place;
};

/// The algorithm of a loop. One without rollouts trains on answers that are there before it.
struct LoopAlgorithm {
  std::string name = "grpo";
  bool has_rollouts = true;
  int passes = 2;            ///< passes for log-probabilities that it has by default
  int pair = 1;              ///< answers that an optimizer step keeps together
  bool precomputed = false;  ///< the outputs of `frozen` are computed before the training
  /// Without rollouts: model whose outputs the loss compares with the policy's, such as DPO's reference. No value:
  /// none.
  std::optional<LoopModel> frozen;
};

/// Reads `answer_tokens: {mean, variation, most}` or `{values, most}`, and `seed`. `path`: that of the section.
AnswerLengths read_answer_lengths(Fields& section, const std::string& path);
/// Reads `algorithm`, `reference` and `teacher`, and refuses keys that the algorithm does not have.
LoopAlgorithm read_algorithm(Fields& section);
/// Reads `staleness`, `order`, `partial_rollouts` and `training_parts`. Throws UserError if one is there without
/// asynchrony, and for parts that do not divide the prompts of a step.
std::optional<AsynchronyChoice> read_asynchrony(Fields& section, bool asynchronous, std::int64_t prompts);
/// Reads `length`: `{steps: 1000}` or `{time: 5 d}`. Throws UserError with the place.
TrainingLength read_loop_length(Fields& section);
/// Reads `weights`, or returns those of the stack: `apart` to engines on nodes that only generate, and `shared` to those
/// on GPUs that train. One that is for both stands once.
std::vector<WeightTransfer> read_transfers(Fields& section, const Catalog&, const RlStack&, bool apart, bool shared);
ToolChoice read_tools(Fields& section);  ///< reads `tools`; throws UserError with the place
/// Reads `dynamic_sampling` and `overlong_filtering`, and draws which prompts are thrown away. `prompts`: those that a
/// step trains on. Throws UserError with the place.
SamplingChoice read_sampling(Fields& section, std::int64_t prompts, std::uint64_t seed);
/// Reads the numbers of GPUs of an engine that split layers and experts. Throws UserError with the nearest value.
void read_engine_degrees(EngineLayout&, Fields& section);
/// Reads how an engine schedules prompts and launches kernels, where the scenario differs from the engine's defaults.
void read_scheduler(Engine&, Fields& section);
/// Reads `speculation` of the engines at `path`.
SpeculationChoice read_speculation(Fields& section, const Catalog&, const std::string& path);
/// Reads `critic`, `reward` or `teacher`. No value: the loop has no such model.
std::optional<LoopModel> read_loop_model(Fields& section, Key, bool may_have_nodes = false);

}  // namespace trainyard
