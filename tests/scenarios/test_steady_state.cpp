// Gossip, late updates, local steps, workers out of step, stragglers: what is answered is the rate that lasts.
#include <fmt/format.h>

#include "scenarios/simulate.hpp"
#include "tests/support.hpp"

using namespace trainyard;
using namespace trainyard::test;

namespace {

/// Nodes of one GPU, each on a wire to one switch; 100 ms of computing a step.
Scenario replicas_of(int nodes, const std::string& data_parallel, const std::string& more = "",
                     const Overrides& overrides = {}) {
  return read_scenario_text(
      fmt::format("cluster: {{nodes: {}, node: {{base: pcie-1, gpu: {{type: p100-pcie-16gb}}, hca: {{count: 1, rate: 8 "
                  "Gbit/s, latency: 0 us}}}}, fabric: nonblocking}}\n"
                  "model: {{mlp: {{widths: [1000, 1000, 1000]}}}}\n"
                  "plan: {{micro_batch_size: 2048, precision: fp32, optimizer: sgd, measured_step: {{source: me, "
                  "table: {{2048: 100 ms}}}}, data_parallel: {{{}}}}}\n"
                  "{}",
                  nodes, data_parallel, more),
      "replicas.yaml", overrides);
}

Result run_replicas(int nodes, const std::string& data_parallel, const std::string& more = "",
                    const Overrides& overrides = {}) {
  SimulateOptions options;
  options.critical_path = false;
  return simulate(replicas_of(nodes, data_parallel, more, overrides), options);
}

std::string refusal_of(int nodes, const std::string& data_parallel, const Overrides& overrides = {}) {
  try {
    replicas_of(nodes, data_parallel, "", overrides);
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

constexpr double kWeights = 4 * (2e6 + 2000);  // bytes

}  // namespace

TEST_CASE("gossip takes as long as the neighbours' parameters on one wire, on any graph", "[replicas]") {
  struct Case {
    const char* gossip;
    int nodes, degree;
  };
  for (const Case& c :
       {Case{"ring", 2, 1}, Case{"ring", 3, 2}, Case{"ring", 4, 2}, Case{"ring", 5, 2}, Case{"ring", 8, 2},
        Case{"ring", 17, 2}, Case{"torus", 9, 4}, Case{"torus", 12, 4}, Case{"torus", 16, 4}, Case{"pairs", 8, 1},
        Case{"pairs", 9, 1}, Case{"{edges: [[0, 1], [1, 2], [2, 3]]}", 4, 2},
        Case{"{edges: [[0, 1], [0, 2], [0, 3], [3, 4], [1, 2]]}", 5, 3}}) {
    CAPTURE(c.gossip, c.nodes);
    const std::string plan = fmt::format("gossip: {}", c.gossip);
    const double slow = run_replicas(c.nodes, plan).step_time,
                 fast = run_replicas(c.nodes, plan, "", {{"cluster.node.hca.rate", "16 Gbit/s"}}).step_time;
    CHECK(slow - fast == near(c.degree * kWeights * (1 / 1e9 - 1 / 2e9)));
    CHECK(slow > 0.1 + c.degree * kWeights / 1e9);
  }
}

TEST_CASE("more neighbours than a rank has streams share them", "[replicas]") {
  std::string edges;
  for (int leaf = 1; leaf <= 70; ++leaf) edges += fmt::format("{}[0, {}]", leaf > 1 ? ", " : "", leaf);
  const std::string plan = fmt::format("gossip: {{edges: [{}]}}", edges);
  const double slow = run_replicas(71, plan).step_time,
               fast = run_replicas(71, plan, "", {{"cluster.node.hca.rate", "16 Gbit/s"}}).step_time;
  CHECK(slow - fast == near(70 * kWeights * (1 / 1e9 - 1 / 2e9)));
}

TEST_CASE("edges of gossip that are there twice are refused", "[replicas]") {
  CHECK_THAT(refusal_of(3, "gossip: {edges: [[0, 1], [1, 2], [1, 0]]}"),
             Catch::StartsWith("replicas.yaml:3") && Catch::Contains("edge 1 - 0 is there twice"));
}
