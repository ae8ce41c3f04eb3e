#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/generation/answer_lengths.hpp"
#include "models/generation/decode_costs.hpp"
#include "models/generation/rl_stack.hpp"
#include "models/hardware/node_parts.hpp"
#include "scenarios/src/reading/post_training_parts.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

struct FailureChoice;
struct Scenario;

/// A training step's samples in packs: equal sequences stand for samples of different lengths.
struct SamplePacks {
  std::int64_t sequences = 1;  ///< sequences in a pack
  std::int64_t tokens = 1;     ///< tokens of each
  double sample_tokens = 1;    ///< mean tokens of a sample, prompt and answer
  /// Most tokens of a micro-batch, if it takes samples of its rank instead of packs. 0: it takes packs.
  double most_tokens = 0;

  /// Returns the number of sequences with as many tokens as `samples` samples: a multiple of `unit`, rounded up.
  std::int64_t count(std::int64_t samples, std::int64_t unit) const;
  /// Returns the packs of a rank if this many ranks share the samples, rounded up.
  std::int64_t of_rank(std::int64_t samples, int ranks) const {
    return count(samples, sequences * ranks) / (sequences * ranks);
  }

  /// Sequences of a micro-batch, and of all ranks together.
  struct Batches {
    std::int64_t micro = 1, global = 1;
  };
  /// Divides samples over ranks, into the fewest equal micro-batches with at most `most` tokens each.
  Batches divided(std::int64_t samples, int ranks, double most) const;
};

/// The section `post_training`: a loop that generates answers and trains on them. The other sections describe the
/// training half.
struct PostTrainingChoice {
  /// The paths of the section and of its engines, as errors name them.
  std::string section_key = "post_training", engine_key = "post_training.generation";
  LoopAlgorithm algorithm;
  RlStack stack;
  /// Transfers of new weights: to engines on nodes that only generate, and to those on GPUs that train. One, if there
  /// is one of these kinds, or a library sends weights to both.
  std::vector<WeightTransfer> transfers;
  Engine engine;
  EngineLayout layout;
  std::int64_t prompts = 1, samples_per_prompt = 1;
  std::int64_t started_prompts = 1;  ///< prompts that are answered until `prompts` of them have all answers
  double prompt_tokens = 0;
  AnswerLengths lengths;
  std::vector<double> answers;              ///< drawn length of each started sample; samples of a prompt are neighbours
  std::vector<std::vector<Seconds>> calls;  ///< times of the calls of each started sample; empty: there are none
  SamplingChoice sampling;
  ToolChoice tools;
  SpeculationChoice speculation;
  std::optional<LoopModel> critic, reward;
  std::optional<Storage> weight_store;  ///< store through which new weights go to the engines
  Place weight_store_place;
  bool one_step_off = false;                   ///< training works on the samples of the step before
  std::optional<AsynchronyChoice> asynchrony;  ///< no value: the schedule is another one
  int nodes = 0, machine_nodes = 0;            ///< nodes that only generate, and nodes of the whole machine
  bool is_hybrid = false;                      ///< with `nodes`: the GPUs that train generate too, before they train
  int absent_engines = 0;                      ///< engines that have failed
  std::int64_t concurrency = 0;                ///< prompts at a time, on all engines; 0: all come at once
  Place concurrency_place;
  TrainingLength length;  ///< steps or time of the whole loop, for its failures
  int log_probability_passes = 0;
  std::int64_t log_probability_micro_batch = 1;
  std::int64_t training_samples = 1;  ///< samples of one optimizer step
  double padded_tokens = 0;           ///< tokens of a padded sample: plan.seq_length
  std::optional<SamplePacks> packs;   ///< no value: each sample is padded to plan.seq_length
  ClusterSpec generators;             ///< the nodes that generate, as the catalog has them
  Node training_document;             ///< the scenario of the training half alone
  bool states_copies = false;         ///< the scenario states generation.data_parallel
  std::int64_t experts = 0;           ///< experts of the policy; 0: it has none
  Place place, nodes_place, tensor_place, data_place, expert_place, precision_place, cache_place;

  std::int64_t samples() const { return prompts * samples_per_prompt; }
  std::int64_t started_samples() const { return started_prompts * samples_per_prompt; }
  int critic_nodes() const { return critic ? critic->nodes : 0; }
  bool has_own_nodes() const { return nodes > 0; }               ///< some nodes only generate
  bool shares_gpus() const { return nodes == 0 || is_hybrid; }   ///< the GPUs that train generate before
  int own_gpus() const { return nodes * generators.node.gpus; }  ///< GPUs that only generate
  int engines() const { return generators.gpus() / layout.gpus() - absent_engines; }
  /// Returns true if engines of this number of GPUs fill the nodes that only generate, and those that train too.
  bool holds_engines(int engine_gpus) const;
  /// Returns the tokens of the prompt and of results of calls of a started sample.
  double read_tokens(std::size_t sample) const;
  /// Returns the tokens of a prompt and of the results of all calls of tools.
  double most_tokens_read() const;
  /// Names the longest prompts that leave room for the longest answer, or else for an answer of one token. `most`: tokens
  /// of both.
  std::string nearest_prompt(double most) const;
  bool has_dynamic_batches() const { return packs && packs->most_tokens > 0; }
  Sources sources() const;
};

/// Reads the section `post_training` of a scenario, or returns null if there is none. Changes the document to that of
/// the training half: `cluster.nodes` loses the nodes that generate, and packs set `plan.seq_length` and
/// `plan.micro_batch_size`. `read_before`: the choice of a scenario that differs only in its plan, which saves the time to
/// read the section again; null: there is none. Throws UserError with the place.
std::shared_ptr<PostTrainingChoice> take_post_training(Node& document, const Catalog&,
                                                       const PostTrainingChoice* read_before = nullptr);

/// Reads the section `generation`: engines that answer prompts without a loop. Null: there is none. Throws UserError
/// with the place.
std::shared_ptr<PostTrainingChoice> take_generation(const Node& document, const Catalog&);

/// Returns true if engines of this number of GPUs fill nodes: a node has several engines, or an engine has nodes.
bool divides_nodes(int engine_gpus, const NodeType&, int nodes);

/// Adds the machine of the engines, and checks that they fit on it. `training`: cluster of the training half, before
/// the software changes its rates. Throws UserError with the place.
void place_engines(PostTrainingChoice&, const ClusterSpec& training);

/// Adds the samples of an optimizer step. Throws UserError, with the nearest value, unless their number divides the
/// number of samples of a step of the loop.
void take_training_samples(PostTrainingChoice&, std::int64_t samples, const Place&);

/// Throws UserError, with the nearest lengths, if the longest answer with its prompt does not fit into the positions of
/// the policy or of a model beside it, and if such a model is no decoder.
void require_positions(const PostTrainingChoice&, const NetworkEntry& policy, const Catalog&);

/// Throws UserError for keys that a post-training loop does not have.
void require_loop(Fields& root, Fields& plan);

/// Returns the machine of the loop: the nodes that train, those of a critic, and after them those that generate.
ClusterSpec loop_machine(const Scenario&);

/// Reads the failures, checkpoints and restarts of a loop. Components are counted on the whole machine. Throws UserError
/// for what is not modelled with a loop.
FailureChoice read_loop_failures(Fields& faults, const Scenario&, const Catalog&);

}  // namespace trainyard
