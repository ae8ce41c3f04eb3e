#include "scenarios/src/reading/post_training_parts.hpp"

#include <fmt/format.h>

#include <numeric>
#include <random>

#include "models/reading/nearest.hpp"
#include "sim/hashing.hpp"

namespace trainyard {
namespace {

constexpr double kMostStaleness = 16, kMostWaitVariation = 10, kMostLengthVariation = 10;
constexpr int kMostCalls = 1000, kMostDraftTokens = 64, kMostRounds = 1000;

}  // namespace

std::vector<std::vector<Seconds>> ToolChoice::draw(std::size_t answers, std::uint64_t seed) const {
  if (calls == 0 || (wait.value == 0 && tokens == 0)) return {};
  const auto calls_per_answer = static_cast<std::size_t>(calls);
  const std::vector<double> waits = draw_lognormal(answers * calls_per_answer, wait.value, variation, seed);
  std::vector<std::vector<Seconds>> all(answers);
  for (std::size_t i = 0; i < waits.size(); ++i) all[i / calls_per_answer].push_back(Seconds{waits[i]});
  return all;
}

AnswerLengths read_answer_lengths(Fields& section, const std::string& path) {
  AnswerLengths lengths;
  Fields fields(
      section.required_child(
          {"answer_tokens",
           "Tokens of the generated answers: {mean, variation, most} of a lognormal distribution that is cut at most, "
           "for example {mean: 1200, variation: 0.5, most: 2048}, or a list, {values: [300, 800], most: 2048}."}),
      path + ".answer_tokens");
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
          static_cast<double>(whole_number(value, path + ".answer_tokens.values", 1, kMostLoopTokens)));
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

LoopAlgorithm read_algorithm(Fields& section) {
  LoopAlgorithm choice;
  const bool has_critic = section.has("critic");
  const Node* stated = section.child({"algorithm",
                                      "Algorithm of the loop: grpo, dapo (without a reference), rloo, ppo (with a "
                                      "critic), or one without rollouts: dpo (pairs of a chosen and a rejected answer) "
                                      "or distillation (from a teacher). Default: grpo, or ppo with a critic."});
  if (stated && stated->kind == Node::Kind::scalar && stated->scalar == "sft")
    section.refuse("algorithm", "sft is ordinary training on answers that exist; leave post_training out");
  choice.name =
      section.choice("algorithm", {"grpo", "dapo", "rloo", "ppo", "dpo", "distillation"}, has_critic ? "ppo" : "grpo");
  const bool is_dpo = choice.name == "dpo", distills = choice.name == "distillation";
  choice.has_rollouts = !(is_dpo || distills);
  for (const char* key :
       {"generation", "schedule", "staleness", "order", "partial_rollouts", "training_parts", "started_prompts",
        "tools", "critic", "reward", "weights", "dynamic_sampling", "overlong_filtering", "weights_storage"})
    section.require_condition(
        key, choice.has_rollouts,
        fmt::format("{} generates no answers; with algorithm grpo, dapo, rloo or ppo", choice.name));
  section.require_condition("critic", choice.name == "ppo", "with algorithm: ppo");
  if (choice.name == "ppo" && !has_critic)
    section.refuse("algorithm", "ppo has a critic; expected post_training.critic, such as {}, or algorithm: grpo");
  const std::string reference = section.choice(
      {"reference",
       "When the reference of dpo computes its log-probabilities: each-step (all samples of a step), precomputed "
       "(before the training) or none (a loss without a reference). Only with algorithm: dpo."},
      {"each-step", "precomputed", "none"}, "each-step");
  section.require_condition("reference", is_dpo, "with algorithm: dpo");
  std::optional<LoopModel> teacher =
      read_loop_model(section, {"teacher",
                                "Model whose outputs the policy learns, in a forward pass over all samples: {model: "
                                "llama-3-70b}. Only with algorithm: distillation, which needs it. Default: none."});
  section.require_condition("teacher", distills, "with algorithm: distillation");
  if (distills && (!teacher || teacher->model.kind == Node::Kind::null))
    section.refuse("algorithm",
                   "distillation has a teacher; expected post_training.teacher, such as {model: llama-3-70b}");
  if (is_dpo && reference != "none") choice.frozen = LoopModel{{}, 0, section.place()};
  if (distills) choice.frozen = std::move(teacher);
  choice.precomputed = reference == "precomputed";
  choice.passes = !choice.has_rollouts ? 0 : choice.name == "dapo" ? 1 : 2;
  choice.pair = is_dpo ? 2 : 1;
  return choice;
}

std::optional<AsynchronyChoice> read_asynchrony(Fields& section, bool asynchronous, std::int64_t prompts) {
  AsynchronyChoice choice;
  choice.staleness = section.number({"staleness",
                                     "Steps of answers that engines may start beyond those of the present policy, for "
                                     "example 0.5. Only with schedule: asynchronous."},
                                    0, kMostStaleness, 1);
  choice.by_start =
      section.choice({"order",
                      "Order in which training takes the answers to a prompt: ended (as they end) or started (as they "
                      "start, which bounds the staleness of each). Only with schedule: asynchronous."},
                     {"ended", "started"}, "ended") == "started";
  choice.partial_rollouts =
      section.boolean({"partial_rollouts",
                       "Whether new weights interrupt answers, whose keys and values are computed again; else engines "
                       "end them first. Only with schedule: asynchronous."},
                      true);
  choice.parts =
      section.integer_within<std::int64_t>({"training_parts",
                                            "Equal parts of a step's prompts, for example 4; training takes each part "
                                            "as soon as its answers have ended. Only with schedule: asynchronous."},
                                           1, prompts, 1);
  if (prompts % choice.parts != 0)
    section.refuse("training_parts", fmt::format("{} parts do not divide {} prompts; nearest: {}", choice.parts,
                                                 prompts, nearest_divisors(prompts, choice.parts)));
  for (const char* key : {"staleness", "order", "partial_rollouts", "training_parts"})
    section.require_condition(key, asynchronous, "with post_training.schedule: asynchronous");
  if (!asynchronous) return {};
  return choice;
}

TrainingLength read_loop_length(Fields& section) {
  TrainingLength length;
  const Node* node = section.child_unless_null(
      {"length",
       "Length of the whole loop with its failures, for example {steps: 1000} or {time: 5 d}. Default: one step."});
  if (!node) return length;
  Fields fields(*node, "post_training.length");
  const bool steps = fields.has({"steps", "Number of steps of the loop, for example 1000."});
  if (steps == fields.has({"time", "Time of the loop with its failures, for example 5 d."}))
    fail(node->place, "post_training.length: expected one of steps and time");
  constexpr std::int64_t most = 1'000'000'000;
  if (steps)
    length.steps = static_cast<double>(fields.integer_within<std::int64_t>("steps", 1, most));
  else if (length.time = fields.seconds("time"); length.time.value <= 0)
    fields.refuse("time", "more than 0 expected");
  fields.finish();
  return length;
}

std::vector<WeightTransfer> read_transfers(Fields& section, const Catalog& catalog, const RlStack& stack, bool apart,
                                           bool shared) {
  const Node* stated = section.child_unless_null(
      {"weights",
       "Transfer of new weights to the engines: a name, for example nemo-rl-colocated (trainyard list "
       "weight-transfers), or a map such as {rate: 40 GB/s}. Default: that of the stack."});
  std::vector<Node> entries;
  const auto add = [&](const std::string& name) { entries.push_back(Node::scalar_node(name, section.place())); };
  if (stated) entries.push_back(*stated);
  if (!stated && apart) add(stack.apart_transfer);
  if (!stated && shared && (!apart || stack.colocated_transfer != stack.apart_transfer)) add(stack.colocated_transfer);
  std::vector<WeightTransfer> transfers;
  for (const Node& entry : entries)
    transfers.push_back(read_weight_transfer(catalog.resolve("weight-transfer", entry)));
  if (stated && apart && transfers.front().within_gpus)
    section.refuse("weights",
                   fmt::format("{} works among the workers of each GPU, and generation.nodes have others; nearest: {}",
                               transfers.front().name, stack.apart_transfer));
  return transfers;
}

ToolChoice read_tools(Fields& section) {
  ToolChoice choice;
  const Node* node = section.child_unless_null(
      {"tools", "Calls of tools or of an environment during an answer: {calls: 2, wait: 3 s}. Default: none."});
  if (!node) return choice;
  Fields fields(*node, "post_training.tools");
  choice.place = node->place;
  choice.calls = fields.integer_within<int>(
      {"calls", "Number of calls during an answer, which divide it into equal parts, for example 2."}, 0, kMostCalls);
  choice.wait = fields.seconds({"wait", "Mean time of a call, during which the answer waits, for example 3 s."});
  choice.variation = fields.number(
      {"variation",
       "Standard deviation of the times of calls over their mean, for example 0.5; 0: all calls are alike."},
      0, kMostWaitVariation, 0);
  choice.tokens = static_cast<double>(fields.integer_within<std::int64_t>(
      {"tokens", "Tokens of the result of a call, which the engine reads, for example 200."}, 0, kMostLoopTokens, 0));
  if (fields.has({"sandboxes", "Most calls at once, which the engines share, for example 256. Default: no limit."}))
    choice.sandboxes = fields.integer_within<int>("sandboxes", 1, 1 << 24);
  choice.cores = fields.integer_within<int>(
      {"cores",
       "Cores that a sandbox takes on the CPUs of the nodes that generate, for example 2: as many calls run at once as "
       "their cores hold, and take the longer, the slower these are (wait is that of thread_speed 1). Default: calls "
       "run "
       "elsewhere."},
      0, 4096, 0);
  fields.finish();
  return choice;
}

SamplingChoice read_sampling(Fields& section, std::int64_t prompts, std::uint64_t seed) {
  SamplingChoice choice;
  choice.masks_cut_answers = section.boolean({"overlong_filtering",
                                              "Whether answers that are cut at answer_tokens.most are trained without "
                                              "a loss, as in DAPO; the answer of the simulator counts them."},
                                             false);
  const Node* node =
      section.child_unless_null({"dynamic_sampling",
                                 "Rounds of prompts until a step has its prompts, whose answers differ in reward "
                                 "(DAPO): {useful: 0.4}. The others are thrown away. Default: none."});
  if (!node) return choice;
  Fields fields(*node, "post_training.dynamic_sampling");
  choice.useful_share = fields.number(
      {"useful", "Probability that the answers to a prompt differ in reward, so that it is trained, for example 0.4."},
      0.001, 1);
  choice.round_prompts = fields.integer_within<std::int64_t>(
      {"prompts", "Prompts of a round, for example 64. Default: those of a step."}, 1, kMostLoopSamples, prompts);
  choice.most_rounds = fields.integer_within<int>(
      {"most_rounds", "Most rounds of a step, for example 10; a step that needs more is refused."}, 1, kMostRounds,
      kMostRounds);
  fields.finish();
  std::mt19937_64 random(seed);
  std::int64_t useful = 0;
  // More prompts than a loop may have are refused, so that no more need be drawn.
  const auto most_drawn = static_cast<std::size_t>(kMostLoopSamples);
  for (choice.rounds = 0; useful < prompts && choice.rounds < kMostRounds && choice.useful.size() <= most_drawn;
       ++choice.rounds)
    for (std::int64_t i = 0; i < choice.round_prompts; ++i) {
      choice.useful.push_back(uniform_number(random()) < choice.useful_share);
      useful += choice.useful.back() ? 1 : 0;
    }
  if (useful < prompts)
    fields.refuse("useful", fmt::format("{} rounds of {} prompts have only {} of {} prompts whose answers differ in "
                                        "reward; expected a larger share, or more prompts a round",
                                        choice.rounds, choice.round_prompts, useful, prompts));
  if (choice.rounds > choice.most_rounds)
    fields.refuse("most_rounds",
                  fmt::format("a step takes {} rounds until {} prompts have answers that differ in reward; nearest: {}",
                              choice.rounds, prompts, choice.rounds));
  return choice;
}

void read_engine_degrees(EngineLayout& layout, Fields& fields) {
  layout.tensor = fields.integer_within<int>(
      {"tensor_parallel", "Number of GPUs that split the layers of an engine, for example 4."}, 1, 1 << 16, 1);
  const bool has_data = fields.has(
      {"data_parallel",
       "Number of copies of all layers but the experts in an engine, for example 2, each with its own sequences; the "
       "experts are spread over all GPUs of the engine. Default: expert_parallel / tensor_parallel, at least 1."});
  constexpr int most_gpus = 1 << 16;
  if (has_data) layout.data = fields.integer_within<int>("data_parallel", 1, most_gpus / layout.tensor);
  layout.expert = fields.integer_within<int>(
      {"expert_parallel",
       "Number of parts of the experts of an engine, for example 8. More than tensor_parallel: one for each GPU "
       "(vLLM's --enable-expert-parallel); else the GPUs of a part split its experts (SGLang's --ep-size). 1: experts "
       "are split as other layers. Default: 1, or all GPUs with data_parallel."},
      1, 1 << 16, layout.data > 1 ? layout.gpus() : 1);
  if (!has_data && layout.expert > layout.tensor) {
    if (layout.expert % layout.tensor != 0)
      fields.refuse("expert_parallel",
                    fmt::format("{} parts are no multiple of the {} GPUs of tensor_parallel; nearest: {}",
                                layout.expert, layout.tensor, nearest_multiples(layout.tensor, layout.expert)));
    layout.data = layout.expert / layout.tensor;
  }
  if (layout.data > 1 && layout.expert != layout.gpus())
    fields.refuse(
        "expert_parallel",
        fmt::format("{} parts, but an engine of {} copies of {} GPUs spreads its experts over all of them; nearest: {}",
                    layout.expert, layout.data, layout.tensor, layout.gpus()));
  if (layout.data == 1 && layout.tensor % layout.expert != 0)
    fields.refuse("expert_parallel",
                  fmt::format("{} parts do not divide the {} GPUs of tensor_parallel; nearest: {}", layout.expert,
                              layout.tensor, nearest_divisors(layout.tensor, layout.expert)));
}

void read_scheduler(Engine& engine, Fields& fields) {
  fields.read({"cuda_graphs",
               "Whether the host launches the kernels of a decode step together, from a CUDA "
               "graph; else it launches them one by one, as vLLM does with enforce_eager, and "
               "the GPU waits where that takes longer. Default: the engine's own."},
              engine.cuda_graphs);
  engine.chunked_prefill = fields.integer_within<int>(
      {"chunked_prefill",
       "Tokens of a step of an engine, for example 2048, which one token of each running answer and chunks of prompts "
       "share; 0: prompts have passes of their own, for which decoding waits. Default: the engine's own."},
      0, 1 << 20, engine.chunked_prefill);
  fields.read({"prefix_sharing",
               "Whether the answers to a prompt share its keys and values, which are then "
               "computed once. Default: the engine's own."},
              engine.prefix_sharing);
}

SpeculationChoice read_speculation(Fields& section, const Catalog& catalog, const std::string& path) {
  SpeculationChoice choice;
  const Node* node = section.child_unless_null(
      {"speculation", "Speculative decoding: {draft: llama-3.2-1b, tokens: 3, acceptance: 0.7}. Default: none."});
  if (!node) return choice;
  Fields fields(*node, path + ".speculation");
  choice.place = node->place;
  choice.tokens = fields.integer_within<int>(
      {"tokens", "Number of tokens that are drafted before the model verifies them, for example 3."}, 0,
      kMostDraftTokens);
  choice.acceptance =
      fields.number({"acceptance", "Probability that the model accepts a drafted token, for example 0.7."}, 0, 1);
  const Node* draft =
      fields.child_unless_null({"draft",
                                "Model that drafts: a network, for example gpt2 (trainyard list networks), or mtp, "
                                "a further layer of the model. Default: mtp."});
  if (draft && !(draft->kind == Node::Kind::scalar && draft->scalar == "mtp"))
    choice.draft = read_network_entry(catalog.resolve("network", *draft));
  fields.finish();
  return choice;
}

std::optional<LoopModel> read_loop_model(Fields& section, Key key, bool may_have_nodes) {
  const std::string what = "post_training." + std::string(key.name);
  const Node* node = section.child_unless_null(key);
  if (!node) return {};
  LoopModel choice;
  choice.place = node->place;
  Fields fields(*node, what);
  const Node* model = fields.child(
      {"model", "Network of this model: a name, for example gpt2 (trainyard list networks). Default: the policy's."});
  choice.model = model ? *model : Node{};
  if (may_have_nodes && fields.has({"nodes",
                                    "Number of nodes of the cluster that only this model has, for example 1; it works "
                                    "while the policy trains. Default: none; it takes turns with the policy."}))
    choice.nodes = fields.integer_within<int>("nodes", 1, 1 << 20);
  fields.finish();
  return choice;
}

}  // namespace trainyard
