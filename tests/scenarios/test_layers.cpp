// The costs of each layer, and the largest batch and network that fit.
#include <catch2/catch.hpp>
#include <filesystem>
#include <optional>
#include <vector>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/planning/size.hpp"
#include "scenarios/src/running/program_memory.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/capacity.hpp"
#include "scenarios/src/studies/layer_costs.hpp"
#include "scenarios/src/studies/measured/measured_runs.hpp"

namespace scenarios_test_layers {

using namespace trainyard;

namespace {

Scenario layered_scenario(const Overrides& overrides = {}) {
  return read_scenario_text(
      "cluster: {nodes: 1, node: {base: dgx-a100, gpu: {count: 1}}}\nmodel: {base: gpt2, n_layer: 4}\n"
      "plan: {micro_batch_size: 4, global_batch_size: 8, seq_length: 256, precision: bf16}\n"
      "software: {base: pytorch-ddp, kernel_dispatch: 5 us, host: {runs_ahead: false}}\n",
      "layered.yaml", overrides);
}

LayerCosts costs_of(const Scenario& s, int rank) { return layer_costs(s, plan(s).training, rank); }

const Overrides kFourRanks{{"cluster.node.gpu.count", "4"}, {"plan.global_batch_size", "32"}};

}  // namespace

TEST_CASE("the times of layers sum to the compute time of the simulated step", "[layers]") {
  const Scenario s = layered_scenario();
  const LayerCosts costs = costs_of(s, 0);
  const Result r = simulate(s);
  CHECK(r.breakdown.compute.value == Approx(costs.step().value).epsilon(1e-9));
  REQUIRE(costs.layers.size() == s.network.layers.size());
  CHECK(costs.micro_batch.flops == s.network.forward_flops() + s.network.backward_flops());
  CHECK(costs.accumulation > Seconds{0});
  CHECK(costs.bucket_copies == Seconds{0});
  for (std::size_t i = 2; i < 5; ++i) CHECK(costs.layers[i].same_cost(costs.layers[1]));
  for (const LayerCost& layer : costs.layers) {
    const KernelTotals all = layer.both_passes();
    Seconds parts;
    for (const Seconds& part : all.parts) parts += part;
    CHECK(parts.value == Approx(all.time.value));
    CHECK(all.dispatch <= all.parts[static_cast<std::size_t>(KernelBound::launch)]);
  }
}

TEST_CASE("with many ranks, interference explains the compute time that the layers do not sum to", "[layers]") {
  const Scenario s = layered_scenario(kFourRanks);
  const Result r = simulate(s);
  const LayerCosts costs = costs_of(s, r.breakdown.rank);
  CHECK(costs.bucket_copies > Seconds{0});
  CHECK(r.breakdown.compute.value > costs.step().value);
  CHECK(r.breakdown.compute.value < costs.step().value / s.cluster.node.gpu.compute_while_communicating);
  Overrides no_interference = kFourRanks;
  no_interference.emplace_back("cluster.gpu.interference", "null");
  const Scenario undisturbed = layered_scenario(no_interference);
  CHECK(simulate(undisturbed).breakdown.compute.value == Approx(costs_of(undisturbed, 0).step().value).epsilon(1e-9));
}

TEST_CASE("a layer is bound by the resource that limits its kernels", "[layers]") {
  const LayerCosts small = costs_of(layered_scenario({{"plan.micro_batch_size", "1"}, {"plan.seq_length", "16"}}), 0);
  CHECK(small.layers[1].both_passes().bound() == KernelBound::launch);
  CHECK(small.micro_batch.dispatch > Seconds{0});
  const LayerCosts large = costs_of(
      layered_scenario({{"plan.micro_batch_size", "64"}, {"plan.global_batch_size", "64"}, {"software", "plain"}}), 0);
  CHECK(large.layers[0].both_passes().bound() == KernelBound::memory);  // the embedding looks words up
  CHECK(large.layers[0].both_passes().flops_per_byte() == 0);
  CHECK(large.micro_batch.dispatch == Seconds{0});
  CHECK(large.ridge == Approx(312e12 / 2039e9));
  const LayerCosts slow = costs_of(layered_scenario({{"cluster.gpu.peak.bf16", "1 TFLOP/s"}}), 0);
  CHECK(slow.layers[1].both_passes().bound() == KernelBound::compute);
}

TEST_CASE("the memory that capacity counts is that of the simulated step", "[capacity]") {
  for (const Scenario& s : {layered_scenario(), layered_scenario(kFourRanks)})
    CHECK(peak_memory_alone(s, plan(s).training).value == simulate(s).memory.peak.value);
}

TEST_CASE("memory that programs alone decide is that of the simulated step, to the last bit", "[capacity]") {
  int compared = 0, pipelines = 0;
  const auto compare = [&](const std::string& name, const Scenario& s) {
    CAPTURE(name);
    const Plan laid_out = plan(s);
    if (s.prescribed_step.exists() || s.ranks() > 2048 || estimated_operations(laid_out, true) > 2e6) return;
    const std::optional<Result> alone = memory_by_programs(s, laid_out);
    if (!alone) return;
    ++compared;
    pipelines += s.plan.mesh.pipeline > 1 ? 1 : 0;
    const auto figures = [](const Result& r) {
      const Result::Memory& m = r.memory;
      return std::vector<double>{m.peak.value,        m.parameters.value, m.gradients.value, m.optimizer.value,
                                 m.activations.value, m.buffers.value,    m.reserved.value,  m.device.value,
                                 m.needed.value,      m.usable.value,     m.capacity.value,  r.risk,
                                 r.fits ? 1.0 : 0.0,  1.0 * m.rank,       1.0 * m.stage,     r.memory_interval.front()};
    };
    CHECK(figures(*alone) == figures(simulate_here(s, laid_out, {.critical_path = false})));
  };
  for (const std::filesystem::path& file : shipped_yaml_files("scenarios")) {
    std::optional<Scenario> s;
    try {
      s.emplace(read_scenario(file));
    } catch (const UserError&) {  // no scenario of a training
      continue;
    }
    compare(file.stem().string(), *s);
  }
  for (const MeasuredFamily& family : measured_families({"training", "training-2026", "memory"}))
    compare(family.name, read_scenario(family.scenario(0), family.ids[0]));
  CHECK(compared >= 30);
  CHECK(pipelines >= 10);
  // Exchanges that free memory on a stream of their own leave it to their times.
  const Scenario sharded = read_scenario(shipped_file("scenarios/llama3-8b-fsdp-64xh100.yaml"));
  CHECK_FALSE(memory_by_programs(sharded, plan(sharded)));
}

TEST_CASE("largest_that_fits finds the last size that fits, from any guess", "[capacity]") {
  for (const std::int64_t answer : {0, 1, 2, 7, 100, 12345})
    for (const std::int64_t guess : {1, 3, 100, 100000}) {
      int probes = 0;
      CHECK(largest_that_fits(guess, [&](std::int64_t n) { return ++probes, n <= answer; }) == answer);
      CHECK(probes < 40);
    }
}

TEST_CASE("one more sample, or one more layer, than capacity says does not fit", "[capacity]") {
  const Overrides tight{{"cluster.gpu.memory_capacity", "6 GiB"}};
  const Scenario s = layered_scenario(tight);
  const Capacity room = capacity(s);
  REQUIRE(room.largest_micro_batch_size > 0);
  REQUIRE(room.largest_num_hidden_layers);
  const auto fits = [&](const std::string& key, std::int64_t n) {
    Overrides overrides = tight;
    overrides.emplace_back(key, std::to_string(n));
    if (key == "plan.micro_batch_size") overrides.emplace_back("plan.global_batch_size", std::to_string(n));
    return simulate(layered_scenario(overrides)).fits;
  };
  CHECK(fits("plan.micro_batch_size", room.largest_micro_batch_size));
  CHECK_FALSE(fits("plan.micro_batch_size", room.largest_micro_batch_size + 1));
  const auto risk = [&](std::int64_t micro_batch) {
    Overrides overrides = tight;
    overrides.emplace_back("plan.micro_batch_size", std::to_string(micro_batch));
    return simulate(layered_scenario(overrides)).risk;
  };
  REQUIRE(room.safe_micro_batch_size > 0);
  CHECK(room.safe_micro_batch_size <= room.largest_micro_batch_size);
  CHECK(8 % room.safe_micro_batch_size == 0);
  CHECK(risk(room.safe_micro_batch_size) < 0.05);
  for (const std::int64_t larger : {2, 4, 8})
    if (larger > room.safe_micro_batch_size) CHECK(risk(larger) >= 0.05);
  CHECK(fits("model.n_layer", *room.largest_num_hidden_layers));
  CHECK_FALSE(fits("model.n_layer", *room.largest_num_hidden_layers + 1));
}

TEST_CASE("a GPU too small for anything has room for nothing", "[capacity]") {
  const Capacity none = capacity(layered_scenario({{"cluster.gpu.memory_capacity", "1 MiB"}}));
  CHECK(none.largest_micro_batch_size == 0);
  CHECK(none.largest_num_hidden_layers == 0);
  const Scenario mlp = read_scenario_text(
      "cluster: {node: pcie-1}\nmodel: {mlp: {widths: [8, 8]}}\nplan: {precision: fp32, micro_batch_size: 1}\n",
      "mlp.yaml");
  CHECK_FALSE(capacity(mlp).largest_num_hidden_layers);
}

TEST_CASE("states that exceed the memory do not fit, whatever the doubt", "[capacity][memory]") {
  const std::pair<const char*, Overrides> cases[] = {
      {"scenarios/lessons/5-memory-and-zero/45-does-it-fit.yaml", {}},
      {"scenarios/lessons/5-memory-and-zero/45-does-it-fit.yaml",
       {{"model", "gpt3-175b"},
        {"plan.mode", "inference"},
        {"plan.optimizer", "null"},
        {"cluster.node", "dgx-a100-40gb"},
        {"plan.tensor_parallel", "8"}}},
      {"scenarios/zero-stages.yaml", {}},
      {"scenarios/zero-stages.yaml", {{"plan.data_parallel.zero_stage", "3"}}},
      {"scenarios/llama3-8b-fsdp-64xh100.yaml", {}},
      {"scenarios/gpt2-xl-ddp-dgx-a100.yaml", {{"cluster.nodes", "1"}}}};
  for (const auto& [file, overrides] : cases) {
    CAPTURE(file, overrides);
    const Scenario s = read_scenario(shipped_file(file), overrides);
    const Result plenty = memory_of_step(s);
    const Bytes states = plenty.memory.parameters + plenty.memory.gradients + plenty.memory.optimizer;
    REQUIRE(states > Bytes{1e6});
    Overrides tight = overrides;
    tight.emplace_back("cluster.gpu.memory_capacity",
                       std::to_string((0.99 * states + s.cluster.node.gpu.driver_memory).value) + " B");
    const Result r = memory_of_step(read_scenario(shipped_file(file), tight));
    CHECK(r.risk == 1);
    CHECK_FALSE(r.fits);
    CHECK(std::string(r.fits_in_words()) == "no");
  }
}

}  // namespace scenarios_test_layers
