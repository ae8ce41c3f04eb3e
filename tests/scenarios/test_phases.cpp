// Inference, and the phases of a training outside its steps.

#include <catch2/catch.hpp>

#include "scenarios/src/studies/failures/failure_study.hpp"

namespace scenarios_test_phases {

using namespace trainyard;

namespace {

Scenario gpt2(const Overrides& changes) {
  return read_scenario_text(
      "cluster: {nodes: 2, node: dgx-a100, fabric: nonblocking}\n"
      "model: gpt2\n"
      "plan: {micro_batch_size: 8, precision: bf16}\n"
      "software: pytorch-ddp\n",
      "gpt2.yaml", changes);
}

Result answer(const Overrides& changes) { return simulate_training(gpt2(changes)); }

}  // namespace

TEST_CASE("inference is the forward pass of a step and nothing else", "[inference]") {
  const Result training = answer({}), inference = answer({{"plan.mode", "inference"}});
  CHECK(inference.step_time.value < 0.45 * training.step_time.value);
  CHECK(inference.step_time.value > 0.25 * training.step_time.value);
  CHECK(inference.samples_per_s == Approx(128 / inference.step_time.value));
  CHECK(inference.mfu < 1);
  CHECK(inference.bytes_total.value == 0);
  CHECK(inference.memory.optimizer.value == 0);
  CHECK(inference.memory.gradients.value == 0);
  CHECK(inference.memory.parameters.value == Approx(2 * 124439808.0));
  CHECK(inference.memory.activations.value < 0.3 * training.memory.activations.value);
  CHECK(answer({{"plan.mode", "inference"}, {"plan.precision", "fp32"}}).step_time.value >
        1.5 * inference.step_time.value);
  // The stages of a pipeline send activations.
  const Result pipeline =
      answer({{"plan.mode", "inference"}, {"plan.pipeline_parallel", "2"}, {"plan.global_batch_size", "256"}});
  CHECK(pipeline.bytes_total.value > 0);
}

TEST_CASE("inference refuses keys of training", "[inference]") {
  const auto refused = [](const char* key, const char* value, const char* error) {
    CHECK_THROWS_WITH(gpt2({{"plan.mode", "inference"}, {key, value}}), Catch::Contains(error));
  };
  refused("plan.optimizer", "adam", "plan.optimizer: only for training, but plan.mode is inference");
  refused("plan.training", "{steps: 5}", "plan.training: only for training");
  refused("learn", "{task: mlp}", "learn: only for training");
  refused("plan.data_parallel", "{zero_stage: 3}", "ZeRO and offload: only for training");
  CHECK_THROWS_WITH(gpt2({{"plan.mode", "inferense"}}), Catch::Contains("did you mean \"inference\"?"));
}

TEST_CASE("a training has phases for its start, its weights and its evaluations", "[phases]") {
  const Result without_phases = answer({{"plan.training", "{steps: 1000}"}});
  CHECK(without_phases.phases.empty());
  const Result with_phases = answer(
      {{"plan.training",
        "{steps: 1000, start: 30 s, weights: true, evaluate: {samples: 4096, every: 300, micro_batch_size: 16}}"}});
  REQUIRE(with_phases.phases.size() == 3);
  CHECK(with_phases.step_time.value == without_phases.step_time.value);
  CHECK(with_phases.phases[0].time.value == 30);
  // 249 MB go over PCIe 4.0 x16, and then to 16 GPUs over NVLink and at least one HCA.
  CHECK(with_phases.phases[1].time.value > 249e6 / 32e9);
  CHECK(with_phases.phases[1].time.value < 0.2);
  CHECK(with_phases.phases[2].times == 4);  // after 300, 600, 900 and 1000 steps
  const Result forward_pass = answer({{"plan.mode", "inference"}, {"plan.micro_batch_size", "16"}});
  // 4096 samples are 16 batches of 256.
  CHECK(with_phases.phases[2].time.value == Approx(16 * forward_pass.step_time.value).epsilon(1e-9));
  double sum = without_phases.training_time.value;
  for (const Result::Phase& phase : with_phases.phases) sum += phase.time.value * phase.times;
  CHECK(with_phases.training_time.value == Approx(sum).epsilon(1e-12));
  const Result evaluated_once =
      answer({{"plan.training", "{steps: 1000, evaluate: {samples: 4096, precision: fp32}}"}});
  REQUIRE(evaluated_once.phases.size() == 1);
  CHECK(evaluated_once.phases[0].times == 1);
  CHECK(evaluated_once.phases[0].time.value > 1.5 * with_phases.phases[2].time.value);
  CHECK_THROWS_WITH(answer({{"plan.training", "{steps: 10, evaluate: {samples: 4, precision: fp7}}"}}),
                    Catch::Contains("plan.training.evaluate: "));
}

TEST_CASE("every node pulls a container image once, over its network and at the registry's rate", "[phases]") {
  const auto pull_time = [](const std::string& image, const Overrides& changes = {}) {
    Overrides all = changes;
    all.emplace_back("plan.training", "{steps: 10, start: 5 s, image: " + image + "}");
    const Result r = answer(all);
    REQUIRE(r.phases.size() == 2);
    CHECK(r.phases[0].name == "image to all nodes");
    CHECK(r.phases[0].times == 1);
    CHECK(r.training_time.value == Approx(10 * r.step_time.value + r.phases[0].time.value + 5).epsilon(1e-12));
    return r.phases[0].time.value;
  };
  // Two nodes share the registry's 1 GB/s, or the adapter of each limits it to 25 GB/s.
  CHECK(pull_time("{size: 10 GB, from: {read: 1 GB/s, latency: 0 s}}") == Approx(20).epsilon(1e-3));
  CHECK(pull_time("{size: 10 GB, from: {read: 1 TB/s, latency: 0 s}}") == Approx(10 / 25.0).epsilon(0.02));
  CHECK(pull_time("{size: 10 GB, from: {read: 1 TB/s, latency: 0 s}}", {{"cluster.hca.rate", "10 Gbit/s"}}) ==
        Approx(8).epsilon(0.02));
  CHECK(pull_time("{size: 10 GB, cached: 8 GB, from: {read: 1 GB/s, latency: 0 s}}") == Approx(4).epsilon(1e-3));
  CHECK(pull_time("{size: 10 GB, from: object-store}") > 0.1);
  CHECK_THROWS_WITH(answer({{"plan.training", "{steps: 1, image: {size: 1 GB, cached: 2 GB, from: object-store}}"}}),
                    Catch::Contains("plan.training.image.cached: 1.86 GiB of an image of 954 MiB"));
  CHECK_THROWS_WITH(answer({{"plan.training", "{steps: 1, image: {size: 1 GB, from: object-stor}}"}}),
                    Catch::Contains("did you mean \"object-store\"?"));
}

TEST_CASE("all ranks wait while rank 0 works alone, except for the last time", "[phases]") {
  const Result plain_training = answer({{"plan.training", "{steps: 100}"}});
  const Result work_at_end = answer({{"plan.training", "{steps: 100, rank_0: {time: 2 s}}"}});
  CHECK(plain_training.alone_time.value == 0);
  CHECK(work_at_end.training_time.value == Approx(plain_training.training_time.value + 2).epsilon(1e-12));
  CHECK(work_at_end.alone_time.value == Approx(2).epsilon(1e-9));
  const Result work_four_times = answer({{"plan.training", "{steps: 100, rank_0: {time: 2 s, every: 25}}"}});
  CHECK(work_four_times.training_time.value == Approx(plain_training.training_time.value + 8).epsilon(1e-12));
  CHECK(work_four_times.alone_time.value == Approx(2).epsilon(1e-9));
  // Asynchronous workers do not wait.
  const Overrides servers{{"plan.data_parallel.mechanism", "parameter-server"},
                          {"plan.data_parallel.consistency", "asynchronous"},
                          {"plan.training", "{steps: 100, rank_0: {time: 2 s, every: 25}}"}};
  CHECK(answer(servers).alone_time.value == Approx(8).epsilon(1e-6));
  // Rank 0 writes 249 MB of weights at 0.5 GB/s.
  const Result with_checkpoint =
      answer({{"plan.training", "{steps: 100, rank_0: {checkpoint: {read: 1 GB/s, write: 0.5 GB/s, latency: 0 s}}}"}});
  CHECK(with_checkpoint.alone_time.value == Approx(2 * 124439808.0 / 0.5e9).epsilon(0.05));
  // The states of Adam triple the size.
  const Result with_states =
      answer({{"plan.optimizer", "adam"},
              {"plan.training",
               "{steps: 100, rank_0: {states: true, checkpoint: {read: 1 GB/s, write: 0.5 GB/s, latency: 0 s}}}"}});
  CHECK(with_states.alone_time.value == Approx(3 * with_checkpoint.alone_time.value).epsilon(0.05));
  CHECK_THROWS_WITH(answer({{"plan.training", "{steps: 100, rank_0: {every: 5}}"}}),
                    Catch::Contains("plan.training.rank_0: expected time, checkpoint, log or evaluate"));
}

TEST_CASE("lines of a log take time in each step, and rank 0 evaluates on its device alone", "[phases]") {
  const double plain_time = answer({{"plan.training", "{steps: 100}"}}).training_time.value;
  const std::string log = "log: {to: {read: 1 GB/s, latency: 3 ms}, line: 1 MB";  // 4 ms a line
  const Result log_each_step = answer({{"plan.training", "{steps: 100, rank_0: {" + log + "}}}"}});
  CHECK(log_each_step.training_time.value == Approx(plain_time + 100 * 4e-3).epsilon(1e-9));
  // The other ranks wait for all lines but the last one.
  CHECK(log_each_step.alone_time.value == Approx(4e-3).epsilon(1e-6));
  const Result log_each_tenth_step = answer({{"plan.training", "{steps: 100, rank_0: {" + log + ", every: 10}}}"}});
  CHECK(log_each_tenth_step.training_time.value == Approx(plain_time + 10 * 4e-3).epsilon(1e-9));
  // All ranks share an evaluation; rank 0 alone takes longer.
  const auto last_phase = [](const Result& r) { return r.phases.back(); };
  const Result by_all_ranks =
      answer({{"plan.training", "{steps: 100, evaluate: {samples: 4096, micro_batch_size: 16}}"}});
  const Result by_rank_0 =
      answer({{"plan.training", "{steps: 100, rank_0: {evaluate: {samples: 4096, micro_batch_size: 16}}}"}});
  CHECK(last_phase(by_rank_0).name == "evaluation by rank 0");
  CHECK(last_phase(by_rank_0).time.value >= 1.9 * last_phase(by_all_ranks).time.value);
  CHECK(by_rank_0.alone_time.value == Approx(last_phase(by_rank_0).time.value).epsilon(1e-9));
  CHECK(by_rank_0.training_time.value == Approx(plain_time + last_phase(by_rank_0).time.value).epsilon(1e-9));
  // Rank 0 evaluates only at the end, but does its other work after each interval.
  const Result with_work =
      answer({{"plan.training",
               "{steps: 100, rank_0: {time: 2 s, every: 25, evaluate: {samples: 4096, micro_batch_size: 16}}}"}});
  CHECK(with_work.training_time.value == Approx(plain_time + 8 + last_phase(by_rank_0).time.value).epsilon(1e-9));
  CHECK(with_work.alone_time.value == Approx(2 + last_phase(by_rank_0).time.value).epsilon(1e-9));
  // That work also comes at the end: after 40, 80 and 100 steps.
  const Result with_rest = answer({{"plan.training", "{steps: 100, rank_0: {time: 2 s, every: 40}}"}});
  CHECK(with_rest.training_time.value == Approx(plain_time + 6).epsilon(1e-9));
  CHECK_THROWS_WITH(answer({{"plan.training", "{steps: 100, rank_0: {time: 1 s, states: true}}"}}),
                    Catch::Contains("states: only with checkpoint"));
}

}  // namespace scenarios_test_phases
