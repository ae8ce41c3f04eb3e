// The machine of the engines, and what the lengths of their answers need of all models of a loop.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "models/reading/nearest.hpp"
#include "scenarios/src/reading/read_post_training.hpp"

namespace trainyard {

std::string PostTrainingChoice::nearest_prompt(double most) const {
  const auto answer = static_cast<double>(lengths.most);
  if (most - answer >= 1) return fmt::format("nearest: {:.0f}, before answers of up to {:.0f}", most - answer, answer);
  if (most >= 2) return fmt::format("nearest: {:.0f}, with post_training.answer_tokens.most: 1", most - 1);
  return "expected fewer tokens of results of tools";
}

bool divides_nodes(int engine_gpus, const NodeType& node, int nodes) {
  const int gpus = node.gpus * nodes;
  return engine_gpus <= gpus && gpus % engine_gpus == 0 &&
         (engine_gpus <= node.gpus ? node.gpus % engine_gpus == 0 : engine_gpus % node.gpus == 0);
}

bool PostTrainingChoice::holds_engines(int engine_gpus) const {
  return divides_nodes(engine_gpus, generators.node, std::gcd(nodes, generators.nodes));
}

namespace {

/// Refuses halves on different nodes that no network joins.
void require_links(const PostTrainingChoice& choice, const ClusterSpec& training) {
  const bool has_engines = choice.has_own_nodes();
  if ((!has_engines && choice.critic_nodes() == 0) || training.node.hcas > 0 || training.joins_chips()) return;
  const char* const half = has_engines ? "generation" : "critic";
  fail(has_engines ? choice.nodes_place : choice.critic->place,
       fmt::format("post_training.{}.nodes: {} has no adapters (cluster.hca), so that nothing goes from node to node; "
                   "expected cluster.hca, or no {}.nodes",
                   half, training.node.name, half));
}

/// Refuses engines that do not fill the nodes, and names the nearest legal number.
void refuse_engines(const PostTrainingChoice& choice) {
  const EngineLayout& layout = choice.layout;
  const int gpus = choice.generators.gpus(), node = choice.generators.node.gpus, engine = layout.gpus(),
            apart_gpus = choice.own_gpus();
  const bool divides_experts = choice.experts == 0 || choice.experts % layout.expert == 0;
  if (divides_experts && engine > node && engine % node == 0 && choice.has_own_nodes() && !choice.is_hybrid)
    fail(choice.nodes_place,
         fmt::format("{}.nodes: an engine of {} GPUs has {} nodes, and {} nodes that only generate are no multiple; "
                     "nearest: {}",
                     choice.engine_key, engine, engine / node, choice.nodes,
                     nearest_multiples(engine / node, choice.nodes)));
  const bool has_copies = layout.data > 1, by_data = has_copies && choice.states_copies,
             by_expert = has_copies && !by_data;
  const int unit = has_copies ? layout.tensor : 1;
  int nearest_fit = 1;
  for (int n = unit; n <= std::min(gpus, engine); n += unit)
    if (choice.holds_engines(n) && (has_copies || n % std::min(n, layout.expert) == 0) &&
        (!has_copies || choice.experts == 0 || choice.experts % n == 0))
      nearest_fit = n;
  const bool by_tensor = !has_copies || nearest_fit % layout.tensor != 0;
  fail(by_tensor   ? choice.tensor_place
       : by_expert ? choice.expert_place
                   : choice.data_place,
       fmt::format("{}.{}: {} GPUs an engine do not divide {} in nodes of {}; nearest: {}", choice.engine_key,
                   by_tensor   ? "tensor_parallel"
                   : by_expert ? "expert_parallel"
                               : "data_parallel",
                   engine,
                   apart_gpus > 0 && apart_gpus < gpus
                       ? fmt::format("both the {} GPUs that only generate and the {} that train too,", apart_gpus,
                                     gpus - apart_gpus)
                       : fmt::format("{} GPUs", gpus),
                   node, by_tensor || by_expert ? nearest_fit : nearest_fit / layout.tensor));
}

/// Gives sandboxes cores of the nodes that generate: no more calls run at once than these hold, and slower cores take
/// longer for a call.
void place_sandboxes(PostTrainingChoice& choice) {
  ToolChoice& tools = choice.tools;
  if (tools.cores == 0 || choice.calls.empty()) return;
  const NodeType& node = choice.generators.node;
  const int cores = node.sockets * node.cpu.cores;
  if (cores == 0)
    fail(tools.place,
         fmt::format("post_training.tools.cores: {} states no cores of its CPUs; expected cluster.cpu, such "
                     "as xeon-platinum-8480c, or no cores",
                     node.name));
  if (tools.cores > cores)
    fail(tools.place, fmt::format("post_training.tools.cores: a sandbox of {} cores, but {} has {}; nearest: {}",
                                  tools.cores, node.name, cores, cores));
  const int most = choice.generators.nodes * (cores / tools.cores);
  tools.sandboxes = tools.sandboxes > 0 ? std::min(tools.sandboxes, most) : most;
  for (std::vector<Seconds>& calls : choice.calls)
    for (Seconds& call : calls) call = call / node.cpu.thread_speed;
}

}  // namespace

void place_engines(PostTrainingChoice& choice, const ClusterSpec& training) {
  if (!choice.algorithm.has_rollouts) return;
  if (!training.others.empty())
    fail(choice.place,
         choice.section_key + ": expected nodes of one type; engines on different nodes are not modelled");
  choice.generators = training;
  choice.generators.nodes = choice.nodes + (choice.shares_gpus() ? training.nodes : 0);
  const int engine = choice.layout.gpus();
  require_links(choice, training);
  if (!choice.holds_engines(engine)) refuse_engines(choice);
  const Gpu& gpu = training.node.gpu;
  const auto lacks = [&gpu](EngineFormat format) {
    const Precision units = format == EngineFormat::nvfp4 ? Precision::fp4 : Precision::fp8;
    return format != EngineFormat::bf16 && format != EngineFormat::mxfp4 &&
           gpu.peak[static_cast<std::size_t>(units)].value == 0;
  };
  const bool has_fp8 = !lacks(EngineFormat::fp8);
  if (lacks(choice.layout.weights))
    fail(choice.precision_place, fmt::format("{}.precision: {} has no {}; expected {}", choice.engine_key, gpu.name,
                                             engine_formats()[static_cast<std::size_t>(choice.layout.weights)],
                                             has_fp8 ? "fp8 or bf16" : "bf16"));
  // Any GPU reads keys and values of 8 bits, which kernels widen.
  if (choice.layout.cache == EngineFormat::nvfp4 && lacks(EngineFormat::nvfp4))
    fail(choice.cache_place,
         fmt::format("{}.cache: {} has no nvfp4; expected fp8 or bf16", choice.engine_key, gpu.name));
  if (choice.concurrency % choice.engines() != 0)
    fail(choice.concurrency_place,
         fmt::format("generation.concurrency: {} prompts at a time do not divide over {} engines; nearest: {}",
                     choice.concurrency, choice.engines(), nearest_multiples(choice.engines(), choice.concurrency)));
  place_sandboxes(choice);
  if (!choice.calls.empty() && choice.tools.sandboxes > 0 && choice.tools.sandboxes < choice.engines())
    fail(choice.tools.place, fmt::format("post_training.tools.sandboxes: {}, but {} engines share them; nearest: {}",
                                         choice.tools.sandboxes, choice.engines(), choice.engines()));
}

void take_training_samples(PostTrainingChoice& choice, std::int64_t samples, const Place& place) {
  if (choice.samples() % samples != 0)
    fail(place, fmt::format("plan.global_batch_size: {} samples do not divide the {} of a step (post_training.prompts "
                            "x samples_per_prompt); nearest: {}",
                            samples, choice.samples(), nearest_divisors(choice.samples(), samples)));
  if (samples % choice.algorithm.pair != 0)
    fail(place,
         fmt::format("plan.global_batch_size: {} samples split a pair of a chosen and a rejected answer; nearest: {}",
                     samples, samples * choice.algorithm.pair));
  choice.training_samples = samples;
}

namespace {

/// Refuses lengths beyond the context of a model. `role`: key of a model beside the policy; empty: it is the policy.
void require_context(const PostTrainingChoice& choice, const NetworkEntry& model, const std::string& role) {
  const TransformerConfig* config = model.transformer();
  if (!config || config->max_position_embeddings <= 0) return;
  const auto positions = static_cast<double>(config->max_position_embeddings);
  const double before = choice.most_tokens_read(), longest = before + static_cast<double>(choice.lengths.most);
  if (longest <= positions) return;
  fail(choice.place,
       fmt::format(
           "{}.answer_tokens.most: {} tokens after {:.0f} of a prompt{} are lengths beyond the context of {}{}, "
           "{:.0f} positions; {}",
           choice.section_key, choice.lengths.most, before, choice.tools.calls > 0 ? " and results of tools" : "",
           model.name, role.empty() ? "" : " (" + role + ")", positions,
           before + 1 <= positions ? fmt::format("expected at most {:.0f}", positions - before)
                                   : "prompts alone are longer; prompt_tokens: " +
                                         choice.nearest_prompt(positions - (before - choice.prompt_tokens))));
}

/// Refuses a model beside the policy that reads no text from left to right, or whose context is too short.
void require_decoder(const PostTrainingChoice& choice, const NetworkEntry& model, const std::string& role,
                     const Place& place) {
  const TransformerConfig* config = model.transformer();
  if (!config || !config->causal || config->num_decoder_layers > 0)
    fail(place,
         fmt::format("{}: {} reads no text token by token; expected a decoder, such as llama-3-8b", role, model.name));
  require_context(choice, model, role);
}

}  // namespace

void require_positions(const PostTrainingChoice& choice, const NetworkEntry& model, const Catalog& catalog) {
  require_context(choice, model, "");
  const std::vector<std::pair<const char*, const std::optional<LoopModel>*>> others{
      {"critic", &choice.critic}, {"reward", &choice.reward}, {"teacher", &choice.algorithm.frozen}};
  for (const auto& [key, other] : others)
    if (*other && (*other)->model.kind != Node::Kind::null)
      require_decoder(choice, read_network_entry(catalog.resolve("network", (*other)->model)),
                      fmt::format("{}.{}.model", choice.section_key, key), (*other)->model.place);
  if (choice.speculation.draft)
    require_decoder(choice, *choice.speculation.draft, choice.engine_key + ".speculation.draft",
                    choice.speculation.place);
}

}  // namespace trainyard
