#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/answer/json_fields.hpp"
#include "sim/units.hpp"

namespace trainyard {

/// Times of answers as those who wait for them see them.
struct AnswerTimes {
  Seconds first_token;  ///< mean time from the arrival of a prompt to the first token of its answer
  Seconds median_first_token;
  Seconds late_first_token;  ///< 99 of 100 first tokens come within this time
  Seconds token;             ///< mean time between the tokens of an answer after the first
};

/// The half that limits the step of a loop.
enum class LoopLimit : std::uint8_t {
  training,
  generation,
  both_in_turn  ///< they follow each other
};

/// Returns the name of the limit, as the JSON has it: "training", "generation" or "both in turn".
const char* name_of(LoopLimit);

/// The answer to the section `post_training`: one step of the loop. The times from `generation` to `loop` are parts of
/// it, and so are `fetch` and the waits for the critic. `hidden` is the time of the shorter half that the longer one hides.
/// The sum of the parts less `hidden` is `step_time`.
struct PostTrainingResult {
  Seconds step_time;
  Seconds generation, log_probabilities, training, weights, reload, loop, hidden;
  Seconds fetch;  ///< time in which training receives the answers of an asynchronous step
  /// Times in which the GPUs that train the policy wait for values and updates of a critic on nodes of its own.
  Seconds values_wait, updates_wait;
  Seconds weights_network;  ///< least time of the transfer of weights on the links, which `weights` does not fall below
  Seconds reload_copies;    ///< part of `reload` in which states move between the GPUs and their host
  Bytes moved_states;       ///< parameters and optimizer states of a GPU that leave it for the generation
  Seconds waiting;          ///< time of a step in which training waits for answers, receives them, or waits for engines
  Seconds controller;       ///< part of `log_probabilities` and `training` in which samples go through the controller
  std::string algorithm;
  Seconds critic;         ///< time of the model of values; on its own GPUs it goes on beside the policy's
  Seconds critic_values;  ///< part of it before the training: values of all samples; not in the answer
  Seconds hidden_critic;  ///< part of it that the policy's time hides
  Seconds reference;      ///< without rollouts: forward pass of the reference or teacher over the samples of a step
  Seconds reward;         ///< part of `log_probabilities` for the model of rewards
  LoopLimit limit = LoopLimit::training;
  std::string bottleneck;  ///< resource class whose what-if saves most of the step; empty: there are no what-ifs
  double samples_per_s = 0, tokens_per_s = 0, tokens_per_s_per_gpu = 0;
  int gpus = 0, generation_gpus = 0, training_gpus = 0, critic_gpus = 0, engines = 0, optimizer_steps = 0;
  int colocated_gpus = 0;  ///< GPUs that generate and train in turn: `training_gpus`, or 0
  double idle_generation = 0, idle_training = 0,
         idle_critic = 0;  ///< shares of the step in which the GPUs of a half do not work for it
  /// Mean time over the step that an engine has spent on its unfinished answers, which its failure loses; not in the
  /// answer.
  Seconds in_flight;
  double token_seconds = 0, engine_tokens = 0;  ///< sums over all engines; not in the answer
  int policy_ranks = 1;                         ///< GPUs that train one copy of the policy; not in the answer
  Seconds busy_engine;                          ///< mean time in which an engine computes; not in the answer
  double mean_read = 0;                         ///< mean tokens of prompts and results of calls; not in the answer
  double idle_engines = 0;                      ///< mean share of the step in which an engine computes nothing
  /// Parts of the time of the engine that ends last. In an asynchronous loop: means over all engines in a step.
  struct EngineParts {
    Seconds prefill, products, cache, exchanges, host, calls;
  } parts;
  std::string engine_limit;                    ///< the largest of these parts, in words
  double mean_answer = 0, longest_answer = 0;  ///< tokens
  Seconds tail;                                ///< time of generation after nine of ten samples have ended
  Seconds token_time;                          ///< mean time of a decode step of that engine
  AnswerTimes answers;
  double sequences = 0;                      ///< mean number of running sequences of that engine
  double preemptions = 0;                    ///< number of sequences that had to give up their cache, on all engines
  bool waits_for_cache = false;              ///< an answer waited for room in the cache
  double rounds = 1;                         ///< rounds of prompts that a step takes
  double masked_answers = 0;                 ///< trained answers that were cut and have no loss
  Seconds store_write, store_read;           ///< parts of `weights`: writing them to the store, and reading them
  double colocated_answers = 0;              ///< started answers that are on `colocated_gpus`
  double lost_answers = 0, lost_tokens = 0;  ///< answers that are cut off, and the tokens generated for them
  /// Steps between the policy that begins an answer and the one that is trained on it. One step off: 1.
  double mean_staleness = 0, most_staleness = 0;
  std::map<std::uint32_t, std::uint64_t> staleness;  ///< number of answers of the simulated steps, by these steps
  double mixed_answers = 0;                          ///< share of the answers that policies of several steps generate
  /// Share by which engines and sandboxes do more or less work in the simulated steps than their answers need. 0: the loop
  /// has settled.
  double unsettled = 0;
  Seconds recomputed;         ///< part of `parts.prefill` that computes keys and values of interrupted answers again
  double busy_sandboxes = 0;  ///< share of the generation in which a sandbox is busy; 0: their number is no limit
  double tokens_of_pass = 1;  ///< mean tokens of a pass of the model for a sequence; above 1 with speculation
  /// Memory of a GPU that trains policy and critic: states of the critic, and the peak of both.
  Bytes critic_states, critic_peak;
  Bytes freed_states;                       ///< states of the critic that its own GPUs take off the policy's
  Bytes reference_weights, reference_peak;  ///< weights of the reference or teacher, and the peak of training with them
  /// Memory of a GPU that trains in a phase of the step besides the training of the policy alone.
  struct PhaseMemory {
    std::string phase;     ///< such as "log-probabilities" or "reward"
    Bytes needed, usable;  ///< with CUDA's context and buffers of NCCL, as `Result::Memory` counts them
    bool fits() const { return needed <= usable; }
  };
  std::vector<PhaseMemory> phases;  ///< in the order of the step
  bool phases_fit() const {
    return std::ranges::all_of(phases, [](const PhaseMemory& p) { return p.fits(); });
  }
  /// The parts of a step, as the GPUs of a pool spend it. An asynchronous loop has means over its steps.
  struct Pool {
    /// "generation", "training", "critic"; "all" or, beside "generation", "both": they generate and train in turn.
    std::string name;
    int gpus = 0;
    struct Part {
      std::string name;    ///< such as "generation", "log-probabilities", or "waiting"
      Seconds begin, end;  ///< since the begin of the step
    };
    std::vector<Part> parts;  ///< in their order; together the whole step
  };
  std::vector<Pool> pools;
  /// Memory of one GPU of an engine.
  struct EngineMemory {
    Bytes capacity, weights, cache, cache_peak, reserved;
  } memory;
  Bytes policy;  ///< size of the policy in bf16
  Bytes sent;    ///< bytes of it that go to the engines
  /// Intervals that hold the step time (s) and the samples per second of a real loop with a probability of 80 %, if the
  /// loop is like the measured ones. No value: none was computed.
  std::optional<std::array<double, 2>> likely_step_times, likely_samples;
  std::string unmeasured;  ///< properties that no measured loop has, in words; empty: none

  /// Returns the name of the part of a step that trains. An algorithm without rollouts has no generating half.
  const char* training_part() const { return generation_gpus > 0 ? "training half" : "training step"; }
  /// Returns words for one of its optimizer steps.
  const char* optimizer_step_words() const {
    return generation_gpus > 0 ? "an optimizer step of its training half" : "one of its optimizer steps";
  }
  Seconds critic_wait() const { return values_wait + updates_wait; }
  /// Returns the time of the half that trains.
  Seconds training_half() const { return log_probabilities + training + loop + critic_wait(); }
  Seconds summed_parts() const { return generation + fetch + training_half() + weights + reload - hidden; }
};

JsonFields<PostTrainingResult> post_training_fields();

/// The answer to the section `generation`: engines that answer prompts, without a loop.
struct GenerationResult {
  PostTrainingResult engines;  ///< only its fields of the generation are filled
  double requests_per_s = 0, tokens_per_s = 0, tokens_per_s_per_gpu = 0;
  /// Intervals that hold a figure of real engines with a probability of 80 %, if they are like the measured ones: the
  /// tokens per second, the time until the last answer ends (s), and the times between tokens and to the first one (s).
  std::optional<std::array<double, 2>> likely_tokens, likely_time, likely_token, likely_first_token;
  std::string unmeasured;  ///< properties that no measured engine has, in words; empty: none
};

JsonFields<GenerationResult> generation_fields();

/// The step with another number of nodes that generate.
struct PostTrainingSplit {
  int nodes = 0, generation_gpus = 0, training_gpus = 0;  ///< `nodes`: those that only generate
  Seconds step_time = {}, generation = {}, training_half = {};
  double tokens_per_s_per_gpu = 0;
  std::string error = {};  ///< why there is no such split; empty: there is one
};

JsonFields<PostTrainingSplit> post_training_split_fields();

}  // namespace trainyard
