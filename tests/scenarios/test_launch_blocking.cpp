// A host that waits for each kernel's end before it launches the next (CUDA_LAUNCH_BLOCKING=1).
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "scenarios/src/running/simulate.hpp"
#include "sim/error.hpp"

namespace scenarios_test_launch_blocking {

using namespace trainyard;

namespace {

Scenario one_gpu(const std::string& host, int dispatch_us) {
  const std::string text = fmt::format(
      "cluster: {{node: dgx-a100}}\nmodel: {{base: gpt2, n_layer: 2}}\n"
      "software: {{base: plain, kernel_dispatch: {} us, host: {{{}}}}}\n"
      "plan: {{global_batch_size: 8, micro_batch_size: 4, data_parallel: 1, idle_devices: allowed}}\n",
      dispatch_us, host);
  return read_scenario_text(text, "blocking.yaml", {});
}

double step_of(const std::string& host, int dispatch_us) { return simulate(one_gpu(host, dispatch_us)).step_time; }

}  // namespace

TEST_CASE("where launches block, every kernel takes its dispatch besides", "[launch-blocking]") {
  const std::string ahead = "runs_ahead: true", blocking = ahead + ", launch_blocking: true";
  const double none = step_of(blocking, 0);
  CHECK(none == Approx(step_of(ahead, 0)).epsilon(1e-9));
  const double of_ten = step_of(blocking, 10) - none;
  CHECK(step_of(blocking, 30) - none == Approx(3 * of_ten).epsilon(1e-9));
  const double kernels = of_ten / 10e-6;
  CHECK(kernels > 50);
  CHECK(kernels == Approx(std::round(kernels)).epsilon(1e-6));
  // A host that runs ahead hides what it takes.
  CHECK(step_of(ahead, 10) < none + 0.5 * of_ten);
}

TEST_CASE("its own work of a micro-batch is not hidden either", "[launch-blocking]") {
  const std::string blocking = "runs_ahead: true, launch_blocking: true";
  const double none = step_of(blocking, 10);
  // Two micro-batches, each with a forward and a backward pass.
  CHECK(step_of(blocking + ", micro_batch: 1 ms", 10) - none == Approx(4e-3).epsilon(1e-6));
}

TEST_CASE("launches that block are refused where nothing is launched by itself", "[launch-blocking]") {
  const auto error = [](const std::string& host) -> std::string {
    try {
      one_gpu(host, 10);
    } catch (const UserError& e) {
      return e.what();
    }
    return "no error";
  };
  CHECK_THAT(error("launch_blocking: true"), Catch::Contains("host.launch_blocking: only for a host with runs_ahead"));
  CHECK_THAT(error("runs_ahead: true, cuda_graphs: true, launch_blocking: true"),
             Catch::Contains("launch_blocking: not with cuda_graphs, which launch kernels together"));
}

}  // namespace scenarios_test_launch_blocking
