// Training on FPGAs and ASICs: their energy and their prices.
#include <catch2/catch.hpp>
#include <filesystem>

#include "models/energy/prices.hpp"
#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"

namespace scenarios_test_accelerators {

using namespace trainyard;

TEST_CASE("an FPGA is configured once, and takes more energy for a step than an ASIC", "[costs]") {
  const auto trained_on = [](const std::string& node) {
    return simulate_training(
        read_scenario(std::filesystem::path(TRAINYARD_SOURCE_DIR) / "scenarios" / "accelerators-gpt2.yaml",
                      {{"cluster.node", node}}));
  };
  const Result fpga = trained_on("stratix-10-nx-2x");
  REQUIRE(fpga.phases.size() == 1);
  CHECK(fpga.training_time.value == Approx(1000 * fpga.step_time.value + 1));
  for (const char* node : {"tpu-v5e-host", "gaudi-3-8x"}) {
    INFO(node);
    const Result asic = trained_on(node);
    CHECK(asic.phases.empty());
    CHECK(asic.step_time.value < fpga.step_time.value);
    // One chip is compared, because hosts have different numbers of chips.
    REQUIRE(asic.energy);
    CHECK(asic.energy->gpu_power * asic.step_time.value < fpga.energy->gpu_power * fpga.step_time.value);
  }
  CHECK_THROWS_WITH(
      read_scenario_text("cluster: {node: pcie-1, gpu: {reconfigure: 1 s}}\nmodel: gpt2\nplan: {micro_batch_size: 1}\n",
                         "x.yaml"),
      Catch::Matchers::Contains("only for kind fpga"));
}

TEST_CASE("a million tokens on ASICs cost less energy and money than on FPGAs, by list prices", "[costs]") {
  const std::filesystem::path folder = std::filesystem::path(TRAINYARD_SOURCE_DIR) / "scenarios";
  const auto trained_on = [&folder](const std::string& node, int chips) {
    Scenario s =
        read_scenario(folder / "accelerators-gpt2.yaml", {{"cluster.node", node},
                                                          {"plan.global_batch_size", std::to_string(8 * chips)},
                                                          {"plan.data_parallel.size", std::to_string(chips)}});
    s.prices = read_prices(read_document(folder / "prices-accelerators.yml"));
    return simulate_training(s);
  };
  const Result fpga = trained_on("stratix-10-nx-2x", 2);
  REQUIRE(fpga.money);
  // The training's time has the configuration of the FPGA, too.
  CHECK(fpga.whole_time() > fpga.step_time * fpga.training_steps);
  CHECK(fpga.money->step == Approx(fpga.whole_time().value / fpga.training_steps * 2 * 1.65 / 3600));
  for (const char* node : {"tpu-v5e-host", "gaudi-3-8x"}) {
    INFO(node);
    const Result asic = trained_on(node, 8);
    CHECK(asic.money->per_million < fpga.money->per_million);
    CHECK(asic.energy->step() / 8 < fpga.energy->step() / 2);
  }
  // The energy and the price of the Gaudi's host are counted.
  CHECK(trained_on("gaudi-3-8x", 8).energy->parts.count("CPU") == 1);
  CHECK(trained_on("gaudi-3-8x", 8).money->ownership->price() == 8 * 15625);
}

}  // namespace scenarios_test_accelerators
