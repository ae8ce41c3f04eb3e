#include "scenarios/src/reading/read_post_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/reading/nearest.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kTokenUnit = 64;  ///< sequences of packs have a multiple of this number of tokens
constexpr double kNearlyFull = 0.92;     ///< share of a pack from which on its sequences are kept

/// Reads the engines.
void read_engines(PostTrainingChoice& choice, Fields& fields, const Catalog& catalog) {
  const Node* engine = fields.child_unless_null(
      {"engine",
       "Inference engine: a name, for example vllm (trainyard list engines), or a map of its figures. Default: vllm."});
  choice.engine = read_engine(catalog.resolve("engine", engine ? *engine : Node::scalar_node("vllm", fields.place())));
  read_scheduler(choice.engine, fields);
  read_engine_degrees(choice.layout, fields);
  choice.tensor_place = fields.place_of("tensor_parallel");
  choice.data_place = fields.place_of("data_parallel");
  choice.states_copies = fields.has("data_parallel");
  choice.expert_place = fields.place_of("expert_parallel");
  const auto format = [&fields](Key key, std::size_t formats) {
    const std::vector<std::string> names(engine_formats().begin(), engine_formats().begin() + formats);
    const std::string name = fields.choice(key, names, "bf16");
    return static_cast<EngineFormat>(std::ranges::find(names, name) - names.begin());
  };
  choice.layout.weights = format({"precision",
                                  "Number format of the weights and products of linear layers in the engines; nvfp4 "
                                  "has 4 bits and an fp8 scale for 16 numbers, mxfp4 has 4 bits in experts and bf16 "
                                  "elsewhere, and fp8-block has a scale for each block of 128 x 128 weights."},
                                 engine_formats().size());
  choice.precision_place = fields.place_of("precision");
  choice.layout.cache = format({"cache", "Number format of the cache of keys and values."}, 3);
  choice.cache_place = fields.place_of("cache");
  choice.layout.memory_share = fields.number({"memory_share",
                                              "Share of each GPU's memory that an engine takes, for example 0.6; "
                                              "trtllm takes it of what weights leave. Default: the engine's own."},
                                             0.01, 1, choice.engine.memory_share);
  choice.speculation = read_speculation(fields, catalog, choice.engine_key);
  if (choice.speculation.draft && choice.layout.data > 1)
    fail(choice.speculation.place,
         choice.engine_key +
             ".speculation.draft: a network is not modelled in an engine of several copies; expected mtp");
}

/// Reads `generation` of a loop: the engines, and the nodes that only generate.
void read_generation(PostTrainingChoice& choice, Fields& section, const Catalog& catalog) {
  const Node& engines = section.required_child(
      {"generation", "Engines that generate the answers, for example {engine: vllm, tensor_parallel: 4}."});
  if (engines.kind == Node::Kind::null)
    section.refuse("generation", "null, but the algorithm generates answers; expected a map, such as {engine: vllm}");
  Fields fields(engines, choice.engine_key);
  read_engines(choice, fields, catalog);
  choice.nodes = fields.integer_within<int>(
      {"nodes",
       "Number of nodes of the cluster that only generate, for example 1; the others train. 0: all nodes do both, one "
       "after the other."},
      0, 1 << 20, 0);
  choice.nodes_place = fields.place_of("nodes");
  choice.is_hybrid = fields.boolean({"hybrid",
                                     "Whether the GPUs that train generate too, before they train, beside the `nodes` "
                                     "that only generate. Only with schedule: synchronous."},
                                    false);
  fields.finish();
}

void read_log_probabilities(PostTrainingChoice& choice, Fields& section) {
  const Node* node = section.child_unless_null(
      {"log_probabilities",
       "Forward passes over all samples before the training, such as those of the reference, for example {passes: 2, "
       "micro_batch_size: 4}. Default: {passes: 2, micro_batch_size: 1}."});
  const Node none = Node::empty_map(choice.place);
  Fields fields(node ? *node : none, "post_training.log_probabilities");
  choice.log_probability_passes =
      fields.integer_within<int>({"passes",
                                  "Number of passes: 1 for the policy, 2 with a reference, 0 for none; for example 1. "
                                  "Default: 2, or 1 with algorithm: dapo."},
                                 0, 16, choice.algorithm.passes);
  fields.require_condition(
      "passes", choice.algorithm.has_rollouts,
      choice.algorithm.name + " has the passes of its reference or teacher; with algorithm grpo, dapo, rloo or ppo");
  choice.log_probability_micro_batch = fields.integer_within<std::int64_t>(
      {"micro_batch_size", "Number of samples (or packs) in one forward pass of a rank, for example 4."}, 1, 1 << 20,
      1);
  fields.finish();
}

/// Returns the number of experts of the policy. 0: it has none, or cannot be read.
std::int64_t experts_of(const Node& document, const Catalog& catalog) {
  const Node* model = document.find("model");
  if (!model) return 0;
  try {
    const NetworkEntry entry = read_network_entry(catalog.resolve("network", *model));
    return entry.transformer() ? entry.transformer()->experts.count : 0;
  } catch (const UserError&) {  // the reader of the model says why
    return 0;
  }
}

/// Returns the scalar at a key of a section of the document. Null: it is not stated as a scalar.
Node* stated_scalar(Node& document, const char* section, const char* key) {
  Node* map = document.find(section);
  Node* node = map && map->kind == Node::Kind::map ? map->find(key) : nullptr;
  return node && node->kind == Node::Kind::scalar ? node : nullptr;
}

/// Removes the nodes that generate from the cluster of the training.
void take_nodes(PostTrainingChoice& choice, Node& document, Fields& section) {
  Node* nodes = stated_scalar(document, "cluster", "nodes");
  if (!nodes) {
    if (choice.has_own_nodes() || choice.critic_nodes() > 0)
      fail(section.place_of(choice.has_own_nodes() ? "generation" : "critic"),
           fmt::format("post_training.{}.nodes: expected cluster.nodes to be a number of nodes of one type",
                       choice.has_own_nodes() ? "generation" : "critic"));
    return;
  }
  choice.machine_nodes = static_cast<int>(whole_number(*nodes, "cluster.nodes", 1, 1 << 20));
  const int critic = choice.critic_nodes(), rest = choice.machine_nodes - critic;
  if (rest < 1 || (critic > 0 && choice.has_own_nodes() && rest < 2))
    fail(choice.critic->place,
         fmt::format(
             "post_training.critic.nodes: {} of {} nodes have only the critic, and too few are left for the policy; {}",
             critic, choice.machine_nodes,
             choice.machine_nodes > (choice.has_own_nodes() ? 2 : 1)
                 ? fmt::format("expected at most {}", choice.machine_nodes - (choice.has_own_nodes() ? 2 : 1))
                 : "expected more cluster.nodes, or no critic.nodes"));
  nodes->scalar = fmt::format("{}", rest);
  if (!choice.has_own_nodes()) return;
  if (choice.nodes >= rest)
    fail(section.place_of("generation"),
         fmt::format("post_training.generation.nodes: {} of {} nodes generate, and none is left to train; {}",
                     choice.nodes, rest,
                     rest > 1 ? fmt::format("expected at most {}", rest - 1)
                              : "expected cluster.nodes: 2 or more, or no generation.nodes"));
  nodes->scalar = fmt::format("{}", rest - choice.nodes);
}

/// Chooses the sequences of a pack: as many as it holds samples, or else one more or less, if the pack is not `kNearlyFull`
/// of `filled`, the tokens of the samples in it.
void fill_pack(SamplePacks& pack, double filled) {
  const std::int64_t samples = std::max<std::int64_t>(1, std::llround(filled / pack.sample_tokens));
  const auto tokens_of = [filled](std::int64_t sequences) {
    // Tensor and context ranks split the tokens of a sequence evenly.
    const std::int64_t tokens = std::llround(filled / static_cast<double>(sequences));
    return tokens < kTokenUnit ? std::max<std::int64_t>(1, tokens) : tokens / kTokenUnit * kTokenUnit;
  };
  for (const std::int64_t sequences : {samples, samples - 1, samples + 1}) {
    const std::int64_t tokens = sequences > 0 ? tokens_of(sequences) : 0, all = sequences * tokens;
    if (sequences != samples && (all <= pack.sequences * pack.tokens || static_cast<double>(all) > filled)) continue;
    pack.sequences = sequences;
    pack.tokens = tokens;
    if (static_cast<double>(all) >= kNearlyFull * filled) return;
  }
}

/// Rewrites the plan for packs of samples, or checks that padded samples are long enough.
void take_packs(PostTrainingChoice& choice, Node& document, Fields& section) {
  const bool packs = section.boolean(
      {"packing", "Whether training packs several samples into plan.seq_length tokens; else each is padded to it."},
      true);
  Node* length = stated_scalar(document, "plan", "seq_length");
  if (!length)
    fail(section.place(), "post_training: expected plan.seq_length, the tokens of a pack or of a padded sample");
  const std::int64_t seq_length = whole_number(*length, "plan.seq_length", 1, kMostLoopTokens);
  const double results = choice.tools.calls * choice.tools.tokens;
  const double longest = choice.prompt_tokens + results + static_cast<double>(choice.lengths.most);
  if (choice.prompt_tokens + results >= static_cast<double>(seq_length))
    fail(section.place_of("prompt_tokens"),
         fmt::format("post_training.prompt_tokens: prompts of {} tokens{} alone are longer than the {} of "
                     "plan.seq_length, with one token of an answer; {}",
                     choice.prompt_tokens, results > 0 ? fmt::format(" with {} of results of tools", results) : "",
                     seq_length, choice.nearest_prompt(static_cast<double>(seq_length) - results)));
  if (longest > static_cast<double>(seq_length))
    fail(length->place, fmt::format("plan.seq_length: {}, but a prompt of {} and an answer of {} tokens{} are {}; "
                                    "expected at least that, or post_training.answer_tokens.most: {:.0f}",
                                    seq_length, choice.prompt_tokens, choice.lengths.most,
                                    results > 0 ? fmt::format(" with {} of results of tools", results) : "", longest,
                                    static_cast<double>(seq_length) - choice.prompt_tokens - results));
  choice.padded_tokens = static_cast<double>(seq_length);
  if (!packs) return;
  SamplePacks pack;
  double read = 0;
  for (std::size_t i = 0; i < choice.answers.size(); ++i) read += choice.read_tokens(i);
  pack.sample_tokens = (read + std::accumulate(choice.answers.begin(), choice.answers.end(), 0.0)) /
                       static_cast<double>(choice.answers.size());
  const double filled = choice.stack.pack_fill * static_cast<double>(seq_length);
  fill_pack(pack, filled);
  Node& plan = *document.find("plan");
  std::int64_t micro_batch = 1;
  if (const Node* node = plan.find("micro_batch_size"); node && node->kind != Node::Kind::null)
    micro_batch = whole_number(*node, "plan.micro_batch_size", 1, kMostLoopSamples);
  const auto set = [&plan](const char* key, std::int64_t value) {
    const Node* node = plan.find(key);
    set_field(plan, key, Node::scalar_node(fmt::format("{}", value), node ? node->place : plan.place));
  };
  if (choice.stack.dynamic_batches) {
    pack.most_tokens = static_cast<double>(micro_batch * seq_length);
    pack.sequences = 1;
    pack.tokens = std::llround(std::ceil(pack.sample_tokens / kTokenUnit)) * kTokenUnit;
    micro_batch = 1;
  }
  set("seq_length", pack.tokens);
  set("micro_batch_size", micro_batch * pack.sequences);
  choice.packs = pack;
}

/// Changes the document to that of the training half, which the choice keeps.
void take_training_half(PostTrainingChoice& choice, Node& document, Fields& section) {
  take_nodes(choice, document, section);
  take_packs(choice, document, section);
  choice.training_document = document;
  std::erase_if(choice.training_document.fields, [](const auto& field) {
    return field.first == "post_training" || field.first == "learn" || field.first == "faults";
  });
}

}  // namespace

std::int64_t SamplePacks::count(std::int64_t samples, std::int64_t unit) const {
  const double sequences_needed = static_cast<double>(samples) * sample_tokens / static_cast<double>(tokens);
  return std::max<std::int64_t>(1, std::llround(std::ceil(sequences_needed / static_cast<double>(unit)))) * unit;
}

SamplePacks::Batches SamplePacks::divided(std::int64_t samples, int ranks, double most) const {
  const std::int64_t rank = (samples + ranks - 1) / ranks;
  const std::int64_t largest = std::max<std::int64_t>(1, static_cast<std::int64_t>(most) / tokens);
  const std::int64_t batches = (rank + largest - 1) / largest, micro = (rank + batches - 1) / batches;
  return {micro, (rank + micro - 1) / micro * micro * ranks};
}

double PostTrainingChoice::most_tokens_read() const { return prompt_tokens + tools.calls * tools.tokens; }

double PostTrainingChoice::read_tokens(std::size_t sample) const {
  const double most_calls = std::max(1.0, answers[sample]) - 1;
  return prompt_tokens + tools.tokens * std::min<double>(tools.calls, most_calls);
}

Sources PostTrainingChoice::sources() const {
  Sources all = engine.sources;
  all.insert(all.end(), stack.sources.begin(), stack.sources.end());
  for (const WeightTransfer& transfer : transfers)
    all.insert(all.end(), transfer.sources.begin(), transfer.sources.end());
  return all;
}

std::shared_ptr<PostTrainingChoice> take_post_training(Node& document, const Catalog& catalog,
                                                       const PostTrainingChoice* read_before) {
  const Node* found = document.find("post_training");
  if (!found || found->kind == Node::Kind::null) return nullptr;
  const Node node = *found;
  Fields section(node, "post_training");
  if (read_before) {
    auto choice = std::make_shared<PostTrainingChoice>(*read_before);
    take_training_half(*choice, document, section);
    return choice;
  }
  auto choice = std::make_shared<PostTrainingChoice>();
  choice->place = node.place;
  choice->algorithm = read_algorithm(section);
  choice->experts = experts_of(document, catalog);
  const bool has_rollouts = choice->algorithm.has_rollouts;
  std::vector<std::string> needed{"answer_tokens", "prompts", "prompt_tokens"};
  if (has_rollouts) needed.emplace_back("generation");
  section.require_all(needed);
  const Node* stack =
      section.child_unless_null({"stack",
                                 "Software of the loop: a name, for example nemo-rl (trainyard list rl-stacks), or "
                                 "a map of its figures. Default: nemo-rl."});
  choice->stack = read_rl_stack(catalog.resolve("rl-stack", stack ? *stack : Node::scalar_node("nemo-rl", node.place)));
  choice->prompts = section.integer_within<std::int64_t>({"prompts", "Number of prompts of a step, for example 64."}, 1,
                                                         kMostLoopSamples);
  choice->samples_per_prompt = section.integer_within<std::int64_t>(
      {"samples_per_prompt", "Number of answers to each prompt, for example 16, which share its keys and values."}, 1,
      kMostLoopSamples, choice->algorithm.pair);
  if (choice->algorithm.pair > 1 && choice->samples_per_prompt != choice->algorithm.pair)
    section.refuse("samples_per_prompt", fmt::format("{}, but dpo trains on a chosen and a rejected answer; expected 2",
                                                     choice->samples_per_prompt));
  if (choice->samples() > kMostLoopSamples)
    section.refuse("prompts", fmt::format("{} samples a step; at most {}", choice->samples(), kMostLoopSamples));
  choice->prompt_tokens = static_cast<double>(section.integer_within<std::int64_t>(
      {"prompt_tokens", "Number of tokens of a prompt, for example 256."}, 1, kMostLoopTokens));
  choice->lengths = read_answer_lengths(section, choice->section_key);
  choice->started_prompts = section.integer_within<std::int64_t>(
      {"started_prompts",
       "Number of prompts that are answered, for example 20, until `prompts` of them have all their answers; the other "
       "answers are lost. Default: prompts, so that no answer is lost."},
      choice->prompts, kMostLoopSamples, choice->prompts);
  if (choice->started_samples() > kMostLoopSamples)
    section.refuse("started_prompts",
                   fmt::format("{} samples are started; at most {}", choice->started_samples(), kMostLoopSamples));
  choice->sampling = read_sampling(section, choice->prompts, choice->lengths.seed + 2);
  if (choice->sampling.is_given()) {
    if (choice->started_prompts > choice->prompts)
      section.refuse("started_prompts", "dynamic_sampling says how many prompts are started; leave one of them out");
    choice->started_prompts = choice->sampling.rounds * choice->sampling.round_prompts;
    if (choice->started_samples() > kMostLoopSamples)
      section.refuse("dynamic_sampling",
                     fmt::format("{} samples are started; at most {}; expected a larger share that is useful",
                                 choice->started_samples(), kMostLoopSamples));
  }
  const auto started = static_cast<std::size_t>(choice->started_samples());
  choice->answers = choice->lengths.draw(started);
  choice->tools = read_tools(section);
  choice->calls = choice->tools.draw(started, choice->lengths.seed + 1);
  choice->critic = read_loop_model(section,
                                   {"critic",
                                    "Model of values that is trained beside the policy, as PPO needs it: {model: "
                                    "llama-3-8b}, or {} for the policy's network. Default: none."},
                                   true);
  choice->reward = read_loop_model(section, {"reward",
                                             "Model that rewards all samples in a forward pass on the GPUs that train: "
                                             "{model: llama-3-8b}. Default: none; loop then has the time of rewards."});
  if (has_rollouts) read_generation(*choice, section, catalog);
  const std::vector<std::string> schedules{"synchronous", "one-step-off", "asynchronous"};
  const std::string schedule =
      section.choice({"schedule",
                      "Order of generation and training: synchronous (training waits for its samples), one-step-off "
                      "(it takes those of the step before, while the next ones are generated) or asynchronous (engines "
                      "never wait for the end of a step, within `staleness`)."},
                     schedules, "synchronous");
  choice->one_step_off = schedule == "one-step-off";
  choice->asynchrony = read_asynchrony(section, schedule == "asynchronous", choice->prompts);
  if (schedule != "synchronous" && choice->is_hybrid)
    section.refuse("schedule",
                   "with generation.hybrid the GPUs that train generate before, and not beside; expected "
                   "synchronous, or hybrid: false with generation.nodes");
  if (schedule != "synchronous" && !choice->has_own_nodes())
    section.refuse(
        "schedule",
        schedule + " needs GPUs that only generate; expected post_training.generation.nodes, or schedule: synchronous");
  if (choice->asynchrony && choice->sampling.is_given())
    section.refuse("dynamic_sampling", "not modelled with asynchronous engines; expected another schedule");
  if (choice->asynchrony && choice->started_prompts > choice->prompts)
    section.refuse("started_prompts",
                   fmt::format("asynchronous engines end all answers that they start; expected {}, or another schedule",
                               choice->prompts));
  choice->transfers = read_transfers(section, catalog, choice->stack, choice->has_own_nodes(), choice->shares_gpus());
  if (const Node* store = section.child_unless_null(
          {"weights_storage",
           "Shared storage through which new weights go to the engines: a name, for example lustre-fsx-200 (trainyard "
           "list storages), or a map. The GPUs that train write them, and each node that generates reads them. "
           "Default: none; the library of `weights` sends them."})) {
    if (section.has("weights"))
      section.refuse("weights", "weights_storage carries the new weights; leave one of them out");
    choice->weight_store = read_storage(catalog.resolve("storage", *store));
    choice->weight_store_place = store->place;
    if (choice->weight_store->lanes > 0)
      fail(store->place, fmt::format("post_training.weights_storage: {} is a drive of one node; expected a storage "
                                     "that nodes share, such as lustre-fsx-200",
                                     choice->weight_store->name));
  }
  read_log_probabilities(*choice, section);
  take_training_half(*choice, document, section);
  choice->length = read_loop_length(section);
  section.finish();
  return choice;
}

std::shared_ptr<PostTrainingChoice> take_generation(const Node& document, const Catalog& catalog) {
  const Node* found = document.find("generation");
  if (!found || found->kind == Node::Kind::null) return nullptr;
  auto choice = std::make_shared<PostTrainingChoice>();
  choice->place = found->place;
  choice->section_key = choice->engine_key = "generation";
  choice->experts = experts_of(document, catalog);
  Fields section(*found, "generation");
  section.require_all({"answer_tokens", "prompt_tokens", "requests"});
  choice->prompts = section.integer_within<std::int64_t>(
      {"requests", "Number of prompts that the engines answer, for example 512."}, 1, kMostLoopSamples);
  choice->started_prompts = choice->prompts;
  choice->concurrency = section.integer_within<std::int64_t>(
      {"concurrency",
       "Number of prompts that wait or are answered at a time, on all engines, for example 64; each answer that ends "
       "brings the next prompt. 0: all prompts come at once."},
      0, kMostLoopSamples, 0);
  choice->concurrency_place = section.place_of("concurrency");
  choice->prompt_tokens = static_cast<double>(section.integer_within<std::int64_t>(
      {"prompt_tokens", "Number of tokens of a prompt, for example 256."}, 1, kMostLoopTokens));
  choice->lengths = read_answer_lengths(section, choice->section_key);
  choice->answers = choice->lengths.draw(static_cast<std::size_t>(choice->prompts));
  read_engines(*choice, section, catalog);
  section.finish();
  return choice;
}

}  // namespace trainyard
