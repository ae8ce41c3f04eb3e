// Sentences that verbs print are true of their figures.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/json_text.hpp"
#include "tests/tools/topo_shell.hpp"

namespace tools_test_statements {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

TEST_CASE("compare says which plans are at risk to run out of memory, as run does", "[compare]") {
  const TopoFolder shell;
  const std::string scenarios = "gpt2-one-a100 llama3-405b-16k-h100";
  const std::string table = shell.trainyard("compare " + scenarios).out;
  const std::size_t at = table.find("\nmemory, GiB");
  REQUIRE(at != std::string::npos);
  const std::string row = table.substr(at + 1, table.find('\n', at + 1) - at - 1);
  const auto verdict = [&shell](const std::string& scenario) {
    return parse_json(shell.trainyard("run " + scenario + " --no-what-if --json -").out).at("fits_in_words");
  };
  CHECK(verdict("gpt2-one-a100") == "yes");
  CHECK(verdict("llama3-405b-16k-h100") == "at risk");
  CHECK(row.ends_with(" (at risk)"));
  CHECK(row.find("(at risk)") == row.rfind("(at risk)"));
}

TEST_CASE("size --model takes no longer samples than the model has positions", "[size]") {
  const TopoFolder shell;
  const std::string more = " --tokens 1B --days 3 --gpus 8 --work 50K --nodes-of dgx-h100 --write found.yaml";
  for (const auto& [model, length] : {std::pair{"gpt2", "1024"}, {"llama-3-8b", "8192"}}) {
    CAPTURE(model);
    const TopoAnswer answer = shell.trainyard("size --model " + std::string(model) + more);
    INFO(answer.err << answer.out);
    CHECK(answer.exit == 0);
    CHECK_THAT(shell.text("found.yaml"), Contains(fmt::format("seq_length: {}", length)));
    CHECK_THAT(answer.out, Contains("No other size was tried."));
  }
  CHECK_THAT(shell.trainyard("size --model gpt2 --set plan.seq_length=4096" + more).out,
             Contains("--set plan.seq_length"));
}

TEST_CASE("size says that no other size is in time only of sizes that it tried", "[size]") {
  const TopoFolder shell;
  const TopoAnswer answer = shell.trainyard(
      "size --model llama-3.2-1b --tokens 1B --days 0.5 --work 50K --nodes-of dgx-h100,dgx-a100 --json size.json");
  INFO(answer.err);
  const nlohmann::json json = parse_json(shell.text("size.json"));
  int others = 0, in_time = 0;
  for (const nlohmann::json& row : json.at("rows")) {
    const bool is_best =
        row.at("node") == json.at("cheapest").at("node") && row.at("nodes") == json.at("cheapest").at("nodes");
    others += is_best ? 0 : 1;
    in_time += !is_best && row.value("meets", false) ? 1 : 0;
  }
  const bool says_none = answer.out.find("No other size that was tried meets the deadline.") != std::string::npos;
  CHECK(says_none == (others > 0 && in_time == 0));
  CHECK((answer.out.find("No other size was tried.") != std::string::npos) == (others == 0));
  CHECK((answer.out.find("Next comes ") != std::string::npos) == (in_time > 0));
}

TEST_CASE("twice a resource saves at most half of its share of the critical path, and the bottleneck's saves something",
          "[explain][what-if]") {
  // The old critical path is still there with the faster resource, so no step can be shorter than what is left of it.
  const TopoFolder shell;
  const std::string one_sample = " --set plan.global_batch_size=32 --set plan.micro_batch_size=1";
  for (const std::string& words : std::vector<std::string>{
           "gpt2-xl-ddp-dgx-a100", "gpt2-xl-ddp-dgx-a100" + one_sample, "accelerators-gpt2", "bert-large-ddp-8xh100",
           "trillion-800xv100 --set \"cluster.hca.rate=200 Gbit/s\"", "zero-stages --set \"cluster.pcie.rate=5 GB/s\"",
           "mixtral-ep8 --set \"cluster.hca.rate=400 Gbit/s\" --set \"cluster.pcie.rate=10 GB/s\"",
           "gpt2-ddp-t4-servers --set \"cluster.pcie.rate=2 GB/s\""}) {
    CAPTURE(words);
    const TopoAnswer answer = shell.trainyard("run " + words + " --json -");
    INFO(answer.err);
    REQUIRE(answer.exit == 0);
    const nlohmann::json json = parse_json(answer.out);
    const double step = json.at("step_time_s");
    const std::string bottleneck = json.at("bottleneck").at("resource");
    bool is_tried = false;
    for (const nlohmann::json& change : json.at("what_if")) {
      const std::string resource = change.at("resource");
      const std::string named = resource == "compute"    ? "GPU compute"
                                : resource == "memory"   ? "GPU memory"
                                : resource == "software" ? "framework"
                                                         : resource;
      CAPTURE(named, change.dump());
      const double factor = change.at("factor"), share = json.at("critical_path_s").value(named, 0.0) / step;
      CHECK(change.at("saves_share").get<double>() <= (1 - 1 / std::max(factor, 1 / factor)) * share + 0.01);
      if (named == bottleneck) {
        is_tried = true;
        CHECK(change.at("saves_share").get<double>() > 0.01);
      }
    }
    CHECK(is_tried);
  }
}

}  // namespace tools_test_statements
