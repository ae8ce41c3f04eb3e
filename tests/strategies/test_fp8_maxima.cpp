// Ranks that use the same fp8 scaling factors agree on the maxima of their tensors after each pass.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "scenarios/src/planning/plan.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "strategies/collectives/library_model.hpp"

namespace strategies_test_fp8_maxima {

using namespace trainyard;

namespace {

Scenario fp8_scenario(int micro_batches, const std::string& plan, const std::string& software) {
  return read_scenario_text(
      "cluster: {nodes: 4, node: dgx-h100, fabric: nonblocking}\n"
      "model: {base: llama-3-8b, num_hidden_layers: 8}\n"
      "plan: {global_batch_size: " +
          std::to_string(micro_batches * 4) + ", micro_batch_size: 1, seq_length: 2048, precision: fp8, " +
          "tensor_parallel: 4, sequence_parallel: true, " + plan + "}\nsoftware: {base: megatron-core, " + software +
          "}\n",
      "fp8.yaml");
}

double maxima(const Result& r) {
  const auto& exposed = r.breakdown.exposed_communication;
  return exposed.contains("maxima of fp8") ? exposed.at("maxima of fp8") : 0;
}

}  // namespace

TEST_CASE("maxima of fp8 are all-reduced once per pass, over all ranks of a stage or over tensor ranks", "[fp8]") {
  const std::string stages = "pipeline_parallel: 2, pipeline: {schedule: 1f1b}";
  for (const bool spans_stage : {true, false}) {
    CAPTURE(spans_stage);
    const auto run = [&](int micro_batches) {
      return fp8_scenario(micro_batches, stages, spans_stage ? "fp8_maxima: stage" : "fp8_maxima: tensor");
    };
    const Scenario s = run(4);
    // Four blocks of four products on the last stage: 3 values each in the forward pass, 2 in the backward pass.
    const NodeSpread spread = spans_stage ? NodeSpread{16, 2, 8} : NodeSpread{4, 1, 4};
    const auto time = [&](int tensors) {
      const ModelledCost cost = library_model(s.cluster, s.software.nccl_choice)
                                    .model->cost(Operation::all_reduce, Bytes{4.0 * tensors * 16}, spread);
      const double exchange_time = cost.latency.value + (cost.wire / cost.rate).value;
      return exchange_time * s.software.slowdowns.exchanges + s.software.collective_launch.value;
    };
    const double passes = maxima(simulate(run(8))) - maxima(simulate(s));
    CHECK(passes == Approx(4 * (time(3) + time(2))).epsilon(1e-6));
  }
}

TEST_CASE("only delayed scaling exchanges maxima, and they take the same time folded", "[fp8]") {
  const std::string stages = "pipeline_parallel: 2, pipeline: {schedule: interleaved-1f1b, chunks: 2}";
  const Scenario s = fp8_scenario(4, stages, "fp8_maxima: stage");
  const Result folded = simulate(s);
  SimulateOptions unfolded;
  unfolded.folding = Folding::off;
  const Result full = simulate(s, unfolded);
  CHECK(maxima(folded) > 0);
  CHECK(folded.step_time.value == Approx(full.step_time.value).epsilon(1e-9));
  CHECK(maxima(folded) == Approx(maxima(full)).epsilon(1e-9));
  CHECK(maxima(simulate(fp8_scenario(4, stages + ", fp8_scaling: current", "fp8_maxima: stage"))) == 0);
}

TEST_CASE("a backward pass that is split, or beside a forward pass, agrees on its maxima once", "[fp8]") {
  for (const char* stages : {"pipeline_parallel: 2, pipeline: {schedule: zb-h1}",
                             "pipeline_parallel: 2, pipeline: {schedule: interleaved-1f1b, chunks: 2}"}) {
    CAPTURE(stages);
    const auto exposed = [&](int micro_batches) {
      return maxima(simulate(fp8_scenario(micro_batches, stages, "fp8_maxima: tensor")));
    };
    const double chunks = std::string(stages).find("chunks") == std::string::npos ? 1 : 2;
    const double maxima_of_pass =
        maxima(simulate(fp8_scenario(4, "pipeline_parallel: 2, pipeline: {schedule: 1f1b}", "fp8_maxima: tensor"))) / 4;
    CHECK(exposed(4) / 4 == Approx(chunks * maxima_of_pass).epsilon(0.02));
  }
}

TEST_CASE("ranks that shard the optimizer gather MXFP8 parameters in 16 bits, and cast them once a step", "[fp8]") {
  const auto training = [](const std::string& node, const std::string& scaling, int zero) {
    return plan(read_scenario_text(
                    "cluster: {nodes: 1, node: " + node +
                        "}\nmodel: {base: llama-3-8b, num_hidden_layers: 2}\n"
                        "plan: {global_batch_size: 8, micro_batch_size: 1, seq_length: 2048, precision: fp8, "
                        "fp8_scaling: " +
                        scaling + ", data_parallel: {zero_stage: " + std::to_string(zero) +
                        "}}\nsoftware: megatron-core\n",
                    "mxfp8.yaml"))
        .training;
  };
  const TrainingPlan blocks = training("dgx-b200", "block", 1), tensors = training("dgx-b200", "current", 1);
  CHECK(blocks.parameter_element == Bytes{2});
  CHECK(tensors.parameter_element == Bytes{1});
  const Bytes cast = blocks.stages.front().optimizer.bytes - tensors.stages.front().optimizer.bytes;
  CHECK(cast.value == Approx(blocks.network->parameters() * (2 + 1 + 1)).epsilon(1e-12));
  // Hopper transposes a copy, and ranks that shard the parameters gather a copy in each pass.
  CHECK(training("dgx-h100", "block", 1).parameter_element == Bytes{1});
  CHECK(training("dgx-b200", "block", 3).parameter_element == Bytes{1});
}

TEST_CASE("parameters of embedding, head and blocks in bf16 are gathered in 16 bits, those of products in fp8 in 8",
          "[fp8]") {
  const auto training = [](const std::string& precision, int zero) {
    return plan(read_scenario_text("cluster: {nodes: 1, node: dgx-h100}\nmodel: {base: llama-3-8b, "
                                   "num_hidden_layers: 4}\nplan: {global_batch_size: 8, micro_batch_size: 1, "
                                   "seq_length: 2048, precision: " +
                                       precision + ", data_parallel: {zero_stage: " + std::to_string(zero) +
                                       "}}\nsoftware: megatron-core\n",
                                   "fp8.yaml"))
        .training;
  };
  const auto gathered = [](const TrainingPlan& plan) {
    double bytes = 0;
    for (const GradientBucket& bucket : plan.stages.front().buckets)
      bytes += bucket.gathered() * plan.parameter_element.value;
    return bytes;
  };
  for (const int zero : {1, 3}) {
    CAPTURE(zero);
    const TrainingPlan wide = training("bf16", zero);
    const double all = gathered(wide);
    CHECK(all == Approx(2 * wide.network->parameters()));
    CHECK(gathered(training("fp8, bf16_blocks: {first: 4}", zero)) == Approx(all));
    CHECK(gathered(training("fp8, bf16_blocks: {first: 2, last: 2}", zero)) == Approx(all));
    double weights = 0;  // parameters of linear layers of blocks
    for (std::size_t block = 1; block <= 4; ++block)
      for (const ParameterTensor& tensor : wide.network->layers[block].parameters)
        if (tensor.in > 0) weights += tensor.elements;
    CHECK(gathered(training("fp8", zero)) == Approx(all / 2));  // as in the fit of the measured steps
    for (int blocks = 1; blocks < 4; ++blocks)
      CHECK(gathered(training(fmt::format("fp8, bf16_blocks: {{first: {}}}", blocks), zero)) ==
            Approx(all - weights * (4 - blocks) / 4));
  }
}

TEST_CASE("fp8 has its own figure for the part that user buffers hide", "[fp8][stacks]") {
  const auto hidden = [](const std::string& precision, const std::string& buffers) {
    return read_scenario_text(
               "cluster: {nodes: 1, node: dgx-h100}\nmodel: {base: llama-3-8b, num_hidden_layers: 2}\n"
               "plan: {global_batch_size: 8, micro_batch_size: 1, seq_length: 2048, precision: " +
                   precision + ", tensor_parallel: 8, sequence_parallel: true}\nsoftware: {base: nemo" + buffers +
                   "}\n",
               "buffers.yaml")
        .plan.sharding.user_buffers;
  };
  CHECK(hidden("bf16", ", parallel: {user_buffers: {overlapped: 0.6, overlapped_fp8: 0.4}}") == 0.6);
  CHECK(hidden("fp8", ", parallel: {user_buffers: {overlapped: 0.6, overlapped_fp8: 0.4}}") == 0.4);
  CHECK(hidden("fp8", ", parallel: {user_buffers: {overlapped: 0.6}}") == hidden("fp8", ""));
  CHECK(hidden("bf16", ", parallel: {user_buffers: {overlapped_fp8: 0.4}}") == hidden("bf16", ""));
  CHECK(hidden("fp8", ", parallel: {user_buffers: {overlapped: 0}}") == 0);
}

TEST_CASE("fp8_scaling: tensor means the per-tensor scaling of the software stack", "[fp8][stacks]") {
  const auto scaling = [](const std::string& plan, const std::string& software) {
    return read_scenario_text(
               "cluster: {nodes: 1, node: dgx-h100}\nmodel: {base: llama-3-8b, num_hidden_layers: 2}\n"
               "plan: {global_batch_size: 8, micro_batch_size: 1, seq_length: 2048, precision: fp8" +
                   plan + "}\nsoftware: " + software + "\n",
               "scaling.yaml")
        .model.options.fp8_scaling;
  };
  CHECK(scaling("", "megatron-core") == Fp8Scaling::delayed);
  CHECK(scaling("", "torchtitan") == Fp8Scaling::current);
  CHECK(scaling(", fp8_scaling: tensor", "torchtitan") == Fp8Scaling::current);
  CHECK(scaling("", "{base: torchtitan, fp8_scaling: row}") == Fp8Scaling::row);
  CHECK(scaling(", fp8_scaling: tensor", "{base: torchtitan, fp8_scaling: row}") == Fp8Scaling::delayed);
  CHECK(scaling(", fp8_scaling: block", "megatron-core") == Fp8Scaling::block);
}

}  // namespace strategies_test_fp8_maxima
