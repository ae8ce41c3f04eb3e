// The error of a word for something not modelled names the nearest thing that is modelled, not a similar spelling.
#include <catch2/catch.hpp>
#include <set>

#include "models/reading/not_modelled.hpp"
#include "models/reading/shipped_files.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_limits {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

std::string error_of(const std::string& path, const std::string& value) {
  return test::user_error([&] { read_scenario(shipped_file("scenarios/gpt2-xl-ddp-dgx-a100.yaml"), {{path, value}}); });
}

std::string config_error(const std::string& config) { return error_of("model", config); }

}  // namespace

TEST_CASE("every word for something not modelled is refused with the nearest name, and that name is accepted",
          "[limits][errors]") {
  std::set<std::string> seen;
  for (const UnmodelledKey& row : not_modelled()) {
    CAPTURE(row.what);
    REQUIRE(!row.nearest.empty());
    for (const std::string& word : row.words) {
      CAPTURE(word);
      CHECK(seen.insert(word).second);
      const std::string error = error_of(row.path, word);
      bool is_named = false;
      for (const std::string& name : row.nearest)
        is_named = is_named || error.find("; not modelled yet; nearest: \"" + name + "\" (trainyard help limits)") !=
                                   std::string::npos;
      CAPTURE(error);
      CHECK(is_named);
      CHECK_THAT(error, !Contains("did you mean"));
      if (std::string(row.path) == "model" && row.nearest.size() > 1)
        CHECK_THAT(config_error("{model_type: " + word + "}"),
                   Contains("not modelled yet; nearest: \"" + row.nearest.front() + "\""));
    }
    // The offered name is known. It may be refused for other reasons, such as its size.
    CHECK_THAT(error_of(row.path, row.nearest.back()),
               !Contains("unknown value") && !Contains("\"" + row.nearest.back() + "\""));
  }
}

TEST_CASE("a misspelling is refused with the nearest spelling", "[limits][errors]") {
  CHECK_THAT(error_of("plan.precision", "bf61"), Contains("did you mean \"bf16\"?"));
  CHECK_THAT(error_of("model", "gpt2-xxl"), Contains("did you mean"));
}

TEST_CASE("the error of a config of text and images with an incomplete text part says that images are not modelled",
          "[limits][errors]") {
  const std::string error = config_error(
      "{model_type: paligemma, vision_config: {hidden_size: 1152}, text_config: {model_type: llama, hidden_size: 64, "
      "num_attention_heads: 4, num_hidden_layers: 2, intermediate_size: 128, vocab_size: 1000}}");
  CHECK_THAT(error, Contains("missing key \"max_position_embeddings\" in text_config; images and sound are not "
                             "modelled yet; nearest: the text part alone"));
}

}  // namespace scenarios_test_limits
