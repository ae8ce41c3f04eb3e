// A host that waits for each kernel's end before it launches the next (CUDA_LAUNCH_BLOCKING=1).
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "scenarios/src/running/simulate.hpp"
#include "tests/user_errors.hpp"

namespace scenarios_test_launch_blocking {

using namespace trainyard;

namespace {

Scenario one_gpu(const std::string& host, int dispatch_us, double thread_speed) {
  const std::string text = fmt::format(
      "cluster: {{node: dgx-a100, cpu: {{base: epyc-7742, thread_speed: {}}}}}\nmodel: {{base: gpt2, n_layer: 2}}\n"
      "software: {{base: plain, kernel_dispatch: {} us, host: {{{}}}}}\n"
      "plan: {{global_batch_size: 8, micro_batch_size: 4, data_parallel: 1, idle_devices: allowed}}\n",
      thread_speed, dispatch_us, host);
  return read_scenario_text(text, "blocking.yaml", {});
}

double step_of(const std::string& host, int dispatch_us, double thread_speed = 1) {
  return simulate(one_gpu(host, dispatch_us, thread_speed)).step_time.value;
}

}  // namespace

TEST_CASE("if launches block, every kernel takes its dispatch time in addition", "[launch-blocking]") {
  const std::string ahead = "runs_ahead: true", blocking = ahead + ", launch_blocking: true";
  const double without_dispatch = step_of(blocking, 0);
  CHECK(without_dispatch == Approx(step_of(ahead, 0)).epsilon(1e-9));
  const double cost_of_10_us = step_of(blocking, 10) - without_dispatch;
  CHECK(step_of(blocking, 30) - without_dispatch == Approx(3 * cost_of_10_us).epsilon(1e-9));
  const double kernels = cost_of_10_us / 10e-6;
  CHECK(kernels > 50);
  CHECK(kernels == Approx(std::round(kernels)).epsilon(1e-6));
  // A host that runs ahead hides its dispatch time.
  CHECK(step_of(ahead, 10) < without_dispatch + 0.5 * cost_of_10_us);
}

TEST_CASE("if launches block, the host's own work for a micro-batch is not hidden either", "[launch-blocking]") {
  const std::string blocking = "runs_ahead: true, launch_blocking: true";
  const double base_step = step_of(blocking, 10);
  // Two micro-batches, each with a forward and a backward pass.
  CHECK(step_of(blocking + ", micro_batch: 1 ms", 10) - base_step == Approx(4e-3).epsilon(1e-6));
}

TEST_CASE("a CPU of half the speed takes twice as long for launches and for a micro-batch", "[launch-blocking]") {
  for (const char* host : {"runs_ahead: true", "runs_ahead: true, launch_blocking: true"}) {
    const std::string text = std::string(host) + ", micro_batch: ";
    CHECK(step_of(text + "1 ms", 20, 0.5) == Approx(step_of(text + "2 ms", 40)).epsilon(1e-9));
    CHECK(step_of(text + "1 ms", 200, 0.5) > 1.1 * step_of(text + "1 ms", 200));
    CHECK(step_of(text + "1 ms", 20, 2) <= step_of(text + "1 ms", 20));
  }
  const std::string waits = "runs_ahead: false";
  CHECK(step_of(waits, 20, 0.5) == Approx(step_of(waits, 40)).epsilon(1e-9));
  CHECK(step_of(waits, 200, 0.5) > 1.1 * step_of(waits, 200));
}

namespace {

/// Returns the step time of a Mixtral with two layers, on one GPU, or on eight if `experts` has expert_parallel.
/// `kernel_us` is the host's time for a launch.
double step_of_experts(const std::string& precision, const std::string& software, double kernel_us,
                       const std::string& experts = "") {
  const std::string text = fmt::format(
      "cluster: {{node: dgx-h100}}\nmodel: {{config: mixtral-8x7b.json, num_hidden_layers: 2}}\n"
      "software: {{base: plain, kernel_dispatch: {} us{}}}\n"
      "plan: {{global_batch_size: {}, micro_batch_size: 1, seq_length: 1024, precision: {}, data_parallel: {}, "
      "idle_devices: allowed{}}}\n",
      kernel_us, software, experts.empty() ? 4 : 32, precision, experts.empty() ? 1 : 8, experts);
  return simulate(read_scenario_text(text, "experts.yaml", {})).step_time.value;
}

}  // namespace

TEST_CASE("a layer of experts in fp8 has the launches that its stack states, unless rows are dropped",
          "[launch-blocking][experts]") {
  const std::string host = ", host: {runs_ahead: true, launch_blocking: true}";
  const auto launches = [&](const std::string& precision, const std::string& software, const std::string& experts) {
    return (step_of_experts(precision, software + host, 10, experts) -
            step_of_experts(precision, software + host, 0, experts)) /
           10e-6;
  };
  const std::string stated = ", expert_layer_launches: 1000, expert_launches: 25";
  const std::string dropping = ", expert_parallel: {size: 8, capacity: 1.25}";
  // The GPU has two layers, four micro-batches and 8 experts. Some 30 kernels share the launches in whole numbers.
  const double added_launches = launches("fp8", stated, "") - launches("fp8", "", "");
  CHECK(added_launches == Approx(2 * 4 * (1000 + 8 * 25)).epsilon(0.05));
  const std::string beside = ", expert_parallel: {size: 8, overlap: true}", paired = stated + ", paired_launches: 400";
  CHECK(launches("fp8", paired, beside) - launches("fp8", stated, beside) == Approx(2 * 4 * 400).epsilon(0.05));
  CHECK(launches("fp8", paired, "") == Approx(launches("fp8", stated, "")));
  CHECK(launches("fp8", stated, dropping) == Approx(launches("fp8", "", dropping)));
  CHECK(launches("bf16", stated, "") == Approx(launches("bf16", "", "")));
  const std::string one_by_one = stated + ", expert_launches_in_16_bits: true";
  CHECK(launches("bf16", one_by_one, "") - launches("bf16", "", "") == Approx(2 * 4 * (1000 + 8 * 25)).epsilon(0.05));
  CHECK(launches("fp8", one_by_one, "") == Approx(launches("fp8", stated, "")));
  const std::string both = one_by_one + ", paired_launches: 400";  // paired passes have further launches in fp8 alone
  CHECK(launches("bf16", both, beside) == Approx(launches("bf16", one_by_one, beside)));
}

TEST_CASE("each linear layer in fp8 has the launches that its stack states, in both passes", "[launch-blocking]") {
  const auto step = [](const std::string& precision, int launches, double kernel_us) {
    const std::string text = fmt::format(
        "cluster: {{node: dgx-h100}}\nmodel: {{config: llama-2-7b.json, num_hidden_layers: 2}}\n"
        "software: {{base: plain, kernel_dispatch: {} us, fp8_linear_launches: {}, "
        "host: {{runs_ahead: true, launch_blocking: true}}}}\n"
        "plan: {{global_batch_size: 4, micro_batch_size: 1, seq_length: 512, precision: {}, data_parallel: 1, "
        "idle_devices: allowed}}\n",
        kernel_us, launches, precision);
    return simulate(read_scenario_text(text, "linear.yaml", {})).step_time.value;
  };
  const auto launches = [&](const std::string& precision, int stated) {
    return (step(precision, stated, 10) - step(precision, stated, 0)) / 10e-6;
  };
  // Query, key, value, output, gate, up and down in two layers, four micro-batches and two passes.
  CHECK(launches("fp8", 60) - launches("fp8", 50) == Approx(10 * 7 * 2 * 4 * 2).epsilon(1e-6));
  CHECK(launches("fp8", 1) == Approx(launches("fp8", 0)));  // not fewer than there are kernels
  CHECK(launches("bf16", 60) == Approx(launches("bf16", 0)));
}

TEST_CASE("kernels of several launches that run as one take as long as one by one", "[launch-blocking]") {
  for (const double kernel_us : {1.0, 10.0, 30.0}) {
    CAPTURE(kernel_us);
    const Scenario s = read_scenario_text(
        fmt::format("cluster: {{node: dgx-h100}}\nmodel: {{config: llama-2-7b.json, num_hidden_layers: 2}}\n"
                    "software: {{base: plain, kernel_dispatch: {} us, fp8_linear_launches: 23, host: {{runs_ahead: "
                    "true}}}}\nplan: {{global_batch_size: 4, micro_batch_size: 1, seq_length: 512, precision: fp8, "
                    "tensor_parallel: 8}}\n",
                    kernel_us),
        "fused.yaml");
    SimulateOptions one_by_one;  // the critical path needs each kernel
    const Result r = simulate(s, one_by_one), fused = simulate(s, {.critical_path = false});
    CHECK(fused.operations < r.operations);
    CHECK(fused.step_time.value == Approx(r.step_time.value).epsilon(1e-9));
  }
}

TEST_CASE("a host that reads the tokens of each expert cannot run ahead past a layer", "[launch-blocking][experts]") {
  const std::string ahead = ", expert_layer_launches: 100, host: {runs_ahead: true",
                    waiting = ahead + ", waits_for_routing: true";
  for (const double kernel_us : {1.0, 20.0, 60.0}) {
    CAPTURE(kernel_us);
    const double time_ahead = step_of_experts("fp8", ahead + "}", kernel_us);
    CHECK(step_of_experts("fp8", waiting + "}", kernel_us) >= time_ahead * (1 - 1e-9));
    CHECK(step_of_experts("fp8", waiting + ", cuda_graphs: true}", kernel_us) ==
          Approx(step_of_experts("fp8", ahead + ", cuda_graphs: true}", kernel_us)).epsilon(1e-9));
  }
  CHECK(step_of_experts("fp8", waiting + "}", 60) > 1.05 * step_of_experts("fp8", ahead + "}", 60));
}

TEST_CASE("in a CUDA graph a kernel is one launch, however many its layer has without graphs", "[launch-blocking]") {
  const auto step = [](const std::string& launches) {
    const std::string text =
        "cluster: {node: dgx-h100}\nmodel: {config: llama-2-7b.json, num_hidden_layers: 2}\nsoftware: {base: plain, "
        "kernel_dispatch: 30 us, host: {runs_ahead: true, cuda_graphs: true}" +
        launches +
        "}\nplan: {global_batch_size: 4, micro_batch_size: 1, seq_length: 512, precision: fp8, tensor_parallel: 8}\n";
    return simulate(read_scenario_text(text, "graphs.yaml", {})).step_time.value;
  };
  CHECK(step(", fp8_linear_launches: 40") == Approx(step("")).epsilon(1e-12));
}

TEST_CASE("launches that block are refused for a host that does not launch kernels one by one", "[launch-blocking]") {
  const auto error = [](const std::string& host) { return test::user_error([&] { one_gpu(host, 10, 1); }); };
  CHECK_THAT(error("launch_blocking: true"), Catch::Contains("host.launch_blocking: only for a host with runs_ahead"));
  CHECK_THAT(error("runs_ahead: true, cuda_graphs: true, launch_blocking: true"),
             Catch::Contains("launch_blocking: not with cuda_graphs, which launch kernels together"));
}

}  // namespace scenarios_test_launch_blocking
