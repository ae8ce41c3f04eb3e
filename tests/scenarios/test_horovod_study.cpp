#include <catch2/catch.hpp>

#include "scenarios/src/studies/measured/horovod_study.hpp"

namespace scenarios_test_horovod_study {

using namespace trainyard;

namespace {

double median_error(const HorovodStudy& study, const std::vector<double>& predicted) {
  return horovod_errors(study, "", predicted, &HorovodStudy::Row::multi_0).median_abs;
}

std::vector<double> times_of(const std::string& reading) { return training_times(predict_horovod({reading}).front()); }

}  // namespace

TEST_CASE("the errors of a set of points have mean, median, 90th percentile, worst, sign and rank correlation",
          "[error-set]") {
  const ErrorSet set = error_set("s", {{"a", 11, 10}, {"b", 18, 20}, {"c", 30, 30}, {"d", 60, 40}});
  CHECK(set.mean_abs == Approx(0.175).epsilon(1e-14));
  CHECK(set.median_abs == Approx(0.1).epsilon(1e-14));
  CHECK(set.p90_abs == Approx(0.38).epsilon(1e-12));
  CHECK(set.worst_abs == Approx(0.5).epsilon(1e-14));
  CHECK(set.signed_mean == Approx(0.125).epsilon(1e-13));
  CHECK(set.rank_correlation == 1);
  CHECK(error_set("s", {{"a", 2, 1}, {"b", 1, 2}}).rank_correlation == -1);
  CHECK(to_json(set, false).at("n") == 4);
  CHECK_FALSE(to_json(set, false).contains("points"));
  CHECK(to_json(set, true).at("points").at(3).at("predicted") == 60);
  CHECK_THROWS_AS(error_set("s", {{"a", 1, 0}}), InternalError);
  CHECK_THROWS_AS(error_set("s", {}), InternalError);
  CHECK(quantile({3, 1, 2}, 0.5) == 2);
}

TEST_CASE("the Horovod study is predicted within its limits", "[horovod]") {
  const HorovodStudy study = read_horovod_study();
  REQUIRE(study.rows.size() == 16);
  const std::vector<double> single = study.column(&HorovodStudy::Row::single);
  const std::vector<double> documented = times_of("documented");
  CHECK(median_error(study, documented) <= 0.12);
  CHECK(crossover(study, single, documented).value().lower_batch == 128);

  const std::vector<double> fitted = times_of("fitted");
  const ErrorSet set = horovod_errors(study, "", fitted, &HorovodStudy::Row::multi_0);
  CHECK(set.median_abs <= 0.03);
  CHECK(set.worst_abs <= 0.15);
  CHECK(set.rank_correlation > 0.95);
  CHECK(crossover(study, single, fitted).value().lower_batch == 128);
  const ErrorSet left_out = horovod_errors(study, "", leave_one_out(study, documented), &HorovodStudy::Row::multi_0);
  CHECK(left_out.median_abs <= 0.03);
  CHECK(left_out.worst_abs <= 0.15);
}

TEST_CASE("the stack carries the constant that the fit gives", "[horovod]") {
  const HorovodStudy study = read_horovod_study();
  const std::vector<double> documented = times_of("documented");
  const std::vector<double> missing = missing_step_time(study, documented);
  const Scenario scenario = read_scenario(measured_families({"horovod"}, {"fitted"}).front().scenario(0), "fitted");
  CHECK(scenario.software.collective_launch.value == Approx(quantile(missing, 0.5)).epsilon(2e-3));
  // The constant adds the same time to every step, so that fitting needs no more simulations.
  const std::vector<double> fitted = times_of("fitted");
  for (std::size_t i = 0; i < fitted.size(); ++i)
    CHECK(fitted[i] - documented[i] == Approx(6000 * scenario.software.collective_launch.value).epsilon(1e-6));
}

TEST_CASE("both ranks of the Horovod study are predicted, and rank 0 ends later by its own work", "[horovod]") {
  const HorovodStudy study = read_horovod_study();
  const FamilyPrediction both_ranks = predict_horovod({"both ranks"}).front();
  for (const std::size_t rank : {0, 1}) {
    const ErrorSet errors = *both_ranks.figure(rank);
    CHECK(errors.median_abs <= 0.04);
    CHECK(errors.worst_abs <= 0.15);
  }
  const std::vector<double> measured = measured_gaps(study), predicted = predicted_gaps(both_ranks);
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    CHECK(measured[i] > 0.9);
    CHECK(measured[i] < 12);
    // The predicted gap has the evaluation of 10,000 samples, the last checkpoint and the last line, so it is shorter.
    CHECK(predicted[i] > 0.3);
    CHECK(predicted[i] < measured[i]);
  }
  // The stack's constant, less rank 0's own work, gives rank 0 the time of the fitted reading.
  const std::vector<double> fitted = times_of("fitted"), rank_0 = training_times(both_ranks, 0);
  for (std::size_t i = 0; i < fitted.size(); ++i) CHECK(rank_0[i] == Approx(fitted[i]).epsilon(2e-3));
}

TEST_CASE("the study's scenario has the study's table and shares its steps", "[horovod]") {
  const HorovodStudy study = read_horovod_study();
  const Scenario s = read_scenario(TRAINYARD_SOURCE_DIR "/scenarios/horovod-mnist-2xt4.yaml");
  REQUIRE(s.measured.rows.size() == study.rows.size());
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    CHECK(static_cast<double>(s.measured.rows[i].batch) == study.rows[i].batch);
    CHECK(s.measured.rows[i].time.value * study.steps() == Approx(study.rows[i].single).epsilon(1e-6));
  }
  CHECK(s.training.steps * study.workers == study.steps());
  CHECK(s.network.parameters() == 1199882);
  CHECK(plan(s).training.stages.front().buckets.size() == 1);
  CHECK(s.cluster.node.hca_rate == BytesPerSecond{5.22e9 / 8});
}

TEST_CASE("two lines that cross twice have no crossover", "[horovod]") {
  HorovodStudy study;
  for (const double batch : {1.0, 2.0, 4.0}) study.rows.push_back({batch, 1, 1, 1});
  const std::vector<double> single{1, 2, 3};
  CHECK(crossover(study, single, {2, 3, 2}).value().batch == Approx(3).epsilon(1e-14));
  CHECK_FALSE(crossover(study, single, {2, 1, 4}));
  CHECK_FALSE(crossover(study, single, {0, 0, 0}));
  CHECK_FALSE(crossover(study, single, {0, 3, 4}));
}

}  // namespace scenarios_test_horovod_study
