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

}  // namespace tools_test_statements
