// The length of a training, and what it needs before its first step.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "tools/reports/report.hpp"

namespace tools_test_training_length {

using namespace trainyard;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

TEST_CASE("starting weights that are larger than the host memory are reported", "[training]") {
  const fs::path file = fs::path(TRAINYARD_SOURCE_DIR) / "scenarios/gpt2-xl-ddp-dgx-a100.yaml";
  for (const auto& [memory, fits] : {std::pair{"1 GiB", false}, {"64 GiB", true}}) {
    const Scenario s =
        read_scenario(file, {{"cluster.host_memory", memory}, {"plan.training", "{steps: 1000, weights: true}"}});
    const Plan laid_out = plan(s);
    const Result r = simulate_training(s, laid_out, {});
    CHECK(r.fits == fits);
    CHECK((screen(s, laid_out, r, {}).find("host memory of rank 0's node: 2.9 of") != std::string::npos));
  }
}

TEST_CASE("the length of a training includes the cost of failures", "[breakdown][failures]") {
  Result r;
  r.training_steps = 10;
  r.training_time.value = 864;
  Json sound = to_json(r);
  r.failures.emplace().end.value = 1728;
  Json failing = to_json(r);
  for (const auto& answer : {sound, failing})
    CHECK(answer.at("training_time_s") == answer.at("training_days").get<double>() * 86400);
  CHECK(sound.at("training_time_s") == 864);
  CHECK(failing.at("training_time_s") == 1728);
  CHECK(failing.at("training_time_s") == failing.at("failures").at("training_time_s"));
  CHECK(failing.at("training_time_without_failures_s") == 864);
  CHECK(result_from_json(failing).training_time.value == 864);
}

}  // namespace tools_test_training_length
