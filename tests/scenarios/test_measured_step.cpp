#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "models/reading/shipped_files.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/studies/failures/failure_study.hpp"

namespace scenarios_test_measured_step {

using namespace trainyard;

namespace {

MeasuredSteps steps_of(const std::string& text) { return read_measured_steps(parse_document(text, "plan.yaml")); }

const std::string kTable = "{source: a bench, table: {1: 4 ms, 8: 11 ms, 16: 12 ms}, network: mnist-cnn}";

Scenario scenario_of(const Overrides& overrides) {
  return read_scenario_text(R"(cluster: {nodes: 2, node: t4-study, fabric: ethernet}
model: mnist-cnn
plan:
  micro_batch_size: 8
  global_batch_size: 16
  precision: fp32
  measured_step: )" + kTable + R"(
software: horovod-tcp
)",
                            "measured.yaml", overrides);
}

}  // namespace

TEST_CASE("measured steps are interpolated between two batches, not beyond them", "[scenario][measured-step]") {
  const MeasuredSteps steps = steps_of(kTable);
  CHECK(steps.step_time(1) == Seconds{4e-3});
  CHECK(steps.step_time(16) == Seconds{12e-3});
  CHECK(steps.step_time(3).value == Approx(6e-3).epsilon(1e-14));
  CHECK(steps.provenance(8) == "measured");
  CHECK(steps.provenance(9) == "interpolated between 8 and 16");
  CHECK(steps.source == "a bench");
  CHECK_THROWS_WITH(steps.step_time(17),
                    "plan.yaml:1:1: plan.measured_step: measured for batches from 1 to 16, but micro_batch_size is 17");
  CHECK_THROWS_WITH(steps_of("{source: s, table: {4: 1 ms}, network: n}").step_time(1),
                    Catch::Contains("from 4 to 4, but"));
}

TEST_CASE("a faulty table of measured steps is refused with its place", "[scenario][measured-step]") {
  const std::string path = "plan.measured_step";
  CHECK_THROWS_WITH(steps_of("{source: s, table: {1: 0 ms}, network: n}"),
                    "plan.yaml:1:24: " + path + ".table.1: must be greater than 0");
  CHECK_THROWS_WITH(steps_of("{source: s, table: {1: -4 ms}, network: n}"),
                    Catch::StartsWith("plan.yaml:1:24: " + path));
  CHECK_THROWS_WITH(steps_of("{source: s, table: {8: 1 ms, 4: 2 ms}, network: n}"),
                    "plan.yaml:1:30: " + path + ".table: batch 4 after 8; batches must rise, each once");
  CHECK_THROWS_WITH(steps_of("{source: s, table: {8: 1 ms, 08: 2 ms}, network: n}"),
                    Catch::StartsWith("plan.yaml:1:30: " + path));
  CHECK_THROWS_WITH(steps_of("{source: s, table: {8: 1 ms, 8: 2 ms}, network: n}"), Catch::StartsWith("plan.yaml:1:"));
  CHECK_THROWS_WITH(steps_of("{source: s, table: {0: 1 ms}, network: n}"),
                    "plan.yaml:1:21: " + path + ".table: \"0\" is no batch; expected a whole number from 1");
  CHECK_THROWS_WITH(steps_of("{source: s, table: {many: 1 ms}, network: n}"), Catch::Contains("\"many\" is no batch"));
  CHECK_THROWS_WITH(steps_of("{source: s, table: {1: 5 m}, network: n}"), Catch::Contains(path + ".table.1"));
  CHECK_THROWS_WITH(steps_of("{source: s, table: {}, network: n}"), Catch::Contains("expected step times by batch"));
  CHECK_THROWS_WITH(steps_of("{table: {1: 1 ms}}"), Catch::Contains("missing key \"source\""));
  CHECK_THROWS_WITH(steps_of("{source: s, table: {1: 1 ms}}"), Catch::Contains("missing key \"network\""));
  CHECK_THROWS_WITH(scenario_of({{"plan.micro_batch_size", "32"}, {"plan.global_batch_size", "64"}}),
                    Catch::Contains("measured for batches from 1 to 16, but micro_batch_size is 32"));
}

TEST_CASE("measured steps of one network are refused for another network", "[scenario][measured-step]") {
  CHECK_THROWS_WITH(scenario_of({{"model", "resnet50"}}),
                    "--set model: plan.measured_step.network: steps of mnist-cnn, but the model is resnet50");
  CHECK_THROWS_WITH(scenario_of({{"model", "gpt2"}, {"plan.seq_length", "64"}}),
                    Catch::Contains("steps of mnist-cnn, but the model is gpt2"));
  CHECK_NOTHROW(scenario_of({{"plan.measured_step.network", "mnist_cnn"}}));
  const Overrides gpt2{{"plan.seq_length", "8"}, {"plan.measured_step.network", "gpt2"}};
  const auto scenario_with = [&gpt2](const std::string& model) {
    Overrides overrides = gpt2;
    overrides.emplace_back("model", model);
    return scenario_of(overrides);
  };
  CHECK_NOTHROW(scenario_with("gpt2"));
  CHECK_NOTHROW(scenario_with("{base: gpt2}"));
  CHECK_THROWS_WITH(scenario_with("{base: gpt2, n_layer: 2}"),
                    Catch::Contains("plan.measured_step.network: steps of gpt2, but the model is another one of that "
                                    "name: ") &&
                        Catch::Contains(", not "));
  for (const char* model :
       {"{base: gpt2, n_embd: 1024, n_head: 16}", "{base: gpt2, n_head: 6}", "{base: gpt2, vocab_size: 1000}"}) {
    CAPTURE(model);
    CHECK_THROWS_WITH(scenario_with(model), Catch::Contains("another one of that name"));
  }
}

TEST_CASE("one device takes the measured step time, and communication adds to it", "[scenario][measured-step]") {
  const Result one_device = simulate(scenario_of({{"cluster.nodes", "1"}, {"plan.global_batch_size", "8"}}));
  CHECK(one_device.step_time.value == Approx(11e-3).epsilon(1e-9));
  CHECK(one_device.breakdown.other.value < 1e-12);
  CHECK(one_device.measured.step_time.value == Approx(11e-3).epsilon(1e-14));
  const Result two_devices = simulate(scenario_of({}));
  CHECK(two_devices.step_time.value > 11e-3 + 4.8e6 * 8 / 5.22e9);
  // Two micro-batches run their kernels twice, but the update and the work of the host once.
  const Result accumulated =
      simulate(scenario_of({{"cluster.nodes", "1"}, {"plan.micro_batch_size", "8"}, {"plan.global_batch_size", "16"}}));
  CHECK(accumulated.step_time.value < 22e-3);
  CHECK(accumulated.step_time.value > 12e-3);
  CHECK_THROWS_WITH(scenario_of({{"cluster",
                                  "{nodes: [{count: 1, node: t4-study}, {count: 1, node: {base: t4-study, "
                                  "gpu: {type: l40s}}}], fabric: ethernet}"}}),
                    Catch::Contains("several types of nodes"));
}

TEST_CASE("the answer says that compute was measured, and by whom", "[scenario][measured-step]") {
  const Result r = simulate(scenario_of({}));
  const nlohmann::json j = to_json(r);
  CHECK(j.at("compute_measured").at("source") == "a bench");
  CHECK(result_from_json(j).measured.step_time == r.measured.step_time);
  const Scenario s = scenario_of({});
  CHECK(std::ranges::any_of(s.sources, [](const FigureSource& f) {
    return f.figure == "plan: measured_step at batch 8" && f.source == "a bench";
  }));
  CHECK_FALSE(to_json(simulate(scenario_of({{"plan.measured_step", "null"}}))).contains("compute_measured"));
}

TEST_CASE("a coordinator's cycle adds its mean wait, and fusion in host memory adds its copies",
          "[scenario][measured-step]") {
  const auto step = [](const Overrides& overrides) { return simulate(scenario_of(overrides)).step_time.value; };
  const double full_step = step({});
  CHECK(full_step - step({{"software.cycle_time", "0 us"}}) == Approx(2.5e-3).epsilon(1e-6));
  CHECK(step({{"software.cycle_time", "11 ms"}}) - full_step == Approx(3e-3).epsilon(1e-6));
  // The host copies 1,199,882 gradients in fp32 into its buffers and out of them at 10 GB/s. On the GPU these copies
  // take less than 0.1 ms.
  CHECK(full_step - step({{"software.gradient_bucket_copy", "false"}, {"software.host_buckets", "false"}}) ==
        Approx(2 * 4 * 1199882 / 10e9).epsilon(1e-6));
  const double in_gpu_memory = step({{"software.host_buckets", "false"}});
  CHECK(full_step - in_gpu_memory > 0.8e-3);
  CHECK_THROWS_WITH(scenario_of({{"software.gradient_bucket_copy", "false"}}),
                    Catch::Contains("host_buckets: only with gradient_bucket_copy"));
}

TEST_CASE("a measured time of another precision or of another number of devices is refused",
          "[scenario][measured-step]") {
  const Overrides in_fp32{{"plan.measured_step.precision", "fp32"}};
  CHECK_NOTHROW(scenario_of(in_fp32));
  CHECK_THROWS_WITH(scenario_of({{"plan.measured_step.precision", "fp32"}, {"plan.precision", "fp16"}}),
                    Catch::Contains("plan.measured_step.precision: a time in fp32, but plan.precision is fp16"));
  CHECK_THROWS_WITH(scenario_of({{"plan.measured_step.table", "{8: 1 us}"}}),
                    Catch::Contains("plan.measured_step: 1.00 us for 8 samples on 1 device is ") &&
                        Catch::Contains("% of the fp32 peak; expected "));
  CHECK_THROWS_WITH(read_scenario(shipped_file("scenarios/horovod-mnist-2xt4.yaml"), {{"plan.precision", "fp16"}}),
                    Catch::Contains("a time in fp32, but plan.precision is fp16"));

  const auto training = [](const std::string& step_time, const Overrides& overrides = {}) {
    return read_scenario_text(
        "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\nmodel: gpt2\n"
        "plan: {precision: bf16, global_batch_size: 64, micro_batch_size: 1, step_time: " +
            step_time + ", training: {steps: 100}}\nfaults: {failures: {mtbf: {node: 5000 h}}}\n",
        "given.yaml", overrides);
  };
  CHECK(training("{value: 1 s, source: me, precision: bf16, devices: 16}").prescribed_step.source == "me");
  CHECK_THROWS_WITH(training("{value: 1 s, precision: bf16}", {{"plan.precision", "fp32"}}),
                    Catch::Contains("plan.step_time.precision: a time in bf16, but plan.precision is fp32"));
  CHECK_THROWS_WITH(training("{value: 1 s, devices: 8}"),
                    Catch::Contains("plan.step_time.devices: a time of 8, but the plan has 16 ranks"));
  CHECK_THROWS_WITH(training("{value: 1 s, device: 8}"), Catch::Contains("did you mean \"devices\""));
  // A time that states neither precision nor devices is refused, too, if the peak of the devices allows no such step.
  const double mfu = simulate_training(training("20 ms")).mfu;
  CHECK(mfu > 0.4);
  CHECK(mfu < 1);
  for (const Overrides& other : {Overrides{{"plan.precision", "fp32"}}, Overrides{{"cluster.nodes", "1"}}}) {
    CAPTURE(other.front().first);
    CHECK_THROWS_WITH(training("20 ms", other),
                      Catch::Contains("peak; expected ") && Catch::Contains("the precision and the number of devices"));
  }
}

}  // namespace scenarios_test_measured_step
