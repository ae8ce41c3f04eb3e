// The rows of a pipeline's stages in the one-screen answer.
#include <catch2/catch.hpp>
#include <regex>
#include <sstream>

#include "scenarios/src/answer/result.hpp"
#include "strategies/plan/training_plan.hpp"
#include "tests/tools/topo_shell.hpp"
#include "tools/reports/report.hpp"

namespace tools_test_stage_table {

using namespace trainyard;
using Catch::Matchers::Contains;

TEST_CASE("the table of stages joins equal rows, and shows the parts of memory if it is too small", "[stages]") {
  Result r;
  r.step_time.value = 0.2;
  r.stages.resize(3);
  for (Result::Stage& stage : r.stages) {
    stage.layers = 4;
    stage.breakdown.compute.value = 0.15;
    stage.breakdown.exposed_communication = {{"pipeline", 0.01}, {"tensor", 0.02}};
    stage.breakdown.bubble.value = 0.02;
    stage.memory.peak.value = 3.0 * (1U << 30);
  }
  CHECK(stage_table(r) ==
        "by stage    stage     layers   compute   exposed    bubble  optimizer   other    peak   (ms, "
        "GiB)\n"
        "              0-2          4     150.0      30.0      20.0        0.0     0.0     3.0\n");
  r.stages[1].memory.activations.value = 1.0 * (1U << 30);
  r.fits = false;
  CHECK_THAT(stage_table(r), Contains("activations") && Contains("\n                1     3.0"));
}

TEST_CASE("the layers of the table of stages sum to those of the model", "[stages][cli]") {
  const test::TopoFolder shell;
  const std::pair<const char*, int> models[] = {
      {"gpt3-175b-1024xa100", 96}, {"published/deepseek-v3-2048", 61}, {"llama3-70b-tp8-pp4", 80}};
  for (const auto& [scenario, layers] : models) {
    CAPTURE(scenario);
    std::istringstream lines(shell.trainyard(std::string("run --no-what-if ") + scenario).out);
    const std::regex row("^(?:by stage)? +([0-9]+)(?:-([0-9]+))? +([0-9]+)((?: \\+ [EH])*) +[0-9.]+ .*");
    int sum = 0, embeddings = 0, heads = 0;
    for (std::string line; std::getline(lines, line);) {
      std::smatch found;
      if (!std::regex_match(line, found, row)) continue;
      const int first = std::stoi(found[1]), last = found[2].matched ? std::stoi(found[2]) : first;
      sum += (last - first + 1) * std::stoi(found[3]);
      embeddings += found[4].str().find('E') != std::string::npos ? 1 : 0;
      heads += found[4].str().find('H') != std::string::npos ? 1 : 0;
    }
    CHECK(sum == layers);
    CHECK(embeddings == 1);
    CHECK(heads == 1);
  }
}

}  // namespace tools_test_stage_table
