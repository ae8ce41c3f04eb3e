#pragma once
#include <cstdint>
#include <vector>

#include "models/generation/decode_costs.hpp"

namespace trainyard {

/// An answer that an engine has to generate.
struct PlannedAnswer {
  std::size_t prompt = 0;  ///< number of its prompt; answers to one prompt share the keys and values of the prompt
  double tokens = 1;
};

/// The limits of an engine's scheduler.
struct EngineLimits {
  double prompt_tokens = 0;
  int most_sequences = 1;   ///< most sequences that run at once
  int reserved_tokens = 1;  ///< tokens for which each running sequence has room ahead
};

/// The course of one engine.
struct EngineRun {
  Seconds time;               ///< time until the last answer ends
  Seconds prefill;            ///< part of `time` for prompts and preempted sequences
  DecodeTime decode;          ///< parts of the decode steps
  std::vector<Seconds> ends;  ///< end of each answer, in the order given
  double tokens = 0;          ///< generated tokens
  double steps = 0;           ///< decode steps
  std::int64_t preemptions = 0;
  Bytes cache_peak;  ///< most bytes of keys and values on one GPU
};

/// Runs an engine to its end with continuous batching: an answer is admitted, in order, when the cache has room for its
/// prompt and for the next `reserved_tokens` tokens of every running sequence. If the cache is full, the youngest
/// sequence gives up its keys and values and waits; they are computed again when it is admitted the next time. Time
/// advances by up to `reserved_tokens` decode steps, or to the next end, at the mean context of the running sequences.
/// The longest answer must fit alone.
EngineRun run_engine(const GenerationCosts&, const std::vector<PlannedAnswer>&, const EngineLimits&);

}  // namespace trainyard
