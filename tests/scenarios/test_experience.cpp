// The measured steps with which a step is compared: how far it is from them, and how much each source counts.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "scenarios/src/studies/measured/step_doubt.hpp"

namespace scenarios_test_experience {

using namespace trainyard;

namespace {

/// A dense step of a stack with these shares of the critical path.
StepProfile step_at(const PartShares& path, const char* stack = "nemo") {
  StepProfile profile;
  profile.traits = {"dense decoders", stack, "h100", "bf16"};
  profile.devices = 8;
  profile.path = path;
  return profile;
}

LeftOutStep left_out(const std::string& family, const std::string& source, const StepProfile& profile,
                     double error = 0) {
  return {"training", family, "1", source, profile, 0, error};
}

}  // namespace

TEST_CASE("a step is as far as the nearest measured one of its stack, or of any stack if its own was not measured",
          "[coverage]") {
  const std::vector<LeftOutStep> steps{left_out("a", "nvidia", step_at({})),
                                       left_out("b", "nvidia", step_at({0.3, 0.4, 0})),
                                       left_out("c", "google", step_at({0, 0, 0.1}, "jax"))};
  const Experience all(steps), without_first(steps, "a");
  StepProfile step = step_at({}, "nemo@24.01");
  CHECK(all.distance(step) == 0);
  CHECK(without_first.distance(step) == Approx(0.5));
  CHECK(without_first.distance(step_at({}, "fsdp")) == Approx(0.1));
  CHECK(Experience({}).distance(step) == 0);
  step.slow_host = 0.01 * std::exp(1);  // shares below 0.01 are alike
  CHECK(all.distance(step) == Approx(0.05));
  step = step_at({});
  step.devices = 16;
  CHECK(all.distance(step) == Approx(0.03 * std::log(2)));
  // A step that is far from all measured ones is as doubtful as one at a distance of 0.2.
  const auto term =
      std::ranges::find_if(doubt_terms(), [](const DoubtTerm& t) { return std::string(t.key) == "distance"; });
  REQUIRE(term != doubt_terms().end());
  CHECK(term->amount(step_at({0, 0, 0.1}), all) == Approx(0.1));
  CHECK(term->amount(step_at({0, 0, 1}), all) == Approx(0.2));
}

TEST_CASE("a family of a source with many counts less than one that is alone", "[coverage]") {
  // Some families are right, and one of another source is 20 % off.
  const auto spread = [](int right, bool alone) {
    std::vector<LeftOutStep> steps{left_out("wrong", "other", step_at({}), 0.2)};
    for (int i = 0; i < right; ++i) {
      const std::string name = fmt::format("{:02}", i);
      steps.push_back(left_out(name, alone ? name : "sisters", step_at({}), 0.01));
    }
    return DoubtModel::fit(steps).spread_of("any");
  };
  CHECK(spread(16, false) > spread(16, true));
  CHECK(spread(16, false) == Approx(spread(8, true)).epsilon(1e-3));  // 16 sisters count as 16^(3/4) families
}

}  // namespace scenarios_test_experience
