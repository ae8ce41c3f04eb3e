#include "scenarios/src/reading/read_post_training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/reading/nearest.hpp"
#include "strategies/collectives/library_model.hpp"

namespace trainyard {
namespace {

constexpr std::int64_t kMostLoopSamples = 1 << 20, kMostLoopTokens = 1 << 24;
constexpr std::int64_t kTokenUnit = 64;  ///< sequences of packs have a multiple of this number of tokens
constexpr double kMostLengthVariation = 10;

/// Reads `answer_tokens: {mean, variation, most}` or `{values, most}`.
AnswerLengths read_answer_lengths(Fields& section) {
  AnswerLengths lengths;
  Fields fields(
      section.required_child(
          {"answer_tokens",
           "Tokens of the generated answers: {mean, variation, most} of a lognormal distribution that is cut at most, "
           "for example {mean: 1200, variation: 0.5, most: 2048}, or a list, {values: [300, 800], most: 2048}."}),
      "post_training.answer_tokens");
  lengths.most = fields.integer_within<std::int64_t>(
      {"most", "Largest number of tokens of an answer, at which the engine stops, for example 2048."}, 1,
      kMostLoopTokens);
  if (const std::vector<Node>* values =
          fields.list({"values",
                       "Lengths of answers in tokens, from which those of a step are drawn, for example [300, 800, "
                       "2000]. Default: lengths are lognormal."})) {
    for (const char* key : {"mean", "variation"}) fields.require_condition(key, false, "without values");
    for (const Node& value : *values)
      lengths.values.push_back(
          static_cast<double>(whole_number(value, "post_training.answer_tokens.values", 1, kMostLoopTokens)));
    lengths.mean =
        std::accumulate(lengths.values.begin(), lengths.values.end(), 0.0) / static_cast<double>(lengths.values.size());
  } else {
    lengths.mean = fields.number(
        {"mean", "Mean number of tokens of an answer, after long answers are cut, for example 1200.", "without values"},
        1, static_cast<double>(lengths.most));
    lengths.variation = fields.number({"variation",
                                       "Standard deviation of the lengths over their mean, before the cut, for example "
                                       "0.5; 0: all answers are alike."},
                                      0, kMostLengthVariation, 0.3);
    if (lengths.variation > 0 && lengths.mean > 0.999 * static_cast<double>(lengths.most))
      fields.refuse("mean", fmt::format("{} is the mean after the cut at {}, which leaves no room for shorter answers; "
                                        "expected at most {:.0f}, or variation: 0",
                                        lengths.mean, lengths.most, 0.999 * static_cast<double>(lengths.most)));
  }
  fields.finish();
  lengths.seed = static_cast<std::uint64_t>(section.integer_within<std::int64_t>(
      {"seed", "Seed of the random lengths of answers, for example 2."}, 0, std::int64_t{1} << 40, 1));
  return lengths;
}

/// Reads `generation`: the engines.
void read_generation(PostTrainingChoice& choice, Fields& section, const Catalog& catalog) {
  Fields fields(
      section.required_child(
          {"generation", "Engines that generate the answers, for example {engine: vllm, tensor_parallel: 4}."}),
      "post_training.generation");
  const Node* engine = fields.child(
      {"engine",
       "Inference engine: a name, for example vllm (trainyard list engines), or a map of its figures. Default: vllm."});
  choice.engine = read_engine(catalog.resolve("engine", engine ? *engine : Node::scalar_node("vllm", fields.place())));
  choice.layout.tensor = fields.integer_within<int>(
      {"tensor_parallel", "Number of GPUs of an engine, for example 4, which split the model."}, 1, 1 << 16, 1);
  choice.tensor_place = fields.place_of("tensor_parallel");
  const std::vector<std::string> precisions{"bf16", "fp8"};
  choice.layout.fp8 = fields.choice({"precision", "Number format of the products of linear layers in the engines."},
                                    precisions, "bf16") == "fp8";
  choice.precision_place = fields.place_of("precision");
  choice.layout.fp8_cache =
      fields.choice({"cache", "Number format of the cache of keys and values."}, precisions, "bf16") == "fp8";
  choice.layout.memory_share = fields.number(
      {"memory_share", "Share of each GPU's memory that an engine takes, for example 0.6. Default: the engine's own."},
      0.01, 1, choice.engine.memory_share);
  if (fields.has({"nodes",
                  "Number of nodes of the cluster that only generate, for example 1; the others train. Default: all "
                  "nodes do both, one after the other."})) {
    choice.nodes = fields.integer_within<int>("nodes", 1, 1 << 20);
    choice.has_own_nodes = true;
  }
  fields.finish();
}

void read_log_probabilities(PostTrainingChoice& choice, Fields& section) {
  const Node* node = section.child_unless_null(
      {"log_probabilities",
       "Forward passes over all samples before the training, such as those of the reference, for example {passes: 2, "
       "micro_batch_size: 4}. Default: {passes: 2, micro_batch_size: 1}."});
  const Node none = Node::empty_map(choice.place);
  Fields fields(node ? *node : none, "post_training.log_probabilities");
  choice.log_probability_passes = fields.integer_within<int>(
      {"passes", "Number of passes: 1 for the policy, 2 with a reference, 0 for none; for example 1."}, 0, 16, 2);
  choice.log_probability_micro_batch = fields.integer_within<std::int64_t>(
      {"micro_batch_size", "Number of samples (or packs) in one forward pass of a rank, for example 4."}, 1, 1 << 20,
      1);
  fields.finish();
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
    if (choice.has_own_nodes)
      fail(section.place_of("generation"),
           "post_training.generation.nodes: expected cluster.nodes to be a number of nodes of one type");
    return;
  }
  choice.machine_nodes = static_cast<int>(whole_number(*nodes, "cluster.nodes", 1, 1 << 20));
  if (!choice.has_own_nodes) return;
  if (choice.nodes >= choice.machine_nodes)
    fail(section.place_of("generation"),
         fmt::format("post_training.generation.nodes: {} of {} nodes generate, and none is left to train; {}",
                     choice.nodes, choice.machine_nodes,
                     choice.machine_nodes > 1 ? fmt::format("expected at most {}", choice.machine_nodes - 1)
                                              : "expected cluster.nodes: 2 or more, or no generation.nodes"));
  nodes->scalar = fmt::format("{}", choice.machine_nodes - choice.nodes);
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
  const double longest = choice.prompt_tokens + static_cast<double>(choice.lengths.most);
  if (longest > static_cast<double>(seq_length))
    fail(length->place,
         fmt::format("plan.seq_length: {}, but a prompt of {} and an answer of {} tokens are {}; expected "
                     "at least that, or post_training.answer_tokens.most: {:.0f}",
                     seq_length, choice.prompt_tokens, choice.lengths.most, longest,
                     static_cast<double>(seq_length) - choice.prompt_tokens));
  if (!packs) return;
  SamplePacks pack;
  pack.sample_tokens = choice.prompt_tokens + std::accumulate(choice.answers.begin(), choice.answers.end(), 0.0) /
                                                  static_cast<double>(choice.answers.size());
  const double filled = choice.stack.pack_fill * static_cast<double>(seq_length);
  pack.sequences = std::max<std::int64_t>(1, std::llround(filled / pack.sample_tokens));
  // Tensor and context ranks split the tokens of a sequence evenly.
  const std::int64_t tokens = std::llround(filled / static_cast<double>(pack.sequences));
  pack.tokens = tokens < kTokenUnit ? std::max<std::int64_t>(1, tokens) : tokens / kTokenUnit * kTokenUnit;
  Node& plan = *document.find("plan");
  std::int64_t micro_batch = 1;
  if (const Node* node = stated_scalar(document, "plan", "micro_batch_size"))
    micro_batch = whole_number(*node, "plan.micro_batch_size", 1, kMostLoopSamples);
  const auto set = [&plan](const char* key, std::int64_t value) {
    const Node* node = plan.find(key);
    set_field(plan, key, Node::scalar_node(fmt::format("{}", value), node ? node->place : plan.place));
  };
  set("seq_length", pack.tokens);
  set("micro_batch_size", micro_batch * pack.sequences);
  choice.packs = pack;
}

}  // namespace

std::int64_t SamplePacks::count(std::int64_t samples, std::int64_t unit) const {
  const double sequences_needed = static_cast<double>(samples) * sample_tokens / static_cast<double>(tokens);
  return std::max<std::int64_t>(1, std::llround(std::ceil(sequences_needed / static_cast<double>(unit)))) * unit;
}

Sources PostTrainingChoice::sources() const {
  Sources all = engine.sources;
  for (const Sources* part : {&stack.sources, &transfer.sources}) all.insert(all.end(), part->begin(), part->end());
  return all;
}

std::shared_ptr<PostTrainingChoice> take_post_training(Node& document, const Catalog& catalog) {
  const Node* found = document.find("post_training");
  if (!found || found->kind == Node::Kind::null) return nullptr;
  const Node node = *found;
  auto choice = std::make_shared<PostTrainingChoice>();
  choice->place = node.place;
  Fields section(node, "post_training");
  section.require_all({"answer_tokens", "generation", "prompts", "prompt_tokens"});
  const Node* stack = section.child({"stack",
                                     "Software of the loop: a name, for example nemo-rl (trainyard list rl-stacks), or "
                                     "a map of its figures. Default: nemo-rl."});
  choice->stack = read_rl_stack(catalog.resolve("rl-stack", stack ? *stack : Node::scalar_node("nemo-rl", node.place)));
  choice->prompts = section.integer_within<std::int64_t>({"prompts", "Number of prompts of a step, for example 64."}, 1,
                                                         kMostLoopSamples);
  choice->samples_per_prompt = section.integer_within<std::int64_t>(
      {"samples_per_prompt", "Number of answers to each prompt, for example 16, which share its keys and values."}, 1,
      kMostLoopSamples, 1);
  if (choice->samples() > kMostLoopSamples)
    section.refuse("prompts", fmt::format("{} samples a step; at most {}", choice->samples(), kMostLoopSamples));
  choice->prompt_tokens = static_cast<double>(section.integer_within<std::int64_t>(
      {"prompt_tokens", "Number of tokens of a prompt, for example 256."}, 1, kMostLoopTokens));
  choice->lengths = read_answer_lengths(section);
  choice->answers = choice->lengths.draw(static_cast<std::size_t>(choice->samples()));
  read_generation(*choice, section, catalog);
  const std::vector<std::string> schedules{"synchronous", "one-step-off"};
  choice->one_step_off =
      section.choice({"schedule",
                      "Order of generation and training: synchronous (training waits for its samples) or one-step-off "
                      "(it takes those of the step before, while the next ones are generated)."},
                     schedules, "synchronous") == "one-step-off";
  if (choice->one_step_off && !choice->has_own_nodes)
    section.refuse("schedule",
                   "one-step-off needs GPUs that only generate; expected post_training.generation.nodes, or "
                   "schedule: synchronous");
  const Node* transfer =
      section.child({"weights",
                     "Transfer of new weights to the engines: a name, for example nemo-rl-colocated (trainyard list "
                     "weight-transfers), or a map such as {rate: 40 GB/s}. Default: that of the stack."});
  const std::string& named = choice->has_own_nodes ? choice->stack.apart_transfer : choice->stack.colocated_transfer;
  choice->transfer = read_weight_transfer(
      catalog.resolve("weight-transfer", transfer ? *transfer : Node::scalar_node(named, node.place)));
  read_log_probabilities(*choice, section);
  take_nodes(*choice, document, section);
  take_packs(*choice, document, section);
  section.finish();
  choice->training_document = document;
  std::erase_if(choice->training_document.fields, [](const auto& field) { return field.first == "post_training"; });
  return choice;
}

void place_engines(PostTrainingChoice& choice, const ClusterSpec& training) {
  if (!training.others.empty())
    fail(choice.place, "post_training: expected nodes of one type; engines on different nodes are not modelled");
  choice.generators = training;
  if (choice.has_own_nodes) choice.generators.nodes = choice.nodes;
  const int gpus = choice.generators.gpus(), node = training.node.gpus, tensor = choice.layout.tensor;
  const bool fits = tensor <= gpus && gpus % tensor == 0 && (tensor <= node ? node % tensor == 0 : tensor % node == 0);
  if (!fits) {
    int nearest_fit = 1;
    for (int t = 1; t <= std::min(gpus, tensor); ++t)
      if (gpus % t == 0 && (t <= node ? node % t == 0 : t % node == 0)) nearest_fit = t;
    fail(choice.tensor_place,
         fmt::format("post_training.generation.tensor_parallel: {} GPUs an engine do not divide {} "
                     "GPUs in nodes of {}; nearest: {}",
                     tensor, gpus, node, nearest_fit));
  }
  const Gpu& gpu = training.node.gpu;
  if ((choice.layout.fp8) && gpu.peak[static_cast<std::size_t>(Precision::fp8)].value == 0)
    fail(choice.precision_place,
         fmt::format("post_training.generation.precision: {} has no fp8; expected bf16", gpu.name));
}

void take_training_samples(PostTrainingChoice& choice, std::int64_t samples, const Place& place) {
  if (choice.samples() % samples != 0)
    fail(place,
         fmt::format("plan.global_batch_size: {} samples do not divide the {} of a step (post_training.prompts x "
                     "samples_per_prompt); nearest: {}",
                     samples, choice.samples(), nearest_divisors(choice.samples(), samples)));
  choice.training_samples = samples;
}

DecodeCosts generation_costs(const PostTrainingChoice& choice, const NetworkEntry& model) {
  const ClusterSpec& cluster = choice.generators;
  const Gpu& gpu = cluster.node.gpu;
  const int tensor = choice.layout.tensor;
  DecodeCosts::AllReduce all_reduce = [](Bytes) { return Seconds{}; };
  if (tensor > 1 && tensor <= cluster.node.gpus && gpu.nvlink.value > 0) {
    const EngineKernels kernels = choice.engine.kernels_on(gpu);
    all_reduce = [=](Bytes bytes) {
      return kernels.all_reduce_start + kernels.all_reduce_per_gpu * tensor +
             2.0 * (tensor - 1) / tensor * bytes / (kernels.all_reduce_link_share * gpu.nvlink);
    };
  } else if (tensor > 1) {
    const NodeSpread spread{tensor, std::max(1, tensor / cluster.node.gpus), std::min(tensor, cluster.node.gpus)};
    all_reduce = [spread, model_of_library = library_model(cluster).model](Bytes bytes) {
      const ModelledCost cost = model_of_library->cost(Operation::all_reduce, bytes, spread);
      return cost.latency + (cost.rate.value > 0 ? cost.wire / cost.rate : Seconds{});
    };
  }
  DecodeCosts costs(model, choice.engine, gpu, choice.layout, std::move(all_reduce));
  const Bytes longest =
      costs.cache(choice.prompt_tokens + static_cast<double>(choice.lengths.most + choice.engine.reserved_tokens));
  if (costs.room() < longest) {
    const Bytes taken = choice.layout.memory_share * gpu.usable_memory();
    fail(choice.tensor_place,
         fmt::format(
             "post_training.generation: weights of {} and other memory of {} leave {} of an engine's {} a GPU for the "
             "cache, but the longest answer needs {}; expected a larger tensor_parallel or memory_share",
             show(costs.weights()), show(choice.engine.reserved_memory), show(Bytes{std::max(0.0, costs.room().value)}),
             show(taken), show(longest)));
  }
  return costs;
}

}  // namespace trainyard
