#include "scenarios/src/reading/post_training_parts.hpp"

#include <fmt/format.h>

namespace trainyard {
namespace {

constexpr double kMostStaleness = 16, kMostWaitVariation = 10;
constexpr int kMostCalls = 1000, kMostDraftTokens = 64;

}  // namespace

std::vector<std::vector<Seconds>> ToolChoice::draw(std::size_t answers, std::uint64_t seed) const {
  if (calls == 0 || (wait.value == 0 && tokens == 0)) return {};
  const auto calls_per_answer = static_cast<std::size_t>(calls);
  const std::vector<double> waits = draw_lognormal(answers * calls_per_answer, wait.value, variation, seed);
  std::vector<std::vector<Seconds>> all(answers);
  for (std::size_t i = 0; i < waits.size(); ++i) all[i / calls_per_answer].push_back(Seconds{waits[i]});
  return all;
}

std::optional<AsynchronyChoice> read_asynchrony(Fields& section, bool asynchronous) {
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
  for (const char* key : {"staleness", "order", "partial_rollouts"})
    section.require_condition(key, asynchronous, "with post_training.schedule: asynchronous");
  if (!asynchronous) return {};
  return choice;
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
  if (fields.has(
          {"sandboxes", "Most calls at once, which the engines share equally, for example 256. Default: no limit."}))
    choice.sandboxes = fields.integer_within<int>("sandboxes", 1, 1 << 24);
  fields.finish();
  return choice;
}

SpeculationChoice read_speculation(Fields& section, const Catalog& catalog) {
  SpeculationChoice choice;
  const Node* node = section.child_unless_null(
      {"speculation", "Speculative decoding: {draft: llama-3.2-1b, tokens: 3, acceptance: 0.7}. Default: none."});
  if (!node) return choice;
  Fields fields(*node, "post_training.generation.speculation");
  choice.place = node->place;
  choice.tokens = fields.integer_within<int>(
      {"tokens", "Number of tokens that are drafted before the model verifies them, for example 3."}, 0,
      kMostDraftTokens);
  choice.acceptance =
      fields.number({"acceptance", "Probability that the model accepts a drafted token, for example 0.7."}, 0, 1);
  const Node* draft = fields.child({"draft",
                                    "Model that drafts: a network, for example gpt2 (trainyard list networks), or mtp, "
                                    "a further layer of the model. Default: mtp."});
  if (draft && !(draft->kind == Node::Kind::scalar && draft->scalar == "mtp"))
    choice.draft = read_network_entry(catalog.resolve("network", *draft));
  fields.finish();
  return choice;
}

std::optional<LoopModel> read_loop_model(Fields& section, Key key) {
  const std::string what = "post_training." + std::string(key.name);
  const Node* node = section.child_unless_null(key);
  if (!node) return {};
  LoopModel choice;
  choice.place = node->place;
  Fields fields(*node, what);
  const Node* model = fields.child(
      {"model", "Network of this model: a name, for example gpt2 (trainyard list networks). Default: the policy's."});
  choice.model = model ? *model : Node{};
  fields.finish();
  return choice;
}

}  // namespace trainyard
