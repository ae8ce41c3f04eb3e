#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <vector>

#include "models/generation/decode_costs.hpp"
#include "scenarios/src/answer/post_training_result.hpp"

namespace trainyard {

/// An answer that an engine has to generate.
struct PlannedAnswer {
  std::size_t prompt = 0;  ///< number of its prompt; answers to one prompt share the keys and values of the prompt
  double tokens = 1;
  /// Time of each call of a tool. Calls divide the answer into equal parts. An answer of n tokens makes at most n − 1
  /// calls; further ones are left out.
  std::vector<Seconds> calls = {};
};

/// The limits of an engine's scheduler.
struct EngineLimits {
  double prompt_tokens = 0;
  int most_sequences = 1;   ///< most sequences that run at once
  int reserved_tokens = 1;  ///< tokens for which each running sequence has room ahead
  double call_tokens = 0;   ///< tokens that the result of a call adds to its sequence
  int sandboxes = 0;        ///< most calls at once; 0: no limit
  /// Tokens of a step that decoding and chunks of prompts share. 0: prompts have passes of their own.
  double chunk = 0;
  double pass_tokens = 0;  ///< most tokens of one of those passes; 0: no limit
  Seconds request = {};    ///< time of a request outside of the engine: see `Engine::host_request`
  /// Tokens of prompt, results and answer for which the cache must have room before an answer is admitted. 0: room for
  /// its next `reserved_tokens` tokens is enough.
  double whole_answer = 0;
};

/// Returns the most calls that an answer makes.
inline std::size_t most_calls(const PlannedAnswer& answer) {
  return static_cast<std::size_t>(std::max(1.0, answer.tokens) - 1);
}

/// Returns the limits of one of the engines that share the sandboxes. If these do not divide, the first engines have one
/// more. `all`: limits of each engine, with the sandboxes of all.
inline EngineLimits limits_of_engine(EngineLimits all, std::size_t engine, std::size_t engines) {
  const auto sandboxes = static_cast<std::size_t>(all.sandboxes);
  all.sandboxes = static_cast<int>(sandboxes / engines + (engine < sandboxes % engines ? 1 : 0));
  return all;
}

/// The course of one engine.
struct EngineRun {
  Seconds time;                 ///< time until the last answer ends
  Seconds prefill;              ///< part of `time` for prompts, results of calls and preempted sequences
  Seconds call_wait;            ///< part of `time` in which all sequences that could run wait for calls
  DecodeTime decode;            ///< parts of the decode steps
  std::vector<Seconds> starts;  ///< first admission of each answer, in the order given
  std::vector<Seconds> ends;    ///< end of each answer, in the order given
  /// Time at which each answer was added, and at which its first token came; in the order given.
  std::vector<Seconds> arrivals, first_tokens;
  std::vector<double> answer_tokens;  ///< in the order given
  Seconds request;                    ///< time that each answer takes outside of the engine
  double tokens = 0;                  ///< generated tokens
  double prefill_tokens = 0;          ///< those of them that passes over prompts gave
  double steps = 0;                   ///< decode steps
  double token_seconds = 0;           ///< tokens of unfinished answers, summed over the time of decode steps, s
  std::int64_t preemptions = 0;
  std::int64_t refusals = 0;  ///< times that the cache had no room for the next answer, while others ran
  Bytes cache_peak;           ///< most bytes of keys, values and states on one GPU
  Seconds recomputed;         ///< part of `prefill`, by its tokens, for sequences that had keys and values before
  Seconds call_time;          ///< sum of the times of the calls that have ended

  /// Adds the sums of another run, without its answers and the peak of its cache.
  void add(const EngineRun&);
  /// Returns the sums since an earlier run, divided by `count`; preemptions and refusals are not divided.
  EngineRun mean_since(const EngineRun& before, double count) const;
  Seconds busy() const { return prefill + decode.sum(); }
};

/// One engine with continuous batching: an answer is admitted, in order, when the cache has room for its prompt and for
/// the next `reserved_tokens` tokens of every running sequence. If the cache is full, the youngest sequence gives up
/// its keys and values and waits; they are computed again when it is admitted the next time. Time advances in parts of
/// up to `reserved_tokens` decode steps, at the mean context of the running sequences; a part ends with the next answer
/// or call. A sequence that waits for a call keeps its keys and values as long as the running ones have room. The
/// longest answer must fit alone.
///
/// The pass that computes the last of a sequence's keys and values also gives its next token (and those of sequences that
/// wait for the same prompt). If that is its last one, the answer ends with the pass.
///
/// Prompts (and results of calls, and sequences that gave up their keys and values) are computed in passes of their own,
/// for which decoding waits. With `EngineLimits::chunk`, steps have chunks of them beside one token of each running
/// sequence, in the order of admission; a sequence runs when its tokens, and those of all admitted before it, are
/// computed.
class EngineClock {
 public:
  EngineClock(const GenerationCosts& costs, const EngineLimits& limits);

  /// Adds an answer that waits for its admission. Returns its number on this engine.
  std::size_t add(const PlannedAnswer&);
  bool has_work() const { return !waiting_.empty() || is_generating(); }
  bool is_generating() const { return admitted() > 0; }
  std::size_t unfinished() const { return waiting_.size() + admitted(); }
  const EngineRun& run() const { return run_; }
  /// Returns the time at which the part begins that was planned last, before its prompts are computed.
  Seconds part_begin() const { return part_begin_; }

  /// Returns the end of the next part. Needs work, and open admission if nothing is generated.
  Seconds next_end();
  /// Runs the next part, and returns the numbers of the answers that end with it.
  std::vector<std::size_t> advance();
  /// Runs the next part up to the end of the decode step that is in progress at `time`. Returns the same as `advance`.
  std::vector<std::size_t> advance_to(Seconds time);
  /// Moves the clock forward to `time`, between parts.
  void wait_until(Seconds time) { run_.time = std::max(run_.time, time); }
  /// Opens or closes admission. A closed engine only ends the sequences that it generates.
  void set_open(bool open) { open_ = open; }
  /// Forgets the peak of the cache until now.
  void restart_cache_peak() { run_.cache_peak = {}; }
  /// Gives up all keys and values, as new weights require: sequences that were running are admitted again first.
  void give_up_cache();

 private:
  struct Sequence {
    std::size_t index = 0;
    double generated = 0, remaining = 0, added = 0;  // `added`: tokens of results of calls
    std::size_t calls = 0;                           // calls until now
    Seconds back;                                    // end of the call that it waits for
    bool has_cache = true;                           // while it waits for a call
    double pending = 0;                              // tokens to compute before it runs
    bool is_recomputed = false;                      // its pending tokens were computed before
    bool starts = false;                             // it was admitted, and the pass of its prompt was not spent yet
  };
  /// The next part: `steps` decode steps from `begin`, or a wait for calls until `end`. With tokens of prompts, it is
  /// one step, whose decoding is empty if no sequence runs.
  struct Part {
    Seconds begin, end;
    double steps = 0;
    DecodeTime step;
    double prompt_tokens = 0;
    Seconds prefill;            // time that the tokens of prompts add to the step
    double counted_steps = -1;  // steps after which `cache` counts the bytes of all sequences; -1: nothing was counted
    Bytes cache;
    bool exists = false;
  };

  const GenerationCosts& costs_;
  EngineLimits limits_;
  Bytes prompt_cache_, states_;  // keys and values of a prompt, and states of a sequence
  bool has_calls_ = false;
  double in_flight_ = 0;         // tokens of unfinished answers
  double recomputed_share_ = 0;  // share of the tokens of the planned chunk that were computed before
  std::vector<PlannedAnswer> answers_;
  std::deque<Sequence> waiting_;
  std::vector<Sequence> running_;       // oldest first
  std::deque<Sequence> prefilling_;     // admitted sequences that wait for their chunks, oldest first
  std::vector<Sequence> away_;          // sequences that wait for calls, oldest first
  std::map<std::size_t, int> prompts_;  // sequences with keys and values, by prompt
  std::vector<Seconds> free_sandboxes_;
  EngineRun run_;
  Part part_;
  Seconds part_begin_;
  bool open_ = true;

  std::size_t admitted() const { return running_.size() + prefilling_.size() + away_.size(); }
  double context(const Sequence& s) const { return limits_.prompt_tokens + s.generated + s.added; }
  double to_next_call(const Sequence&) const;
  void add_prompt(PromptTokens&, const Sequence&, double tokens) const;
  static PromptTokens means_of(const PromptTokens& sums, double count);
  Bytes own_cache(const Sequence&, double ahead) const;
  Bytes admission_cache(const Sequence&) const;
  Bytes cache_of_admitted() const;
  Bytes cache_after(double ahead) const;
  void leave(std::size_t prompt);
  void take_token(Sequence&, Seconds time);
  void spend_prefill();
  void start(Sequence, double tokens);
  void run_computed();
  void plan_chunk();
  void compute_chunk(double tokens);
  void take_back();
  void admit();
  double next_steps() const;
  bool exceeds_room();
  void preempt_until_it_fits();
  void plan_part();
  void call_tool(Sequence&);
};

/// Returns the times of the answers that have ended after `from`.
AnswerTimes answer_times(const std::vector<const EngineRun*>&, Seconds from = {});

/// Runs an engine to which so many prompts come at first, and one more whenever an answer ends. 0: all come at first.
EngineRun run_engine_for(const GenerationCosts&, const std::vector<PlannedAnswer>&, const EngineLimits&,
                         std::size_t concurrency);

/// Runs an engine until all answers have ended, or until `most`: then the answers that have not ended have end 0.
EngineRun run_engine(const GenerationCosts&, const std::vector<PlannedAnswer>&, const EngineLimits&,
                     Seconds most = Seconds{std::numeric_limits<double>::infinity()});

}  // namespace trainyard
