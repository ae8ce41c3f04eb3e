#include "scenarios/src/post_training/loop.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "scenarios/src/post_training/engine_run.hpp"

namespace trainyard {
namespace {

/// Returns the answers of each engine: equal shares of the samples, in order.
std::vector<std::vector<PlannedAnswer>> dealt_answers(const PostTrainingChoice& choice) {
  const auto engines = static_cast<std::size_t>(choice.engines());
  std::vector<std::vector<PlannedAnswer>> dealt(engines);
  const std::size_t samples = choice.answers.size(), per_prompt = static_cast<std::size_t>(choice.samples_per_prompt);
  for (std::size_t i = 0; i < samples; ++i) dealt[i * engines / samples].push_back({i / per_prompt, choice.answers[i]});
  return dealt;
}

std::string largest_part(const PostTrainingResult::EngineParts& parts) {
  const std::vector<std::pair<double, const char*>> all{{parts.products, "matrix products"},
                                                        {parts.cache, "reads of keys and values"},
                                                        {parts.exchanges, "all-reduces"},
                                                        {parts.host, "the engine's host"},
                                                        {parts.prefill, "prompts and preempted sequences"}};
  return std::max_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; })
      ->second;
}

/// Returns the time at which nine of ten answers have ended.
double ninth_tenth(std::vector<double> ends) {
  const auto position = static_cast<std::ptrdiff_t>((ends.size() * 9 + 9) / 10 - 1);
  std::nth_element(ends.begin(), ends.begin() + position, ends.end());
  return ends[static_cast<std::size_t>(position)];
}

}  // namespace

void generate_answers(const PostTrainingChoice& choice, const NetworkEntry& model, PostTrainingResult& r) {
  const DecodeCosts costs = generation_costs(choice, model);
  const EngineLimits limits{choice.prompt_tokens, choice.engine.most_sequences, choice.engine.reserved_tokens};
  std::vector<double> ends;
  EngineRun slowest;
  Bytes peak;
  for (const std::vector<PlannedAnswer>& answers : dealt_answers(choice)) {
    EngineRun run = run_engine(costs, answers, limits);
    for (const Seconds end : run.ends) ends.push_back(end.value);
    peak = std::max(peak, run.cache_peak);
    r.preemptions += static_cast<double>(run.preemptions);
    if (run.time > slowest.time) slowest = std::move(run);
  }
  r.generation = slowest.time.value;
  r.parts = {slowest.prefill.value, slowest.decode.products.value, slowest.decode.cache.value,
             slowest.decode.exchanges.value, slowest.decode.host.value};
  r.engine_limit = largest_part(r.parts);
  r.tail = r.generation - ninth_tenth(ends);
  r.token_time = slowest.decode.sum().value / slowest.steps;
  r.sequences = slowest.tokens / slowest.steps;
  const auto samples = static_cast<double>(choice.answers.size());
  r.mean_answer = std::accumulate(choice.answers.begin(), choice.answers.end(), 0.0) / samples;
  r.longest_answer = *std::max_element(choice.answers.begin(), choice.answers.end());
  r.memory = {(choice.layout.memory_share * choice.generators.node.gpu.usable_memory()).value, costs.weights().value,
              costs.room().value, peak.value, choice.engine.reserved_memory.value};
  r.policy = costs.policy().value;
  r.generation_gpus = choice.generators.gpus();
  r.engines = choice.engines();
}

void close_loop(const PostTrainingChoice& choice, PostTrainingResult& r) {
  r.gpus = choice.has_own_nodes ? r.generation_gpus + r.training_gpus : r.generation_gpus;
  r.weights = choice.transfer.time(Bytes{r.policy}, r.generation_gpus).value;
  r.reload = choice.has_own_nodes ? 0 : choice.stack.reload.value;
  r.loop = choice.stack.loop.value;
  const double training_half = r.training + r.log_probabilities + r.loop;
  r.hidden = choice.one_step_off ? std::min(r.generation, training_half) : 0;
  r.limit = !choice.one_step_off ? "both in turn" : r.generation > training_half ? "generation" : "training";
  r.step_time = r.summed_parts();
  r.idle_generation = 1 - r.generation / r.step_time;
  r.idle_training = 1 - (r.training + r.log_probabilities) / r.step_time;
  const auto samples = static_cast<double>(choice.samples());
  r.samples_per_s = samples / r.step_time;
  r.tokens_per_s = r.samples_per_s * (r.mean_answer + choice.prompt_tokens);
  r.tokens_per_s_per_gpu = r.tokens_per_s / r.gpus;
}

}  // namespace trainyard
