// DiLoCo: groups of ranks train alone for many steps, and exchange what they learned over a slow network.
#include <catch2/catch.hpp>

#include "scenarios/src/running/simulate.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_diloco {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

/// Two sites with four T4 each, joined by 1 Gbit/s.
Scenario two_sites(const std::string& keys, const std::string& states = "zero_stage: 3, zero_group: 4") {
  return read_scenario_text(
      "cluster: {nodes: 2, node: {base: t4-server, hca: {rate: 1 Gbit/s, latency: 1 us}}, fabric: nonblocking}\n"
      "model: {base: gpt2, n_layer: 4}\nsoftware: pytorch-fsdp\n"
      "plan: {global_batch_size: 32, micro_batch_size: 4, seq_length: 1024, precision: fp16, optimizer: adamw, "
      "collectives: flows, data_parallel: {" +
          states + keys + "}}\n",
      "sites.yaml");
}

double exposed_seconds(const Result& r) {
  const auto& groups = r.breakdown.exposed_communication;
  const auto found = groups.find("all-reduce over copies");
  return found == groups.end() ? 0 : found->second;
}

}  // namespace

TEST_CASE("workers of DiLoCo pay for an exchange once in their inner steps", "[mechanism][diloco]") {
  const std::string diloco = ", mechanism: diloco, inner_steps: ";
  const Result summed = simulate(two_sites("")), four_steps = simulate(two_sites(diloco + "4")),
               eight_steps = simulate(two_sites(diloco + "8")),
               int8_exchange = simulate(two_sites(diloco + "4, outer_precision: int8"));
  CHECK(exposed_seconds(four_steps) > 0);
  CHECK(exposed_seconds(four_steps) == Approx(2 * exposed_seconds(eight_steps)).epsilon(0.02));
  CHECK(exposed_seconds(four_steps) == Approx(4 * exposed_seconds(int8_exchange)).epsilon(0.02));
  CHECK(four_steps.step_time.value < summed.step_time.value);
  CHECK(figure<std::int64_t>(four_steps.replicas, "inner_steps") == 4);
  CHECK(figure<std::int64_t>(four_steps.replicas, "workers") == 2);
  // The four GPUs of a site share, in fp32, the parameters at the beginning of the inner steps, and a momentum.
  const double parameters = two_sites("").network.parameters();
  CHECK(four_steps.memory.optimizer.value - summed.memory.optimizer.value == Approx(8 * parameters / 4).epsilon(1e-6));
  // An exchange that overlaps inner steps costs less, both whole and in fragments.
  const Result overlapped = simulate(two_sites(diloco + "8, overlap_steps: 7")),
               fragments = simulate(two_sites(diloco + "8, fragments: 2, overlap_steps: 3"));
  CHECK(exposed_seconds(overlapped) < 0.9 * exposed_seconds(eight_steps));
  CHECK(exposed_seconds(fragments) < 0.9 * exposed_seconds(eight_steps));
  // Other divisions of a model make workers too: here, each replica of two tensor ranks is one.
  const Result tensor_workers =
      simulate(read_again(two_sites(diloco + "4", "zero_stage: 0"), {{"plan.tensor_parallel", "2"}}));
  CHECK(figure<std::int64_t>(tensor_workers.replicas, "workers") == 4);
}

TEST_CASE("a lossy wide-area network is simulated, because workers exchange seldom", "[mechanism][diloco]") {
  const std::vector<std::pair<std::string, std::string>> lossy{{"cluster.node.hca.transport", "tcp"},
                                                               {"cluster.node.hca.flow_control", "none"},
                                                               {"cluster.node.hca.latency", "50 ms"},
                                                               {"cluster.node.hca.loss", "1e-4"}};
  const Scenario clean = two_sites(", mechanism: diloco, inner_steps: 100");
  CHECK(simulate(read_again(clean, lossy)).step_time > simulate(clean).step_time);
}

TEST_CASE("DiLoCo refuses plans that make no workers or no exchange", "[mechanism][diloco][errors]") {
  const auto error = [](const std::string& keys, const std::string& states = "zero_stage: 3, zero_group: 4") {
    return test::user_error([&] { two_sites(", mechanism: diloco, inner_steps: 4" + keys, states); });
  };
  CHECK_THAT(error("", "zero_stage: 3"), Contains("makes one worker of them; expected zero_group"));
  CHECK_THAT(error(", fragments: 3"), Contains("3 do not divide the 4 inner steps; nearest: 2 or 4"));
  CHECK_THAT(error(", overlap_steps: 4"), Contains("expected at most 3"));
  CHECK_THAT(error(", compression: {name: top-k, density: 0.01}", "zero_stage: 0"),
             Contains("workers exchange outer gradients"));
  CHECK_THAT(test::user_error([] { two_sites(", fragments: 2"); }), Contains("with mechanism diloco only"));
}

}  // namespace scenarios_test_diloco
