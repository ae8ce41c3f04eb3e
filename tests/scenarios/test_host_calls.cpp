// The calls of a rank's host in a step: kernels, exchanges, copies of samples; or one compiled program.
#include <catch2/catch.hpp>

#include "scenarios/src/running/simulate.hpp"

namespace scenarios_test_host_calls {

using namespace trainyard;

namespace {

/// Simulates a small GPT-2 on the cluster.
Result run_small(const std::string& plan, const std::string& cluster = "nodes: 1, node: dgx-a100",
                 const std::string& more = "", Folding folding = Folding::automatic) {
  const SimulateOptions options{.folding = folding};
  return simulate(
      read_scenario_text("cluster: {" + cluster + "}\nmodel: {base: gpt2, n_layer: 4}\n" + more +
                             "plan: {precision: bf16, seq_length: 128, micro_batch_size: 1, " + plan + "}\n",
                         "calls.yaml"),
      options);
}

Result::HostCalls calls_of(const Result& r) {
  REQUIRE(r.host_calls);
  return *r.host_calls;
}

}  // namespace

TEST_CASE("each further micro-batch adds the same number of kernels, and the host starts each of them", "[host]") {
  const auto kernels = [](int batches) {
    const Result::HostCalls calls = calls_of(run_small("global_batch_size: " + std::to_string(8 * batches),
                                                       "nodes: 1, node: dgx-a100", "software: plain\n"));
    CHECK(calls.all == calls.kernels + calls.exchanges);
    CHECK_FALSE(calls.compiled);
    CHECK(calls.copies == 0);
    return calls.kernels;
  };
  const double two = kernels(2), three = kernels(3), four = kernels(4);
  CHECK(three - two == four - three);
  CHECK(three - two > 4 * 10);  // each of the four blocks has more than ten kernels in both passes
  CHECK(kernels(1) == Approx(two - (three - two)).epsilon(0.2));  // the first micro-batch adds to no gradients
}

TEST_CASE("messages, flows and NCCL's model have the same number of exchanges", "[host]") {
  const auto exchanges = [](const std::string& plan, const std::string& collectives) {
    return calls_of(run_small("global_batch_size: 16, collectives: " + collectives + ", " + plan,
                              "nodes: 2, node: dgx-a100, fabric: nonblocking", "software: plain\n"))
        .exchanges;
  };
  for (const char* plan : {"data_parallel: {bucket: 4 MiB}", "tensor_parallel: 4", "data_parallel: {zero_stage: 1}",
                           "data_parallel: {zero_stage: 3}"}) {
    CAPTURE(plan);
    const double by_message = exchanges(plan, "messages");
    CHECK(by_message > 1);
    CHECK(exchanges(plan, "flows") == by_message);
    CHECK(exchanges(plan, "modelled") == by_message);
  }
  CHECK(exchanges("data_parallel: {bucket: 4 MiB}", "messages") >
        exchanges("data_parallel: {bucket: 1 GiB}", "messages"));
}

TEST_CASE("folding does not change the numbers of calls", "[host]") {
  for (const char* plan : {"global_batch_size: 64", "global_batch_size: 64, tensor_parallel: 4",
                           "global_batch_size: 16, pipeline_parallel: 4, tensor_parallel: 4"}) {
    CAPTURE(plan);
    const auto calls = [plan](Folding folding) {
      return calls_of(
          run_small(plan, "nodes: 4, node: dgx-a100, fabric: nonblocking", "software: pytorch-ddp\n", folding));
    };
    const Result::HostCalls folded = calls(Folding::automatic), unfolded = calls(Folding::off);
    CHECK(folded.all == unfolded.all);
    CHECK(folded.kernels == unfolded.kernels);
    CHECK(folded.exchanges == unfolded.exchanges);
  }
}

TEST_CASE("a TPU's host starts one program, and takes part in what leaves the chips' links", "[host]") {
  const std::string plan = "global_batch_size: 16";
  const Result::HostCalls pod = calls_of(run_small(plan, "nodes: 4, node: tpu-v3-host"));
  CHECK(pod.compiled);
  CHECK(pod.all == 1);
  CHECK(pod.kernels > 50);
  CHECK(pod.exchanges >= 1);
  const Result::HostCalls ethernet = calls_of(run_small(plan, "nodes: 4, node: tpu-v3-host, fabric: ethernet"));
  CHECK(ethernet.kernels == pod.kernels);
  CHECK(ethernet.all == 1 + ethernet.exchanges);
  const Result::HostCalls slices =
      calls_of(run_small(plan, "nodes: 4, node: tpu-v3-host, fabric: {base: tpu-v3-torus, slices: 2}"));
  CHECK(slices.all > 1);
}

TEST_CASE("the host copies a batch of samples for each micro-batch", "[host]") {
  const Result::HostCalls calls = calls_of(run_small(
      "global_batch_size: 24", "nodes: 1, node: dgx-a100",
      "input: {dataset: {samples: 1000000, sample_size: 1 kB}, storage: {name: s, read: 1 TB/s, latency: 1 us}}\n"));
  CHECK(calls.copies == Approx(3).epsilon(0.2));
  CHECK(calls.all == Approx(calls.kernels + calls.exchanges + calls.copies));
}

TEST_CASE("CUDA graphs start many kernels at once", "[host]") {
  const auto calls = [](const char* graphs) {
    return calls_of(run_small(
        "global_batch_size: 8", "nodes: 1, node: dgx-a100",
        std::string("software: {base: pytorch-ddp, host: {runs_ahead: true, cuda_graphs: ") + graphs + "}}\n"));
  };
  CHECK(calls("true").kernels == calls("false").kernels);
  CHECK(calls("true").all < 0.5 * calls("false").all);
}

TEST_CASE("calls are not counted if replicas meet at parameter servers", "[host]") {
  CHECK_FALSE(run_small("global_batch_size: 8, data_parallel: {mechanism: parameter-server}").host_calls);
}

}  // namespace scenarios_test_host_calls
