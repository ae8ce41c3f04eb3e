#pragma once
#include <string>

#include "scenarios/src/running/learn_run.hpp"
#include "tests/support.hpp"

namespace trainyard::test {

/// A training of a small network on `ranks` nodes with one P100 each. Two more nodes hold servers or stay idle.
struct Learned {
  int ranks = 4;
  int samples = 8;  ///< samples of a rank in a step
  std::string data_parallel = "all_reduce: ring", optimizer = "momentum", rate = "10 Gbit/s";
  std::string learn = "task: mlp, layers: [16], data: {samples: 512, classes: 4, features: 8}, steps: 60";
  std::string faults = "";
  std::string plan = "";

  std::string text() const {
    return fmt::format(
        "cluster: {{nodes: {}, node: {{base: pcie-1, gpu: {{type: p100-pcie-16gb}}, cpu: xeon-e5-2698-v4, hca: "
        "{{count: 1, rate: {}, latency: 5 us}}}}, fabric: nonblocking}}\n"
        "model: {{mlp: {{widths: [256, 512, 512, 10], loss: softmax_cross_entropy}}}}\n"
        "plan: {{idle_devices: allowed, micro_batch_size: {}, precision: fp32, optimizer: {}, data_parallel: {{size: "
        "{}, {}}}{}}}\n"
        "{}learn: {{{}}}\n",
        ranks + 2, rate, samples, optimizer, ranks, data_parallel, plan, faults, learn);
  }
  Scenario scenario(std::uint64_t seed = 1) const {
    return read_scenario_text(text(), "learned.yaml", {{"learn.seed", std::to_string(seed)}});
  }
  LearnResult run(std::uint64_t seed = 1) const { return trainyard::learn(scenario(seed), {.noise = false}); }
  /// Returns the mean of the last losses over five seeds.
  double mean_loss() const {
    double sum = 0;
    for (std::uint64_t seed = 1; seed <= 5; ++seed) sum += run(seed).last().loss / 5;
    return sum;
  }
};

}  // namespace trainyard::test
