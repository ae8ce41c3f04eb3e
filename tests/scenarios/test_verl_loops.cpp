// Steps of verl, to which nothing is fitted.
#include <catch2/catch.hpp>
#include <cmath>

#include "scenarios/src/studies/measured/measured_runs.hpp"
#include "scenarios/src/studies/measured/post_training_errors.hpp"
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
  const ErrorSet step = errors("step");
  CHECK(step.mean_abs == Approx(0.108).margin(0.0006));
  CHECK(step.worst_abs == Approx(0.372).margin(0.005));
  CHECK(step.rank_correlation == Approx(0.97).margin(0.005));
  CHECK(errors("log-probabilities").signed_mean == Approx(-0.365).margin(0.005));
  // Log-probabilities on 32, 64 and 128 GPUs: a constant part, and one that halves with twice the GPUs.
  const std::vector<MeasuredPoint> passes = errors("log-probabilities").points;
  REQUIRE(passes.size() == 3);
  const double halves_measured = (passes[0].measured - passes[2].measured) * 4 / 3,
               halves_predicted = (passes[0].predicted - passes[2].predicted) * 4 / 3;
  CHECK(passes[0].measured - halves_measured == Approx(36).margin(0.5));
  CHECK(passes[0].predicted - halves_predicted == Approx(30).margin(0.6));
  CHECK(halves_measured / halves_predicted == Approx(2.4).margin(0.05));
  CHECK(passes[1].measured == Approx(passes[0].measured - halves_measured / 2).epsilon(0.03));
  CHECK(errors("update").mean_abs == Approx(0.184).margin(0.005));
  CHECK(errors("generation").mean_abs == Approx(0.256).margin(0.005));
  CHECK(errors("waiting").signed_mean == Approx(-0.39).margin(0.005));
  // One length cannot hold for all rows: fewer GPUs of an asynchronous loop take less time for as many samples.
  const auto updates = errors("update").points;
  CHECK(updates[0].measured == Approx(314).epsilon(0.002));  // 32 colocated GPUs
  CHECK(updates[3].measured == Approx(270).epsilon(0.002));  // 16 that train beside as many that generate
  // With the steps and training halves of NeMo-RL, each without its model.
  const PostTrainingErrors nemo_rl = post_training_errors();
  const auto both = [](const std::vector<MeasuredPoint>& points, std::vector<MeasuredPoint> all) {
    all.insert(all.end(), points.begin(), points.end());
    return error_set("", std::move(all));
  };
  const ErrorSet steps = both(step.points, nemo_rl.model_left_out.points);
  CHECK(steps.n == 27);
  CHECK(steps.mean_abs == Approx(0.076).margin(0.0006));
  CHECK(steps.rank_correlation == Approx(0.96).margin(0.005));
  const ErrorSet halves = both(updates, both(passes, nemo_rl.training_half.points).points);
  CHECK(halves.n == 17);
  CHECK(halves.mean_abs == Approx(0.174).margin(0.0006));
  // More staleness, shorter steps.
  const auto predicted = [&](const std::string& id) {
    for (const MeasuredPoint& point : step.points)
      if (point.id.ends_with(id)) return point.predicted;
    throw InternalError("no such row");
  };
  CHECK(predicted("128-staleness-0") > predicted("128-staleness-0.1"));
  CHECK(predicted("128-staleness-0.1") > predicted("128-staleness-0.3"));
  CHECK(predicted("128-staleness-0.3") >= predicted("128-staleness-0.5") * (1 - 1e-9));
}

}  // namespace scenarios_test_verl_loops
