#pragma once
#include <string>

#include "scenarios/src/answer/json_fields.hpp"

namespace trainyard {

/// The answer to the section `post_training`: one step of the loop. Times in seconds, sizes in bytes. The parts from
/// `generation` to `loop` are times of their own; `hidden` is the time of the shorter half that the longer one hides.
/// The parts less `hidden` sum to `step_time`.
struct PostTrainingResult {
  double step_time = 0;
  double generation = 0, log_probabilities = 0, training = 0, weights = 0, reload = 0, loop = 0, hidden = 0;
  std::string limit;  ///< "generation", "training" or "both in turn"
  double samples_per_s = 0, tokens_per_s = 0, tokens_per_s_per_gpu = 0;
  int gpus = 0, generation_gpus = 0, training_gpus = 0, engines = 0, optimizer_steps = 0;
  double idle_generation = 0, idle_training = 0;  ///< shares of the step in which the GPUs of a half do not work for it
  /// Parts of the time of the engine that ends last.
  struct EngineParts {
    double prefill = 0, products = 0, cache = 0, exchanges = 0, host = 0;
  } parts;
  std::string engine_limit;                    ///< the largest of these parts, in words
  double mean_answer = 0, longest_answer = 0;  ///< tokens
  double tail = 0;                             ///< time of generation after nine of ten samples have ended
  double token_time = 0;                       ///< mean time of a decode step of that engine
  double sequences = 0;                        ///< mean number of running sequences of that engine
  double preemptions = 0;                      ///< number of sequences that had to give up their cache, on all engines
  /// Memory of one GPU of an engine.
  struct EngineMemory {
    double capacity = 0, weights = 0, cache = 0, cache_peak = 0, reserved = 0;
  } memory;
  double policy = 0;  ///< bytes of the policy in bf16, which go to the engines

  double summed_parts() const { return generation + log_probabilities + training + weights + reload + loop - hidden; }
};

JsonFields<PostTrainingResult> post_training_fields();

/// The step with another number of nodes that generate.
struct PostTrainingSplit {
  int nodes = 0, generation_gpus = 0, training_gpus = 0;
  double step_time = 0, generation = 0, training_half = 0, tokens_per_s_per_gpu = 0;
  std::string error = {};  ///< why there is no such split; empty: there is one
};

JsonFields<PostTrainingSplit> post_training_split_fields();

}  // namespace trainyard
