// What a step is said to be spent on sums to the step, in every scenario that comes along.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <nlohmann/json.hpp>
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "sim/error.hpp"
#include "strategies/mechanisms/mechanism.hpp"

namespace scenarios_test_parts {

using namespace trainyard;

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> shipped_scenarios() {
  std::vector<fs::path> files;
  for (const char* folder : {"scenarios", "scenarios/dataparallel", "scenarios/published"})
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(TRAINYARD_SOURCE_DIR) / folder))
      if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(fs::path(TRAINYARD_SOURCE_DIR) / "scenarios/lessons"))
    if (entry.path().extension() == ".yaml" && entry.path().parent_path().filename() != "lessons")
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

double sum_of(const Result::Breakdown& b) {
  double sum = b.compute + b.compression + b.bubble + b.optimizer + b.input + b.framework + b.other;
  for (const auto& [group, seconds] : b.exposed_communication) sum += seconds;
  return sum;
}

void check_parts(const Result& r, const Scenario& s) {
  CHECK(sum_of(r.breakdown) == Approx(r.breakdown.step_time).epsilon(1e-9));
  if (s.plan.mechanism->in_step()) CHECK(r.breakdown.step_time == Approx(r.step_time).epsilon(1e-9));
  CHECK(r.breakdown.other < 0.01 * r.breakdown.step_time);
  double least = r.step_time;
  for (const Result::Stage& stage : r.stages) {
    CHECK(sum_of(stage.breakdown) == Approx(r.step_time).epsilon(1e-9));
    least = std::min(least, stage.breakdown.bubble);
  }
  if (!r.stages.empty()) CHECK(r.breakdown.bubble == Approx(least).margin(1e-8 * r.step_time));
  if (s.plan.inference) CHECK(r.breakdown.optimizer == 0);
}

/// Those whose steps have no more operations than `most`, with these fields changed where they can be.
int check_shipped(double most, const Overrides& changes = {}) {
  int checked = 0;
  for (const fs::path& file : shipped_scenarios()) {
    CAPTURE(file.string());
    try {
      const Scenario s = read_scenario(file, changes);
      if (s.prescribed_step.given()) continue;
      const Plan laid_out = plan(s);
      if (estimated_operations(laid_out) > most) continue;
      SimulateOptions options;
      options.critical_path = false;
      check_parts(simulate(s, laid_out, options), s);
      ++checked;
    } catch (const UserError&) {  // no scenario of a step: a question of `plan` or `size`, a list of prices
    }
  }
  return checked;
}

constexpr double kCheap = 3e5, kAll = 1e12;

}  // namespace

TEST_CASE("the parts of a shipped scenario's step sum to it", "[breakdown][scenarios]") {
  CHECK(check_shipped(kCheap) >= 30);
}

TEST_CASE("the parts of a shipped scenario's forward passes sum to them", "[breakdown][scenarios]") {
  Overrides changes{{"plan.mode", "inference"}};
  for (const char* of_training :
       {"plan.optimizer", "plan.training", "plan.recompute", "plan.measured_step", "learn", "faults", "input"})
    changes.emplace_back(of_training, "null");
  CHECK(check_shipped(kCheap, changes) >= 8);
}

TEST_CASE("the parts of every shipped scenario's step sum to it", "[breakdown][.deep]") {
  CHECK(check_shipped(kAll) >= 40);
}

TEST_CASE("a training has one length, with what failures cost", "[breakdown][failures]") {
  Result r;
  r.training_steps = 10;
  r.training_time = 864;
  nlohmann::ordered_json sound = nlohmann::ordered_json::parse(to_text(r));
  r.failures.emplace().end = 1728;
  nlohmann::ordered_json failing = nlohmann::ordered_json::parse(to_text(r));
  for (const auto& answer : {sound, failing})
    CHECK(answer.at("training_time_s") == answer.at("training_days").get<double>() * 86400);
  CHECK(sound.at("training_time_s") == 864);
  CHECK(failing.at("training_time_s") == 1728);
  CHECK(failing.at("training_time_s") == failing.at("failures").at("training_time_s"));
  CHECK(failing.at("training_time_without_failures_s") == 864);
  CHECK(result_from_text(failing.dump()).training_time == 864);
}

}  // namespace scenarios_test_parts
