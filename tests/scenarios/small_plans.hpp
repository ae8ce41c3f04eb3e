#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/search/plan_answer.hpp"

namespace trainyard::test {

/// A small transformer on one node.
inline constexpr const char* kSmall =
    "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 4}\n"
    "plan: {global_batch_size: 16, seq_length: 256, tensor_parallel: 2, micro_batch_size: 1}\nsoftware: "
    "megatron-core\n";

inline PlanQuestion question_of(const std::string& text, const Overrides& overrides = {}) {
  return read_plan_question(parse_document(text, "small.yaml"), "small", overrides);
}

/// Options that leave few plans.
inline PlanAnswerOptions few_plans() {
  PlanAnswerOptions options;
  options.space.vary = {{"plan.pipeline.schedule", {"1f1b", "interleaved-1f1b"}},
                        {"plan.micro_batch_size", {"1", "2"}},
                        {"plan.recompute", {"none", "selective"}}};
  return options;
}

inline std::string json_of_answer(const PlanAnswer& answer) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  plan_fields().write(answer, object);
  return object.dump();
}

}  // namespace trainyard::test
