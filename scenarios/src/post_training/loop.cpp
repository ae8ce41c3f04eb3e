#include "scenarios/src/post_training/loop.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "models/generation/speculation.hpp"
#include "scenarios/src/post_training/asynchrony.hpp"
#include "scenarios/src/post_training/engine_costs.hpp"
#include "scenarios/src/post_training/weight_transfer.hpp"
#include "strategies/failures/checkpoint_transfer.hpp"

namespace trainyard {
namespace {

/// Returns the started answers in their order, with their calls.
std::vector<PlannedAnswer> planned_answers(const PostTrainingChoice& choice) {
  std::vector<PlannedAnswer> all;
  const auto per_prompt = static_cast<std::size_t>(choice.samples_per_prompt);
  for (std::size_t i = 0; i < choice.answers.size(); ++i) {
    all.push_back({choice.engine.prefix_sharing ? i / per_prompt : i, choice.answers[i]});
    if (!choice.calls.empty()) all.back().calls = choice.calls[i];
  }
  return all;
}

/// Limits of each engine, with the sandboxes of all.
EngineLimits engine_limits(const PostTrainingChoice& choice) {
  return {choice.prompt_tokens,
          choice.engine.most_sequences * choice.layout.data,
          choice.engine.reserved_tokens,
          choice.tools.tokens,
          choice.tools.sandboxes,
          static_cast<double>(choice.engine.chunked_prefill) * choice.layout.data,
          static_cast<double>(choice.engine.most_prefill_tokens) * choice.layout.data,
          choice.section_key == "generation" ? choice.engine.host_request : Seconds{},  // loops have no servers
          choice.engine.reserves_answers ? choice.most_tokens_read() + static_cast<double>(choice.lengths.most) : 0};
}

std::string largest_part(const PostTrainingResult::EngineParts& parts) {
  const std::vector<std::pair<double, const char*>> all{{parts.products.value, "matrix products"},
                                                        {parts.cache.value, "reads of keys and values"},
                                                        {parts.exchanges.value, "exchanges"},
                                                        {parts.host.value, "the engine's host"},
                                                        {parts.prefill.value, "prompts and preempted sequences"},
                                                        {parts.calls.value, "calls of tools"}};
  return std::ranges::max_element(all, [](const auto& a, const auto& b) { return a.first < b.first; })->second;
}

/// Returns the time at which nine of ten answers have ended.
double ninth_tenth(std::vector<double> ends) {
  const auto position = static_cast<std::ptrdiff_t>((ends.size() * 9 + 9) / 10 - 1);
  std::nth_element(ends.begin(), ends.begin() + position, ends.end());
  return ends[static_cast<std::size_t>(position)];
}

/// Runs of all engines, and the end of each answer, s.
struct Generation {
  std::vector<EngineRun> runs;
  std::vector<double> ends;  // 0: the answer does not end
};

/// Deals the answers to the engines in equal shares, in order, and runs the engines up to the time `most`.
/// `concurrency`: prompts that come to an engine at first, before each end brings one more; 0: all of them.
Generation run_engines(const EngineCosts& costs, const EngineLimits& limits, const std::vector<PlannedAnswer>& answers,
                       std::size_t engines, Seconds most, std::size_t concurrency = 0) {
  std::vector<std::vector<PlannedAnswer>> shares(engines);
  for (std::size_t i = 0; i < answers.size(); ++i)
    shares[dealt_share(i, answers.size(), engines)].push_back(answers[i]);
  Generation generation;
  for (const std::vector<PlannedAnswer>& share : shares) {
    const EngineLimits own_limits = limits_of_engine(limits, generation.runs.size(), engines);
    generation.runs.push_back(concurrency > 0 ? run_engine_for(*costs.prices, share, own_limits, concurrency)
                                              : run_engine(*costs.prices, share, own_limits, most));
    for (const Seconds end : generation.runs.back().ends) generation.ends.push_back(end.value);
  }
  return generation;
}

/// Returns the end of each prompt, s: that of its last answer. `answers_per_prompt`: number of answers to a prompt.
std::vector<double> prompt_ends(const std::vector<double>& ends, std::size_t answers_per_prompt) {
  std::vector<double> all(ends.size() / answers_per_prompt);
  for (std::size_t i = 0; i < ends.size(); ++i)
    all[i / answers_per_prompt] = std::max(all[i / answers_per_prompt], ends[i]);
  return all;
}

void add_parts(const EngineRun& run, double count, PostTrainingResult& r) {
  r.parts = {run.prefill / count,          run.decode.products / count, run.decode.cache / count,
             run.decode.exchanges / count, run.decode.host / count,     run.call_wait / count};
  r.engine_limit = largest_part(r.parts);
  r.recomputed = run.recomputed / count;
  r.token_time = run.decode.sum() / run.steps;
  r.sequences = (run.tokens - run.prefill_tokens) / run.steps;
}

/// Fills the answers that the step trains on: those to prompts that have ended at `end`. `ends`: end of each prompt.
void add_trained_answers(const PostTrainingChoice& choice, const std::vector<double>& ends, double end,
                         PostTrainingResult& r) {
  double answers = 0, tokens = 0, read = 0;
  std::int64_t prompts = 0;
  const auto answers_per_prompt = static_cast<std::size_t>(choice.samples_per_prompt);
  for (std::size_t p = 0; p < ends.size(); ++p) {
    if (ends[p] > end || prompts == choice.prompts) continue;
    ++prompts;
    for (std::size_t i = p * answers_per_prompt; i < (p + 1) * answers_per_prompt; ++i) {
      answers += 1;
      tokens += choice.answers[i];
      read += choice.read_tokens(i);
      r.longest_answer = std::max(r.longest_answer, choice.answers[i]);
      if (choice.sampling.masks_cut_answers && choice.answers[i] >= static_cast<double>(choice.lengths.most))
        r.masked_answers += 1;
    }
  }
  r.mean_answer = tokens / answers;
  r.mean_read = read / answers;
}

/// Fills the number and the memory of the engines. `peak`: most bytes of keys, values and states on one GPU.
void add_engines(const PostTrainingChoice& choice, const EngineCosts& costs, Bytes peak, PostTrainingResult& r) {
  r.memory = {costs.weights + choice.engine.reserved_memory + costs.prices->room(), costs.weights, costs.prices->room(),
              peak, choice.engine.reserved_memory};
  r.policy = costs.policy;
  r.sent = costs.sent;
  r.generation_gpus = choice.generators.gpus();
  r.engines = choice.engines();
  r.tokens_of_pass = Speculation{choice.speculation.tokens, choice.speculation.acceptance, {}}.tokens_of_pass();
}

/// The answers of a step that samples in rounds.
struct Rounds {
  Generation all;     // ends count from the begin of the first round
  EngineRun slowest;  // sums of the engine that ends last in each round
  double end = 0;     // end of the last round, s
};

/// Runs the rounds one after another: whether a further one is needed is known when all answers of a round have ended.
Rounds run_rounds(const PostTrainingChoice& choice, const EngineCosts& costs, const EngineLimits& limits,
                  const std::vector<PlannedAnswer>& answers) {
  Rounds rounds;
  const auto of_round = static_cast<std::ptrdiff_t>(choice.sampling.round_prompts * choice.samples_per_prompt);
  for (auto first = answers.begin(); first != answers.end(); first += of_round) {
    Generation round = run_engines(costs, limits, {first, first + of_round}, static_cast<std::size_t>(choice.engines()),
                                   Seconds{std::numeric_limits<double>::infinity()});
    for (const double end : round.ends) rounds.all.ends.push_back(rounds.end + end);
    const EngineRun* slowest = &round.runs.front();
    for (const EngineRun& run : round.runs)
      if (run.time > slowest->time) slowest = &run;
    rounds.end += slowest->time.value;
    rounds.slowest.add(*slowest);
    for (EngineRun& run : round.runs) rounds.all.runs.push_back(std::move(run));
  }
  return rounds;
}

/// Returns the ends of the prompts, with infinity for those that a step samples and throws away.
std::vector<double> ends_of_useful_prompts(std::vector<double> ends, const SamplingChoice& sampling) {
  for (std::size_t p = 0; p < sampling.useful.size(); ++p)
    if (!sampling.useful[p]) ends[p] = std::numeric_limits<double>::infinity();
  return ends;
}

}  // namespace

void generate_answers(const PostTrainingChoice& choice, const EngineCosts& costs, PostTrainingResult& r) {
  const EngineLimits limits = engine_limits(choice);
  const std::vector<PlannedAnswer> answers = planned_answers(choice);
  const auto engines = static_cast<std::size_t>(choice.engines());
  const auto answers_per_prompt = static_cast<std::size_t>(choice.samples_per_prompt);
  const bool loses_answers = choice.started_prompts > choice.prompts;
  // An asynchronous loop is simulated as a whole later: then only the answers that the steps take follow from this.
  if (choice.asynchrony && !loses_answers) {
    add_trained_answers(choice, std::vector<double>(static_cast<std::size_t>(choice.prompts)), 0, r);
    add_engines(choice, costs, {}, r);
    return;
  }
  const bool samples_in_rounds = choice.sampling.is_given();
  Rounds rounds = samples_in_rounds ? run_rounds(choice, costs, limits, answers) : Rounds{};
  Generation all = samples_in_rounds
                       ? std::move(rounds.all)
                       : run_engines(costs, limits, answers, engines, Seconds{std::numeric_limits<double>::infinity()},
                                     static_cast<std::size_t>(choice.concurrency) / engines);
  std::vector<double> ends = prompt_ends(all.ends, answers_per_prompt);
  double end = *std::ranges::max_element(ends);
  if (samples_in_rounds) {
    r.rounds = choice.sampling.rounds;
    ends = ends_of_useful_prompts(std::move(ends), choice.sampling);
  } else if (loses_answers) {
    std::vector<double> sorted = ends;
    std::ranges::sort(sorted);
    end = sorted[static_cast<std::size_t>(choice.prompts - 1)];
    all = run_engines(costs, limits, answers, engines, Seconds{end});
  }
  // Engines whose answers are cut off end the decode step in progress, after the end of the generation.
  const auto ends_before = [end](const EngineRun& a, const EngineRun& b) {
    const double most = end * (1 + 1e-9);
    return std::pair(a.time.value <= most, a.time) < std::pair(b.time.value <= most, b.time);
  };
  const EngineRun& slowest = samples_in_rounds ? rounds.slowest : *std::ranges::max_element(all.runs, ends_before);
  std::vector<const EngineRun*> runs;
  for (const EngineRun& run : all.runs) runs.push_back(&run);
  r.answers = answer_times(runs);
  Bytes peak;
  double busy = 0, tokens = 0;
  // The first engines have GPUs that only generate. Each round has all engines.
  const auto own_engines = static_cast<std::size_t>(choice.own_gpus() / choice.layout.gpus());
  for (std::size_t i = 0; choice.shares_gpus() && i < all.runs.size(); ++i)
    if (i % engines >= own_engines) r.colocated_answers += static_cast<double>(all.runs[i].ends.size());
  for (const EngineRun& run : all.runs) {
    peak = std::max(peak, run.cache_peak);
    r.preemptions += static_cast<double>(run.preemptions);
    r.waits_for_cache = r.waits_for_cache || run.refusals > 0;
    busy += run.busy().value / static_cast<double>(engines);
    tokens += run.tokens;
    r.token_seconds += run.token_seconds;
  }
  r.generation.value = end;
  r.busy_engine.value = busy;
  r.engine_tokens = tokens;
  add_parts(slowest, 1, r);
  Seconds calls;
  for (const EngineRun& run : all.runs) calls += run.call_time;
  if (choice.tools.sandboxes > 0) r.busy_sandboxes = calls / (choice.tools.sandboxes * Seconds{end});
  add_trained_answers(choice, ends, end, r);
  std::vector<double> taken_ends;
  for (std::size_t i = 0; i < all.ends.size(); ++i)
    if (ends[i / answers_per_prompt] <= end) taken_ends.push_back(all.ends[i]);
  r.tail.value = r.generation.value - ninth_tenth(taken_ends);
  r.lost_answers = static_cast<double>(choice.started_samples() - choice.samples());
  if (r.lost_answers > 0) r.lost_tokens = std::max(0.0, tokens - r.mean_answer * static_cast<double>(choice.samples()));
  add_engines(choice, costs, peak, r);
}

namespace {

/// Returns the mean number of tokens before a generated token, over all tokens.
double mean_context(const PostTrainingChoice& choice) {
  double tokens = 0, before = 0;
  for (const double answer : choice.answers) {
    tokens += answer;
    before += answer * (choice.prompt_tokens + answer / 2);
  }
  return before / tokens;
}

/// Fills the mean time of an engine that a failure loses: the tokens of its unfinished answers over its rate.
void add_in_flight(PostTrainingResult& r) {
  const double tokens = r.token_seconds / (r.engines * r.step_time.value),
               rate = r.engine_tokens / (r.engines * r.busy_engine.value);
  r.in_flight.value = rate > 0 ? tokens / rate : 0;
}

/// Simulates engines and training together, and replaces the figures of engines that run alone.
void run_asynchronous_step(const PostTrainingChoice& choice, const NetworkEntry& model, double training_half,
                           PostTrainingResult& r) {
  const EngineCosts costs = generation_costs(choice, model);
  AsynchronousLoop loop;
  loop.engines = choice.engines();
  loop.answers = planned_answers(choice);
  loop.groups = static_cast<std::size_t>(choice.prompts);
  loop.parts = static_cast<std::size_t>(choice.asynchrony->parts);
  loop.prefix_sharing = choice.engine.prefix_sharing;
  loop.staleness = choice.asynchrony->staleness;
  loop.by_start = choice.asynchrony->by_start;
  loop.partial_rollouts = choice.asynchrony->partial_rollouts;
  loop.training_half = Seconds{training_half};
  loop.fetch = r.fetch =
      choice.stack.controller.answer_time(static_cast<double>(choice.samples()) * choice.padded_tokens);
  loop.weights = r.weights;
  const AsynchronousRun run = run_asynchronous(*costs.prices, engine_limits(choice), loop);
  r.generation = run.generation;
  r.answers = run.answers;
  r.waiting = run.waiting;
  r.hidden = without_residue(r.generation + r.fetch - r.waiting);
  r.unsettled = run.unsettled;
  r.step_time = run.step;
  r.idle_engines = 1 - run.busy_share;
  r.mean_staleness = run.mean_staleness;
  r.most_staleness = run.most_staleness;
  r.staleness = run.staleness;
  r.mixed_answers = run.mixed_share;
  r.tail.value = 0;
  r.preemptions = run.preemptions;
  r.waits_for_cache = run.engines.refusals > 0;
  r.memory.cache_peak = run.engines.cache_peak;
  r.busy_engine = run.engines.busy() / r.engines;
  r.token_seconds = run.engines.token_seconds;
  r.engine_tokens = run.engines.tokens;
  add_in_flight(r);
  // With partial rollouts, another engine goes on with the tokens after it has computed their keys and values.
  if (loop.partial_rollouts)
    r.in_flight = costs.prices->prefill(
        {std::max(1.0, r.token_seconds / (r.engines * r.step_time.value)), std::max(1.0, r.mean_answer), 0});
  add_parts(run.engines, r.engines, r);
  if (choice.tools.sandboxes > 0) r.busy_sandboxes = run.engines.call_time / (choice.tools.sandboxes * r.step_time);
  r.limit = r.waiting > start_wait(r) ? LoopLimit::generation : LoopLimit::training;
  if (r.hidden.value == 0) r.limit = LoopLimit::both_in_turn;
}

using NamedTimes = std::vector<std::pair<const char*, Seconds>>;

/// Returns a pool whose parts follow each other. Parts without time are left out.
PostTrainingResult::Pool pool_of(const char* name, int gpus, const NamedTimes& times) {
  PostTrainingResult::Pool pool{name, gpus, {}};
  Seconds begin;
  for (const auto& [part, time] : times) {
    if (!(time.value > 0)) continue;
    pool.parts.push_back({part, begin, begin + time});
    begin += time;
  }
  return pool;
}

/// Fills what each pool of GPUs does in a step. One step off, training begins with the step, and waits at its end.
/// Engines of an asynchronous loop do not end together, so that their GPUs generate as long as an engine does in the mean.
void add_pools(const PostTrainingChoice& choice, PostTrainingResult& r) {
  const bool shares = r.colocated_gpus > 0;
  const Seconds none, generation = choice.asynchrony ? r.busy_engine : r.generation,
                      before = shares || choice.one_step_off ? none : r.waiting,
                      after = choice.one_step_off ? r.waiting : none;
  const int apart_gpus = choice.own_gpus();
  if (apart_gpus > 0)
    r.pools.push_back(pool_of("generation", apart_gpus,
                              {{"generation", generation},
                               {"waiting", r.step_time - r.weights - r.reload - generation},
                               {"weights", r.weights},
                               {"waiting", r.reload}}));
  r.pools.push_back(pool_of(!shares          ? "training"
                            : apart_gpus > 0 ? "both"
                                             : "all",
                            shares ? r.generation_gpus - apart_gpus : r.training_gpus,
                            {{"generation", shares ? generation : none},
                             {"waiting", before},
                             {"log-probabilities", r.log_probabilities},
                             {"waiting", r.values_wait},
                             {"training", r.training},
                             {"waiting", r.updates_wait},
                             {"loop", r.loop},
                             {"waiting", after},
                             {"weights", r.weights},
                             {"reload", r.reload}}));
  if (r.critic_gpus == 0) return;
  const Seconds first = shares ? generation : before, passes = r.log_probabilities + r.values_wait;
  r.pools.push_back(pool_of("critic", r.critic_gpus,
                            {{"waiting", first},
                             {"critic", r.critic_values},
                             {"waiting", passes - r.critic_values},
                             {"critic", r.critic - r.critic_values},
                             {"waiting", std::max(none, r.step_time - first - passes - r.critic + r.critic_values)}}));
}

void add_rates(const PostTrainingChoice& choice, PostTrainingResult& r) {
  r.samples_per_s = static_cast<double>(choice.samples()) / r.step_time.value;
  r.tokens_per_s = r.samples_per_s * (r.mean_answer + r.mean_read);
  r.tokens_per_s_per_gpu = r.tokens_per_s / r.gpus;
}

}  // namespace

Seconds least_generation(const PostTrainingChoice& choice, const NetworkEntry& model, const EngineCosts& costs) {
  const TransformerConfig* config = model.transformer();
  const bool slides = config && config->sliding_window > 0;
  const double context = slides ? choice.prompt_tokens : mean_context(choice);
  const double mean_tokens = mean_context(choice) - (choice.engine.prefix_sharing ? choice.prompt_tokens : 0);
  const Bytes sequence = costs.prices->cache(mean_tokens) + costs.prices->states();
  const double shares = static_cast<double>(choice.samples()) / choice.engines(),
               room = sequence.value > 0 ? costs.prices->room() / sequence : shares;
  const int most =
      static_cast<int>(std::min({static_cast<double>(engine_limits(choice).most_sequences), room, 4 * shares}));
  double least = std::numeric_limits<double>::infinity(), tokens = 0;
  for (int batch = std::max(1, most); batch >= 1; batch /= 2)
    least = std::min(least, costs.prices->decode(batch, context).sum().value / batch);
  for (const double answer : choice.answers) tokens += answer - 1;  // the pass of a prompt gives the first one
  tokens *= static_cast<double>(choice.samples()) / static_cast<double>(choice.answers.size());
  return Seconds{least * std::max(0.0, tokens) / choice.engines()};
}

void close_loop(const PostTrainingChoice& choice, const NetworkEntry& model, PostTrainingResult& r) {
  r.gpus = r.generation_gpus + r.training_gpus - r.colocated_gpus + r.critic_gpus;
  transfer_weights(choice, model, r);
  r.reload_copies = choice.shares_gpus() ? simulate_host_copies(choice.generators, r.moved_states) : Seconds{};
  r.reload = choice.shares_gpus() ? choice.stack.reload + r.reload_copies : Seconds{};
  r.loop = static_cast<double>(choice.samples()) * choice.stack.loop_sample;
  const double training_half = r.training_half().value;
  if (choice.asynchrony) {
    run_asynchronous_step(choice, model, training_half, r);
  } else {
    r.hidden.value = choice.one_step_off ? std::min(r.generation.value, training_half) : 0;
    r.waiting.value = r.generation.value - r.hidden.value;
    r.limit = !choice.one_step_off                 ? LoopLimit::both_in_turn
              : r.generation.value > training_half ? LoopLimit::generation
                                                   : LoopLimit::training;
    r.step_time = r.summed_parts();
    r.idle_engines = 1 - r.busy_engine.value / r.step_time.value;
    add_in_flight(r);
    r.mean_staleness = r.most_staleness = choice.one_step_off ? 1 : 0;
    r.staleness = {{choice.one_step_off ? 1 : 0, static_cast<std::uint64_t>(choice.samples())}};
  }
  r.idle_generation = choice.asynchrony ? r.idle_engines : 1 - r.generation.value / r.step_time.value;
  r.idle_training = 1 - (r.training + r.log_probabilities) / r.step_time;
  if (r.critic_gpus > 0) r.idle_critic = 1 - r.critic.value / r.step_time.value;
  add_pools(choice, r);
  add_rates(choice, r);
}

Seconds step_with_engines(const PostTrainingChoice& choice, const NetworkEntry& model, const PostTrainingResult& r,
                          int engines) {
  PostTrainingChoice fewer = choice;
  fewer.absent_engines = choice.engines() - engines;
  PostTrainingResult step;
  step.training = r.training;
  step.log_probabilities = r.log_probabilities;
  step.values_wait = r.values_wait;
  step.updates_wait = r.updates_wait;
  step.training_gpus = r.training_gpus;
  step.colocated_gpus = r.colocated_gpus;
  step.policy_ranks = r.policy_ranks;
  step.moved_states = r.moved_states;
  generate_answers(fewer, model, step);
  close_loop(fewer, model, step);
  return step.step_time;
}

GenerationResult generation_result(const PostTrainingChoice& choice, const NetworkEntry& model) {
  GenerationResult r;
  PostTrainingResult& p = r.engines;
  generate_answers(choice, model, p);
  // Requests that come one after another take their times outside of the engine one after another too.
  const std::int64_t in_turn = choice.concurrency > 0 ? (choice.prompts - 1) / choice.concurrency + 1 : 1;
  const Seconds outside = static_cast<double>(in_turn) * choice.engine.host_request;
  p.generation += outside;
  p.parts.host += outside;
  r.requests_per_s = static_cast<double>(choice.samples()) / p.generation.value;
  r.tokens_per_s = r.requests_per_s * p.mean_answer;
  r.tokens_per_s_per_gpu = r.tokens_per_s / p.generation_gpus;
  return r;
}

void close_without_rollouts(const PostTrainingChoice& choice, PostTrainingResult& r) {
  add_trained_answers(choice, std::vector<double>(static_cast<std::size_t>(choice.prompts)), 0, r);
  r.gpus = r.training_gpus;
  r.limit = LoopLimit::training;
  r.step_time = r.summed_parts();
  add_pools(choice, r);
  add_rates(choice, r);
}

}  // namespace trainyard
