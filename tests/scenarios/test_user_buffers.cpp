// Exchanges of sequence parallelism: a library hides a stated part of them behind matrix products.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "scenarios/src/answer/result.hpp"
#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "tests/user_errors.hpp"
#include "tools/reports/report.hpp"

namespace scenarios_test_user_buffers {

using namespace trainyard;

namespace {

constexpr double kRate = 300e9, kTokens = 8 * 1024, kHidden = 768, kLayers = 2, kRanks = 2;

/// Returns a scenario in which only arithmetic and transfers take time, and neither slows the other.
Scenario ideal_scenario(const std::string& overlap, const Overrides& more = {}) {
  const std::string text =
      "cluster:\n  node:\n    base: dgx-a100\n    nvlink: {latency: 0 us}\n    gpu:\n      nvlink: 300 GB/s\n"
      "      interference: {compute_while_communicating: 1, communication_while_computing: 1}\n"
      "model: {base: gpt2, n_layer: 2}\nsoftware: plain\n"
      "plan:\n  global_batch_size: 8\n  micro_batch_size: 8\n  data_parallel: 1\n  tensor_parallel: 2\n"
      "  sequence_parallel: true\n  collectives: messages\n  tensor_parallel_overlap: " +
      overlap + "\n  idle_devices: allowed\n";
  return read_scenario_text(text, "ideal.yaml", more);
}

std::string error_of(const std::string& overlap, const Overrides& more = {}) {
  return test::user_error([&] { plan(ideal_scenario(overlap, more)); });
}

}  // namespace

TEST_CASE("a step waits only for the part of an exchange that user buffers do not hide, and all bytes are sent",
          "[user-buffers]") {
  const Result without_overlap = simulate(ideal_scenario("false"));
  // Each block has two all-gathers and two reduce-scatters in each pass, the head one of each.
  const double exchange = kTokens * kHidden * 2 * (kRanks - 1) / kRanks / kRate, exchanges = 8 * kLayers + 2;
  const double exposed = without_overlap.breakdown.exposed_communication.at("tensor parallel");
  for (const double part : {0.0, 0.25, 0.5}) {
    const Result r = simulate(ideal_scenario(fmt::format("{{user_buffers: {{overlapped: {}}}}}", part)));
    CAPTURE(part);
    CHECK(r.breakdown.exposed_communication.at("tensor parallel") ==
          Approx(exposed - part * exchanges * exchange).epsilon(1e-9));
    CHECK(r.step_time.value == Approx(without_overlap.step_time.value - part * exchanges * exchange).epsilon(1e-9));
    CHECK(r.bytes_total.value == Approx(without_overlap.bytes_total.value).epsilon(1e-12));
  }
}

TEST_CASE("an exchange is hidden no longer than its matrix product takes", "[user-buffers]") {
  const Overrides slow{{"cluster.node.gpu.nvlink", "3 GB/s"}};
  const double without_overlap = simulate(ideal_scenario("false", slow)).step_time.value;
  const double with_overlap = simulate(ideal_scenario("{user_buffers: {overlapped: 1}}", slow)).step_time.value;
  CHECK(with_overlap < without_overlap);
  CHECK(with_overlap > 0.5 * without_overlap);  // exchanges take far longer than products
}

TEST_CASE("a stack states the part, a plan may state another", "[user-buffers]") {
  const Overrides nemo{{"software", "nemo"}};
  CHECK(ideal_scenario("user-buffers", nemo).plan.sharding.user_buffers == 0.56);
  CHECK(ideal_scenario("~", nemo).plan.sharding.user_buffers == 0.56);
  CHECK(ideal_scenario("false", nemo).plan.sharding.user_buffers == 0);
  CHECK(ideal_scenario("{user_buffers: {overlapped: 0.5}}", nemo).plan.sharding.user_buffers == 0.5);
  CHECK(ideal_scenario("~").plan.sharding.user_buffers == 0);
  // User buffers hide nothing without sequence parallelism.
  CHECK(ideal_scenario("~", {{"software", "nemo"}, {"plan.sequence_parallel", "false"}}).plan.sharding.user_buffers ==
        0);
}

TEST_CASE("the report says that the part that user buffers hide is stated, not simulated", "[user-buffers]") {
  const auto details = [](const Scenario& s) { return trust_details(s); };
  CHECK_THAT(
      details(ideal_scenario("~", {{"software", "nemo"}})),
      Catch::Contains("user buffers hide 56 % of the tensor-parallel exchange: stated by the stack, not simulated\n"));
  CHECK_THAT(
      details(ideal_scenario("{user_buffers: {overlapped: 0.5}}")),
      Catch::Contains("user buffers hide 50 % of the tensor-parallel exchange: stated by the plan, not simulated\n"));
  CHECK_THAT(details(ideal_scenario("false")), !Catch::Contains("user buffers"));
}

TEST_CASE("impossible user buffers are refused", "[user-buffers]") {
  const std::string place = "ideal.yaml:17:28: plan.tensor_parallel_overlap";
  CHECK(error_of("user-buffers") == place +
                                        ": user buffers: stack plain states no part that they hide; state it, as in "
                                        "{user_buffers: {overlapped: 0.5}}");
  CHECK(
      error_of("user-buffers", {{"plan.sequence_parallel", "false"}}) ==
      place +
          ": user buffers are for sequence parallelism's all-gathers and reduce-scatters; set plan.sequence_parallel");
  CHECK(error_of("{user_buffers: {overlapped: 1.5}}") ==
        "ideal.yaml:17:56: plan.tensor_parallel_overlap.user_buffers.overlapped: 1.5 is out of range; expected a "
        "number from 0 to 1");
  CHECK(error_of("{user_buffers: {overlapped: -0.1}}").find("out of range") != std::string::npos);
  CHECK(error_of("{user_bufers: {overlapped: 0.1}}").find("did you mean \"user_buffers\"?") != std::string::npos);
  CHECK(error_of("maybe") == place + ": expected true, false or user-buffers, got \"maybe\"");
}

TEST_CASE("tensor ranks exchange the momenta of matrices with muon as Megatron's modes do", "[user-buffers]") {
  const auto run = [](const std::string& mode, const std::string& further) {
    return simulate(
        read_scenario_text(
            "{cluster: {node: dgx-h100}, model: {base: llama-3.2-1b, num_hidden_layers: 4}, plan: "
            "{micro_batch_size: 1, seq_length: 2048, precision: bf16, tensor_parallel: 4, optimizer: {name: "
            "muon" +
                mode + "}" + further + "}, software: megatron-core}",
            "muon"),
        {.critical_path = false});
  };
  for (const std::string further : {"", ", data_parallel: {zero_stage: 1}", ", pipeline_parallel: 2"}) {
    CAPTURE(further);
    const Result alone = run("", further), blockwise = run(", tensor_parallel: blockwise", further),
                 gathers = run(", tensor_parallel: duplicated", further),
                 sums = run(", tensor_parallel: distributed", further);
    CHECK(alone.step_time == blockwise.step_time);
    const auto exposed = [](const Result& r) { return r.breakdown.exposed_communication.at("tensor parallel"); };
    for (const Result* r : {&gathers, &sums}) {
      CHECK(r->breakdown.optimizer > alone.breakdown.optimizer);
      CHECK(exposed(*r) > exposed(alone));
      CHECK((r->step_time - alone.step_time).value ==
            Approx((r->breakdown.optimizer - alone.breakdown.optimizer).value + exposed(*r) - exposed(alone))
                .epsilon(0.02));
    }
    CHECK(gathers.breakdown.optimizer > sums.breakdown.optimizer);  // each rank multiplies whole matrices
  }
}

}  // namespace scenarios_test_user_buffers
