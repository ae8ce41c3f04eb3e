// Memory is booked for gradients as long as they exist, also while replicas exchange them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "scenarios/src/reading/scenario.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "scenarios/src/running/step_run.hpp"
#include "tests/support.hpp"

namespace scenarios_test_gradient_memory {

using namespace trainyard;

namespace {

struct Choice {
  std::string stack;
  int zero = 0, micro_batches = 1;
  bool overlap = true;
};

Scenario scenario_of(const Choice& c) {
  return read_scenario_text(fmt::format("cluster: {{node: dgx-a100}}\nmodel: {{base: gpt2, n_layer: 3}}\nsoftware: {}\n"
                                        "plan: {{micro_batch_size: 1, global_batch_size: {}, seq_length: 128,\n"
                                        "  data_parallel: {{zero_stage: {}, overlap: {}, bucket: 20 MB}}}}\n",
                                        c.stack, 8 * c.micro_batches, c.zero, c.overlap),
                            "gradients.yaml");
}

/// Compares, at each exchange of a bucket, the memory booked for gradients and their copies with the gradients that
/// must exist.
class LiveGradients : public Observer {
 public:
  explicit LiveGradients(const StepRun& run) : run_(run) {
    const StagePlan& stage = run.plan.stages.front();
    for (const MemoryPart& part : stage.memory.parts)
      if (part.name == "gradient buckets") copies_ = part.bytes.value;
    stored_ = stage.memory.gradients.value;
    for (std::size_t b = 0; b < stage.buckets.size(); ++b)
      bucket_bytes_[fmt::format("{} bucket {}", run.plan.zero == ZeroStage::none ? "all-reduce" : "reduce-scatter",
                                b)] = stage.buckets[b].elements * run.plan.gradient_element.value;
  }
  int exchanges = 0, overlapped_kernels = 0;
  double least_surplus = 1e300;  ///< the least difference of booked and existing gradients, in bytes

  void started(const OpRun& run) override {
    const Op& op = *run.op;
    if (op.actor != 0) return;
    if (op.memory_class == static_cast<std::uint8_t>(MemoryClass::gradients)) booked_ += std::max(0.0, change_of(op));
    if (op.kind == Kind::compute && in_exchange_ > 0) ++overlapped_kernels;
    if (!is_exchange(op)) return;
    ++exchanges;
    in_exchange_ += bucket_bytes_.at(name_of(op));
    // ZeRO stages 0 and 1 exchange the gradients that they keep; stage 2 keeps its shard besides.
    const double existing = run_.plan.zero == ZeroStage::gradients ? stored_ + in_exchange_ : in_exchange_;
    least_surplus = std::min(least_surplus, booked_ + copies_ - existing);
  }
  void finished(const OpRun& run) override {
    const Op& op = *run.op;
    if (op.actor != 0) return;
    if (op.memory_class == static_cast<std::uint8_t>(MemoryClass::gradients)) booked_ += std::min(0.0, change_of(op));
    if (!is_exchange(op)) return;
    in_exchange_ -= bucket_bytes_.at(name_of(op));
  }
  Interest interest() const override { return {.stretches = false}; }

 private:
  const StepRun& run_;
  double copies_ = 0, stored_ = 0, booked_ = 0, in_exchange_ = 0;
  std::map<std::string, double> bucket_bytes_;

  static double change_of(const Op& op) { return op.memory.change; }
  std::string name_of(const Op& op) const { return run_.names[op.name]; }
  bool is_exchange(const Op& op) const { return op.kind == Kind::join && bucket_bytes_.contains(name_of(op)); }
};

struct Answer {
  std::size_t buckets = 0;
  double all_gradients = 0;  ///< bytes
  double booked = 0;         ///< bytes of gradients at the peak
  double step_time = 0;
  int exchanges = 0, overlapped_kernels = 0;
  double least_surplus = 0;
};

Answer run(const Choice& choice) {
  std::unique_ptr<LiveGradients> live;
  Answer answer;
  SimulateOptions options{.critical_path = false, .folding = Folding::off};
  options.observe.push_back([&live](const StepRun& r) { return (live = std::make_unique<LiveGradients>(r)).get(); });
  options.after = [&](const StepRun& r) {
    for (const GradientBucket& bucket : r.plan.stages.front().buckets)
      answer.all_gradients += bucket.elements * r.plan.gradient_element.value;
    answer.buckets = r.plan.stages.front().buckets.size();
    answer.exchanges = live->exchanges / r.plan.steps;
    answer.overlapped_kernels = live->overlapped_kernels;
    answer.least_surplus = live->least_surplus;
  };
  const Result result = simulate_here(scenario_of(choice), options);
  answer.booked = result.memory.gradients.value;
  answer.step_time = result.step_time.value;
  return answer;
}

}  // namespace

TEST_CASE("gradients are booked when their exchange begins, at every stage of ZeRO, with overlap and without",
          "[memory]") {
  int overlapped_kernels = 0;
  for (const char* stack : {"plain", "deepspeed", "pytorch-ddp", "megatron-core"})
    for (const int zero : {0, 1, 2})
      for (const int micro_batches : {1, 3}) {
        const Answer overlapped = run({stack, zero, micro_batches, true}),
                     sequential = run({stack, zero, micro_batches, false});
        CAPTURE(stack, zero, micro_batches);
        REQUIRE(overlapped.buckets > 2);
        for (const Answer& a : {overlapped, sequential}) {
          CHECK(a.least_surplus >= -1e-6 * a.all_gradients);
          // Stage 2 exchanges the gradients of each micro-batch, because it keeps only its shard.
          CHECK(a.exchanges == static_cast<int>(a.buckets) * (zero == 2 ? micro_batches : 1));
        }
        overlapped_kernels += overlapped.overlapped_kernels;
        CHECK(sequential.overlapped_kernels == 0);
        CHECK(sequential.step_time > 0.99 * overlapped.step_time);  // kernels beside exchanges are slower
        // All gradients are in memory after the backward pass, unless stage 2 frees the buckets one by one.
        if (zero == 2)
          CHECK(sequential.booked < 0.9 * sequential.all_gradients);
        else
          CHECK(sequential.booked == Approx(sequential.all_gradients));
      }
  CHECK(overlapped_kernels > 0);
}

TEST_CASE("gradients that zero_grad frees have memory from the backward pass that makes them to the next step",
          "[memory]") {
  // The highest memory of one replica, layer by layer, with one micro-batch and without recomputation.
  const auto by_layers = [](const TrainingPlan& plan) {
    const StagePlan& stage = plan.stages.front();
    const std::vector<Layer>& layers = plan.network->layers;
    double gradients = 0, held = stage.memory.total().value, peak = held;
    for (const Bytes layer : stage.freed_gradients) gradients += layer.value;
    CHECK(gradients == Approx(stage.memory.gradients.value));
    held -= gradients;
    for (const Layer& layer : layers) {
      held += layer.activations().value;
      peak = std::max(peak, held + layer.forward_transient.value);
    }
    for (std::size_t l = layers.size(); l-- > 0;) {
      held += stage.freed_gradients[l].value;
      peak = std::max(peak, held + layers[l].backward_transient.value);
      held -= layers[l].activations().value;
    }
    return std::max(peak, held);
  };
  for (const std::string stack : {"pytorch-ddp", "pytorch-autocast"})
    for (const int batch : {1, 16}) {
      CAPTURE(stack, batch);
      double expected = 0;
      const auto step = [&](const std::string& software) {
        SimulateOptions options{.critical_path = false};
        options.after = [&](const StepRun& r) {
          if (!r.plan.stages.front().freed_gradients.empty()) expected = by_layers(r.plan);
        };
        return simulate_here(
            read_scenario_text(fmt::format("cluster: {{node: {{base: dgx-a100, gpu: {{count: 1}}}}}}\nsoftware: {}\n"
                                           "model: {{base: gpt2, n_layer: 3}}\nplan: {{micro_batch_size: {}, "
                                           "seq_length: 512, precision: bf16, data_parallel: {{zero_stage: 0}}}}\n",
                                           software, batch),
                               "freed.yaml"),
            options);
      };
      const Result freed = step(stack), lasting = step("{base: " + stack + ", frees_gradients: false}");
      CHECK(freed.memory.peak.value == Approx(expected).epsilon(1e-9));
      CHECK(freed.step_time.value == Approx(lasting.step_time.value).epsilon(1e-12));
      CHECK(freed.memory.peak.value <= lasting.memory.peak.value);
      // With many samples the activations are largest before most gradients exist.
      if (batch > 1) CHECK(lasting.memory.peak.value - freed.memory.peak.value > 0.3 * lasting.memory.gradients.value);
    }
}

TEST_CASE("a plan or its stack says how the optimizer keeps states and master weights", "[memory]") {
  const auto gigabytes = [](const Overrides& overrides) {
    const Scenario s = read_scenario_text(
        "cluster: {node: dgx-a100}\nmodel: {base: gpt2, n_layer: 3}\nsoftware: megatron-core\n"
        "plan: {micro_batch_size: 1, global_batch_size: 8, seq_length: 128, precision: bf16}\n",
        "optimizer.yaml", overrides);
    return simulate(s).memory.optimizer.value;
  };
  const double usual = gigabytes({});  // 4 + 2 x 4 bytes a parameter
  CHECK(gigabytes({{"plan.optimizer", "{name: adamw, states: bf16}"}}) == Approx(usual * 8 / 12));
  CHECK(gigabytes({{"plan.optimizer", "{states: fp8, master_weights: false}"}}) == Approx(usual * 2 / 12));
  const Overrides stack{{"software", "{base: megatron-core, optimizer_states: bf16, master_weights: false}"}};
  CHECK(gigabytes(stack) == Approx(usual * 4 / 12));
  Overrides plan = stack;
  plan.emplace_back("plan.optimizer", "{states: fp32, master_weights: true}");
  CHECK(gigabytes(plan) == Approx(usual));
  CHECK_THROWS_WITH(gigabytes({{"plan.optimizer", "{name: sgd, states: bf16}"}}),
                    Catch::Contains("plan.optimizer.states: sgd has none"));
  CHECK_THROWS_WITH(gigabytes({{"plan.optimizer", "{name: adam8bit, states: bf16}"}}),
                    Catch::Contains("adam8bit has states of 8 bits"));
  CHECK_THROWS_WITH(gigabytes({{"plan.optimizer", "{name: adam, states: int4}"}}),
                    Catch::Contains("fp32, bf16, fp16, fp8"));
}

}  // namespace scenarios_test_gradient_memory
