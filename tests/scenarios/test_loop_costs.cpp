// Money, energy and length of post-training loops, and of trainings with failures.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/running/bought_network.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/capacity.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"
#include "scenarios/src/studies/sweeps/sweep.hpp"
#include "tests/scenarios/loops.hpp"
#include "tools/reports/report.hpp"
#include "tools/reports/report_lines.hpp"

namespace scenarios_test_loop_costs {

using namespace trainyard;
using namespace trainyard::test;
using Catch::Matchers::Contains;

namespace {

constexpr double kGpuHour = 2.5, kNode = 300000;  // USD for an H100 and for a node of 8, in the example prices

const std::pair<std::string, std::string> kPrices{"prices",
                                                  "\"" + shipped_file("scenarios/prices-example.yml").string() + "\""};

/// Checks that money and energy are those of all nodes for a step of the loop.
void check_loop_costs(const Scenario& s, const Result& r) {
  const PostTrainingResult& p = *r.post_training;
  REQUIRE(r.money);
  const Money& money = *r.money;
  CHECK(r.gpus() == p.gpus);
  CHECK(r.whole_time().value == Approx(100 * p.step_time.value));
  CHECK(money.step == Approx(p.gpus * kGpuHour / 3600 * p.step_time.value));
  CHECK(money.training == Approx(100 * money.step));
  CHECK(money.per_million * 1e-6 * p.tokens_per_s * p.step_time.value == Approx(money.step));
  CHECK(money.per_million_answers * 1e-6 * static_cast<double>(s.post_training->samples()) == Approx(money.step));
  REQUIRE(money.ownership);
  CHECK(money.ownership->purchase_prices.at("nodes") == Approx(kNode * loop_machine(s).nodes));
  CHECK(money.ownership->per_million * 1e-6 * p.tokens_per_s * p.step_time.value * 100 ==
        Approx(money.ownership->training));
  CHECK(money.rents.front().training == Approx(money.training));
  REQUIRE(r.energy);
  const Energy& e = *r.energy;
  CHECK(e.parts.at("GPU") == Approx(e.gpu_power * p.gpus * p.step_time.value));
  CHECK(e.gpu_power < e.gpu_power_limit);
  CHECK(e.devices() > e.idle_power * p.step_time.value);
  CHECK(r.training_energy() == Approx(100 * e.step()));
  const nlohmann::json columns = nlohmann::json::parse(column_figures(r));
  CHECK(columns.at("gpus") == p.gpus);
  CHECK(columns.at("post_training_samples_per_s") == p.samples_per_s);
  CHECK(columns.at("money_step") == money.step);
  CHECK(columns.at("step_energy_J") == e.step());
}

}  // namespace

TEST_CASE("the switches that draw power are whole, and as many as are bought", "[costs]") {
  for (const char* fabric : {"nonblocking", "leaf-spine", "rail-optimized", "torus-2d", "dragonfly"}) {
    const Scenario s = read_scenario_text(
        fmt::format("cluster: {{nodes: 12, node: dgx-h100, fabric: {{base: {}, switch: quantum-2}}}}\n"
                    "model: gpt2\nplan: {{micro_batch_size: 2}}\nsite: {{pue: 1}}\n",
                    fabric),
        "x.yaml");
    const Result r = simulate(s);
    Purchase purchase;
    purchase.switch_ports = s.cluster.switch_ports;
    const BoughtNetwork bought = bought_network(s.cluster, purchase);
    const double switches = r.energy->parts.at("switch") / r.step_time.value / 747;
    CAPTURE(fabric, switches, bought.switches, bought.unknown);
    CHECK(switches == Approx(std::round(switches)));
    CHECK((!bought.unknown.empty() || switches == Approx(static_cast<double>(bought.switches))));
  }
}

TEST_CASE("the power of unlike GPUs is a mean between their limits", "[costs]") {
  const auto line = [](const std::vector<PoweredDevices>& devices) {
    Result r;
    r.energy = energy_of(devices, 10, Site{});
    r.samples_per_s = 1;
    return cost_lines(r);
  };
  const PoweredDevices large{"GPU", 3, {Watts{100}, Watts{700}}, 1}, small{"GPU", 1, {Watts{100}, Watts{400}}, 1};
  for (const auto& both : {std::vector{large, small}, std::vector{small, large}})
    CHECK_THAT(line(both), Contains("625 W a GPU on average, whose limits are 400 to 700 W"));
  CHECK_THAT(line({small, small}), Contains("400 of 400 W a GPU"));
}

TEST_CASE("a bought node is a whole one, and the purchase says so if the cluster has fewer of its GPUs", "[costs]") {
  for (const int gpus : {1, 8}) {
    const Scenario s = read_scenario(
        parse_document(fmt::format("cluster: {{node: {{base: dgx-a100, gpu: {{count: {}}}}}}}\nmodel: gpt2\n"
                                   "plan: {{micro_batch_size: 2}}\n",
                                   gpus),
                       "x.yaml"),
        "x", {kPrices});
    const Result r = simulate_training(s);
    REQUIRE((r.money && r.money->ownership));
    CHECK(r.money->ownership->purchase_prices.at("nodes") == 150000);
    CHECK((cost_lines(r).find("bought whole: a dgx-a100 of 8 GPUs, of which the cluster has 1") != std::string::npos) ==
          (gpus == 1));
  }
}

TEST_CASE("money, energy and length of a loop are those of all its nodes", "[post-training][costs]") {
  const Overrides priced{kPrices, {"post_training.length", "{steps: 100}"}, {"faults", "null"}};
  for (const char* name : {kLoop, "post-training-llama3-8b-8xh100", "post-training-dpo-llama3-8b-8xh100",
                           "post-training-qwen3-32b-64xh100", "post-training-qwen3-235b-512xh100"}) {
    CAPTURE(name);
    const Scenario s = loop_scenario(priced, name);
    check_loop_costs(s, simulate_training(s, {.critical_path = false}));
  }
  Overrides apart = priced;
  apart.emplace_back("post_training.generation.nodes", "1");
  for (const char* hybrid : {"false", "true"}) {
    apart.emplace_back("post_training.generation.hybrid", hybrid);
    const Scenario s = loop_scenario(apart);
    const Result r = simulate_training(s, {.critical_path = false});
    check_loop_costs(s, r);
    const std::string screen = post_training_screen(s, r);
    CHECK_THAT(screen, Contains("a loop step") && Contains("nodes 600,000") && Contains("a million answers"));
  }
}

TEST_CASE("a node that only generates draws more than an idle one, and less than one that trains all the time",
          "[post-training][costs]") {
  Overrides overrides{{"post_training.generation.nodes", "1"}};
  const Result apart = simulate_training(loop_scenario(overrides), {.critical_path = false});
  const double step = apart.post_training->step_time.value;
  const double half = simulate_here(loop_scenario(overrides), {.critical_path = false}).energy->devices();
  const double training = half / apart.step_time.value * step * (1 - apart.post_training->idle_training);
  CHECK(apart.energy->devices() > training + apart.energy->idle_power / 2 * step);
  CHECK(apart.energy->devices() < 2 * half / apart.step_time.value * step);
}

TEST_CASE("the cost of a million tokens counts failures, so that the parts multiply to the total", "[costs]") {
  const Scenario s = read_scenario(scenario_file("failures-llama3-16k"), {kPrices});
  const Result r = simulate_training(s, {.critical_path = false});
  REQUIRE(r.money);
  REQUIRE(r.failures);
  CHECK(r.failures->goodput < 1);
  const double tokens = static_cast<double>(s.global_batch_size * s.network.tokens_per_sample) * r.failures->steps;
  CHECK(r.money->per_million * 1e-6 * tokens == Approx(r.money->training));
  CHECK(r.money->step * r.failures->steps == Approx(r.money->training));
  if (r.money->ownership)
    CHECK(r.money->ownership->per_million * 1e-6 * tokens == Approx(r.money->ownership->training));
}

TEST_CASE("the largest micro-batch of a loop is no smaller than one that fits", "[post-training][capacity]") {
  for (const char* name : {kLoop, "post-training-dpo-llama3-8b-8xh100"}) {
    CAPTURE(name);
    const Scenario s = loop_scenario({}, name);
    const Result r = simulate_here(s, {.critical_path = false});
    REQUIRE(std::string(r.fits_in_words()) == "yes");
    const Capacity room = capacity(s);
    const std::int64_t packs = s.micro_batch_size / s.post_training->packs->sequences;  // as plan.micro_batch_size
    CHECK(room.counts_packs);
    CHECK(room.largest_micro_batch_size >= packs);
    CHECK(room.safe_micro_batch_size >= packs);
    // The plan takes the number that the screen prints, and it fits.
    const std::string size = std::to_string(room.safe_micro_batch_size);
    const Result largest =
        simulate_here(loop_scenario({{"plan.micro_batch_size", size}}, name), {.critical_path = false});
    CHECK(std::string(largest.fits_in_words()) == "yes");
    CHECK_THAT(capacity_line(room), Contains(": " + size + " pack"));
    CHECK(room.safe_micro_batch_size <= room.largest_micro_batch_size);
  }
}

// Regression: the memory of the reference did not count in the largest micro-batch.
TEST_CASE("the largest micro-batch of a loop fits beside its other models, and a larger one does not",
          "[post-training][capacity]") {
  const char* const name = "post-training-dpo-llama3-8b-8xh100";
  for (const char* memory : {"56 GiB", "58 GiB", "60 GiB"}) {
    CAPTURE(memory);
    const Overrides small{{"cluster.node.gpu.memory_capacity", memory}};
    const Capacity room = capacity(loop_scenario(small, name));
    const auto run = [&](std::int64_t size) {
      Overrides all = small;
      all.emplace_back("plan.micro_batch_size", std::to_string(size));
      return simulate_here(loop_scenario(all, name), {.critical_path = false});
    };
    REQUIRE(room.largest_micro_batch_size > 0);
    CHECK(run(room.largest_micro_batch_size).fits);
    if (room.largest_micro_batch_size < 5) CHECK_FALSE(run(room.largest_micro_batch_size + 1).fits);
  }
  // A rank has five packs, so that no more of them can be a micro-batch.
  const Capacity large = capacity(loop_scenario({}, name));
  CHECK(large.largest_micro_batch_size == 5);
  CHECK_THAT(capacity_line(large), Contains(": 5 packs") && !Contains("with a risk below 50 %: 5;"));
}

TEST_CASE("the largest safe micro-batch of a pipeline may exceed one that fits with as many micro-batches",
          "[capacity]") {
  const Scenario s = read_scenario(scenario_file("naive-vs-gpipe"));
  const Capacity room = capacity(s);
  CHECK(room.safe_micro_batch_size > room.largest_micro_batch_size);
  const std::string size = std::to_string(room.safe_micro_batch_size);
  const Result r = simulate_training(read_scenario(scenario_file("naive-vs-gpipe"), {{"plan.micro_batch_size", size}}),
                                     {.critical_path = false});
  CHECK(std::string(r.fits_in_words()) == "yes");
}

TEST_CASE("the idle share of an asynchronous loop is that of its engines, and a full cache is called full",
          "[post-training]") {
  for (const char* share : {"0.45", "0.6"}) {
    CAPTURE(share);
    const Scenario s = loop_scenario({{"post_training.generation.nodes", "1"},
                                      {"post_training.schedule", "asynchronous"},
                                      {"post_training.staleness", "1"},
                                      {"post_training.generation.memory_share", share}});
    const Result r = simulate_here(s, {.critical_path = false});
    const PostTrainingResult& p = *r.post_training;
    CHECK(p.idle_generation == p.idle_engines);
    CHECK((1 - p.idle_generation) * p.step_time.value == Approx(p.busy_engine.value));
    const std::string screen = post_training_screen(s, r);
    CHECK_THAT(screen, Contains(fmt::format("an engine works {:.2f} s", p.busy_engine.value)));
    const bool is_full = p.memory.cache_peak.value > 0.99 * p.memory.cache.value;
    CHECK(is_full == (std::string(share) == "0.45"));
    CHECK(is_full == (screen.find("never full") == std::string::npos));
    CHECK((p.preemptions > 0) == (screen.find("sequences gave theirs up") != std::string::npos));
  }
  // A cache that takes all answers at once never refuses one.
  const PlainCosts roomy;
  CHECK(run_engine(roomy, planned_answers(200, 0.8), kLimits).refusals == 0);
  PlainCosts narrow;
  narrow.bytes = Bytes{4000};
  CHECK(run_engine(narrow, planned_answers(200, 0.8), kLimits).refusals > 0);
}

}  // namespace scenarios_test_loop_costs
