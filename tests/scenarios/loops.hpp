#pragma once
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "models/generation/decode_costs.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/post_training/engine_costs.hpp"
#include "scenarios/src/post_training/engine_run.hpp"
#include "scenarios/src/running/simulate.hpp"

namespace trainyard::test {

/// A decode step takes 1 ms and 0.1 ms per sequence; a token of a prompt takes 1 us, and a cached token takes one byte.
struct PlainCosts : GenerationCosts {
  Bytes bytes{1e9};
  double slow = 1;
  DecodeTime decode(int batch, double) const override { return {Seconds{slow * 1e-3}, {}, {}, Seconds{1e-4 * batch}}; }
  Seconds prefill(const PromptTokens& tokens) const override { return Seconds{1e-6 * tokens.count}; }
  Bytes cache(double tokens) const override { return Bytes{tokens}; }
  Bytes room() const override { return bytes; }
};

inline const EngineLimits kLimits{100, 256, 16};

inline std::vector<PlannedAnswer> planned_answers(std::size_t count, double variation, std::size_t per_prompt = 4) {
  const AnswerLengths lengths{.mean = 300, .variation = variation, .most = 900};
  std::vector<PlannedAnswer> answers;
  for (const double tokens : lengths.draw(count)) answers.push_back({answers.size() / per_prompt, tokens});
  return answers;
}

inline constexpr const char* kLoop = "post-training-llama3-8b-16xh100";

inline Scenario loop_scenario(const Overrides& overrides = {}, const char* name = kLoop) {
  return read_scenario(scenario_file(name), overrides);
}

inline PostTrainingResult simulated_loop(const Overrides& overrides = {}, const char* name = kLoop) {
  return *simulate_here(loop_scenario(overrides, name), {.critical_path = false}).post_training;
}

inline void check_loop_refused(const Overrides& overrides, const std::string& words, const char* name = kLoop) {
  CAPTURE(words);
  const auto price = [&] {
    const Scenario s = loop_scenario(overrides, name);
    return generation_costs(*s.post_training, s.model.entry);
  };
  CHECK_THROWS_WITH(price(), Catch::Matchers::Contains(words));
}

}  // namespace trainyard::test
