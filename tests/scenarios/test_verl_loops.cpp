// Steps of verl, to which nothing is fitted.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "scenarios/src/studies/measured/measured_runs.hpp"
#include "tests/scenarios/loops.hpp"

namespace scenarios_test_verl_loops {

using namespace trainyard;
using namespace trainyard::test;

TEST_CASE("a loop may train under a stack that shards parameters by default", "[post-training]") {
  CHECK(simulated_loop({{"software", "pytorch-fsdp"}, {"plan.pipeline_parallel", "1"}, {"plan.data_parallel", "null"}})
            .log_probabilities.value > 0);
}

TEST_CASE("verl's steps have their order, and the manual says which parts are off", "[post-training][measured]") {
  const std::vector<MeasuredFamily> families = measured_families({"post-training"}, {"verl"});
  const FamilyPrediction verl = predict_families(families).front();
  CHECK(verl.runs.size() == 9);
  CHECK(verl.refused_runs() == 0);
  const auto errors = [&](const char* name) {
    for (std::size_t i = 0; i < verl.figures.size(); ++i)
      if (verl.figures[i].name == name) return *verl.figure(i);
    throw InternalError("no such figure");
  };
  // The figures of the manual (post-training.md).
  const ErrorSet step = errors("step"), waiting = errors("waiting");
  CHECK(step.mean_abs == Approx(0.37).margin(0.01));
  CHECK(step.worst_abs == Approx(0.75).margin(0.01));
  CHECK(step.rank_correlation == Approx(0.85).margin(0.01));
  CHECK(errors("log-probabilities").signed_mean == Approx(-0.71).margin(0.01));
  CHECK(errors("update").mean_abs == Approx(0.28).margin(0.01));
  CHECK(errors("generation").mean_abs == Approx(0.32).margin(0.01));
  double least = HUGE_VAL, most = 0;
  for (const MeasuredPoint& point : waiting.points) {
    least = std::min(least, point.predicted - point.measured);
    most = std::max(most, point.predicted - point.measured);
  }
  CHECK(least == Approx(17).margin(1));
  CHECK(most == Approx(145).margin(1));
  // More staleness, shorter steps: measured from 0 to 0.3, predicted up to 0.5.
  const auto predicted = [&](const std::string& id) {
    for (const MeasuredPoint& point : step.points)
      if (point.id.ends_with(id)) return point.predicted;
    throw InternalError("no such row");
  };
  CHECK(predicted("128-staleness-0") > predicted("128-staleness-0.1"));
  CHECK(predicted("128-staleness-0.1") > predicted("128-staleness-0.3"));
  CHECK(predicted("128-staleness-0.3") > predicted("128-staleness-0.5"));
}

}  // namespace scenarios_test_verl_loops
