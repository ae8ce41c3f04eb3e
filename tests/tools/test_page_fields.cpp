// The fields of the page of `trainyard serve`: their labels, sections, typed values and errors.
#include <catch2/catch.hpp>
#include <map>
#include <tuple>

#include "tests/tools/served_page.hpp"
#include "tools/serving/page_fields.hpp"

namespace tools_test_page_fields {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;
using nlohmann::json;

TEST_CASE("fields of the page have labels from their descriptions, and sections", "[serve]") {
  const PageFolder folder;
  ServedProcess served(folder);
  std::map<std::string, json> controls;
  std::vector<std::string> undescribed;
  const json answer = served.ask("[]", "answer", "failures-llama3-16k");
  for (const json& control : answer["controls"]) {
    CAPTURE(control["path"]);
    controls[control["path"]] = control;
    const std::string label = control["label"], path = control["path"];
    CHECK((!label.empty() && label.size() <= 110));
    CHECK(label.find_first_of("_.") == std::string::npos);
    CHECK(label != path);
    if (!path.starts_with("cluster.") && control["words"] == "") undescribed.push_back(path);
  }
  CHECK(undescribed == std::vector<std::string>{"plan.data_parallel.delay"});  // read without its mechanism
  CHECK(controls["plan.data_parallel.gradient_sync"]["label"] == "When gradients are exchanged");
  CHECK(controls["cluster.nodes"]["label"] == "Number of nodes");
  CHECK(controls["cluster.nodes"]["section"] == "Cluster");
  CHECK(controls["cluster.hca.rate"]["label"] == "Rate of one adapter, each way");
  CHECK(controls["cluster.hca.rate"]["section"] == "Cluster: HCA");
  CHECK(controls["plan.sequence_parallel"]["label"] ==
        "Tensor ranks split norms, dropouts and residual sums by tokens");
  CHECK(controls["plan.data_parallel.zero_stage"]["section"] == "Plan: data parallel");
  CHECK(controls["faults.failures.mtbf.gpu"]["section"] == "Faults: failures");
  CHECK(controls["model"]["section"] == "Scenario");
  CHECK(controls.contains("cluster.gpu.memory_capacity"));
  CHECK(served.stop() == 0);
}

TEST_CASE("a count may be typed with a prefix, separators and the noun of its field", "[serve]") {
  ScenarioField field;
  field.path = "plan.training.tokens";
  field.words = "Number of tokens of the training, for example 300e9.";
  field.type = "a number";
  for (const auto& [text, value] : {std::pair{"2 M tokens", "2000000"},
                                    {"2M", "2000000"},
                                    {"1,536", "1536"},
                                    {"15T tokens", "15000000000000"},
                                    {"1.5 k", "1500"},
                                    {"3 B", "3000000000"},
                                    {"7 tokens", "7"},
                                    {"1 token", "1"},
                                    {" 12 ", "12"},
                                    {"300e9", "300e9"},
                                    {"0.25", "0.25"},
                                    {"80 GB", "80 GB"},
                                    {"many", "many"}})
    CHECK(typed_value(field, text) == value);
  CHECK_THROWS_WITH(typed_value(field, "2 M tokns"),
                    "plan.training.tokens: \"2 M tokns\": unknown unit \"tokns\"; expected a number, such as 1536, "
                    "1,536, 2 k or 2 M");
  CHECK_THROWS_AS(typed_value(field, "2 M days"), UserError);
  field.type = "a time such as 1.5 us";
  CHECK(typed_value(field, "3 days") == "3 days");  // its reader knows the unit
}

TEST_CASE("units that are typed on the page are those of scenarios, and a wrong one is an error of its field",
          "[serve][cli]") {
  const PageFolder folder;
  ServedProcess served(folder);
  const auto step = [&](const std::string& path, const std::string& value) {
    return served.ask(json::array({json::array({path, value})}).dump())["answer"]["step_time_s"];
  };
  CHECK(step("cluster.hca.rate", "400 Gbit/s") == step("cluster.hca.rate", "50 GB/s"));
  CHECK(step("plan.global_batch_size", "64 samples") == step("plan.global_batch_size", "64"));
  CHECK(step("cluster.gpu.memory_capacity", "80 GB").is_number());
  const json days = served.ask(R"([["plan.training.time","3 days"]])", "answer", "failures-llama3-16k"),
             hours = served.ask(R"([["plan.training.time","72 h"]])", "answer", "failures-llama3-16k");
  CHECK(days["answer"]["training_time_s"].is_number());
  CHECK(days["answer"]["training_time_s"] == hours["answer"]["training_time_s"]);
  for (const auto& [path, value, words] :
       {std::tuple{"cluster.hca.rate", "400 Gbits", "unknown unit \"Gbits\"; expected a rate such as 400 Gbit/s"},
        {"cluster.hca.rate", "fast", "a rate such as 400 Gbit/s or 25 GB/s expected"},
        {"cluster.gpu.memory_capacity", "80", "has no unit; expected a size such as 80 GiB"},
        {"plan.global_batch_size", "2 M tokns", "unknown unit \"tokns\""},
        {"plan.global_batch_size", "80 GB", "\"80 GB\" is not a whole number"},
        {"plan.micro_batch_size", "3", "32 is not a multiple of 48"}}) {
    const json answer = served.ask(json::array({json::array({path, value})}).dump());
    CAPTURE(path, value, answer["error"]);
    CHECK_FALSE(answer.contains("answer"));
    CHECK(answer["path"] == path);
    CHECK_THAT(answer["error"].get<std::string>(), Contains(words) && !Contains("--set"));
  }
  // The error belongs to the field that it names, not to the last change.
  const json two = served.ask(R"([["plan.seq_length","many"],["cluster.nodes","1"]])");
  CHECK(two["path"] == "plan.seq_length");
  CHECK_THAT(served.page(), Contains("error-of-") && Contains("aria-invalid"));
  CHECK(served.stop() == 0);
}

}  // namespace tools_test_page_fields
