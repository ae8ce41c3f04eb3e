// The rows of a pipeline's stages in the one-screen answer.
#include <catch2/catch.hpp>

#include "tools/reports/stage_table.hpp"

using namespace trainyard;
using Catch::Matchers::Contains;

TEST_CASE("the table of stages joins rows that are alike, and shows memory where it is too little", "[stages]") {
  Result r;
  r.step_time = 0.2;
  r.stages.resize(3);
  for (Result::Stage& stage : r.stages) {
    stage.layers = 4;
    stage.breakdown.compute = 0.15;
    stage.breakdown.exposed_communication = {{"pipeline", 0.01}, {"tensor", 0.02}};
    stage.breakdown.bubble = 0.02;
    stage.memory.peak = 3 << 30;
  }
  CHECK(stage_table(r) ==
        "by stage    stage  layers   compute   exposed    bubble  optimizer   other    peak   (ms of its last rank to "
        "finish, GiB)\n"
        "              0-2       4       150      30.0      20.0       0.00    0.00     3.0\n");
  r.stages[1].memory.activations = 1 << 30;
  r.fits = false;
  CHECK_THAT(stage_table(r), Contains("activations") && Contains("\n                1     3.0"));
}
