#include <catch2/catch.hpp>
#include <cmath>

#include "models/software/training_memory.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_stage_memory {

using namespace trainyard;

namespace {

constexpr double kGiB = 1073741824.0;

struct Run {
  const char* network;
  int layers, key_value_heads, tensor, pipeline, data;
  double peak_gib;
};

/// Returns the layers of one stage: an equal part of the blocks, in the first stage the embedding and in the last the
/// head.
std::vector<const Layer*> stage_layers(const Network& network, int stage, int stages) {
  const std::size_t blocks = network.layers.size() - 2, part = blocks / static_cast<std::size_t>(stages);
  const std::size_t first = stage == 0 ? 0 : 1 + static_cast<std::size_t>(stage) * part;
  const std::size_t last =
      stage + 1 == stages ? network.layers.size() : 1 + (static_cast<std::size_t>(stage) + 1) * part;
  std::vector<const Layer*> layers;
  for (std::size_t i = first; i < last; ++i) layers.push_back(&network.layers[i]);
  return layers;
}

/// Returns the peak of activations: those of all micro-batches in flight, and the transient memory of the one that
/// runs.
Bytes activations_peak(const std::vector<const Layer*>& layers, int in_flight) {
  Bytes all, before, most;
  for (const Layer* layer : layers) all += layer->activations();
  for (const Layer* layer : layers) {
    before += layer->activations();
    most = std::max(most, before + std::max(layer->forward_transient, layer->backward_transient));
  }
  return all * (in_flight - 1) + most;
}

/// Returns the peak memory in GiB under 1F1B with a distributed optimizer.
double peak_gib(const Run& run, const SoftwareStack& stack) {
  TransformerOptions options;
  static_cast<Fusions&>(options) = stack;
  options.sharding.tensor = run.tensor;
  options.sharding.sequence = run.tensor > 1;
  // The tokenizer of these runs adds one token to 128,256.
  const std::string over = "{vocab_size: 128257, num_hidden_layers: " + std::to_string(run.layers) +
                           ", num_key_value_heads: " + std::to_string(run.key_value_heads) + "}";
  const Network network = transformer_network(catalog_config(run.network, over), 1, 4096, Precision::bf16, options);
  Bytes most;
  for (int stage = 0; stage < run.pipeline; ++stage) {
    const std::vector<const Layer*> layers = stage_layers(network, stage, run.pipeline);
    const ZeroShares shares{1, 1, static_cast<double>(run.data)};
    const bool last = stage + 1 == run.pipeline;
    StaticMemory memory =
        static_memory(held_elements(layers, shares, shares), Precision::bf16, find_optimizer("adam", {}), stack);
    const Bytes sent = stage > 0 ? network.layers[1].output : Bytes{};
    add_library_buffers(memory, network, layers, last, sent, stack);
    most = std::max(most, memory.total() + activations_peak(layers, run.pipeline - stage));
  }
  return most.value / kGiB;
}

}  // namespace

// SimuMax v1.2 (MooreThreads), docs/b200/b200_release_v1.2_summary.json: max_memory_allocated of the worst rank of 8
// B200, Megatron-LM 23e00ed with TransformerEngine 2.11 (its llama3-405b has 16 key-value heads), sequences of 4,096
// tokens, micro-batches of one, no recomputation.
TEST_CASE("the peak memory of measured Megatron runs follows from layers, stage and library", "[stage_memory]") {
  const SoftwareStack stack = catalog_stack("megatron-core");
  const std::vector<Run> runs = {
      {"llama-3-70b", 12, 8, 1, 2, 4, 66.55},    {"llama-3-70b", 12, 8, 2, 1, 4, 60.68},
      {"llama-3-70b", 12, 8, 4, 1, 2, 39.07},    {"llama-3-70b", 12, 8, 8, 1, 1, 28.29},
      {"llama-3.1-405b", 4, 16, 1, 2, 4, 87.08}, {"llama-3.1-405b", 4, 16, 2, 1, 4, 81.59},
      {"llama-3.1-405b", 4, 16, 4, 1, 2, 52.89}, {"llama-3.1-405b", 4, 16, 8, 1, 1, 38.57},
  };
  for (const Run& run : runs) {
    INFO(run.network << ", tensor " << run.tensor << ", pipeline " << run.pipeline);
    CHECK(std::abs(peak_gib(run, stack) / run.peak_gib - 1) < 0.001);
  }
}

TEST_CASE("a rank holds its part of sharded states, and experts have their own replicas", "[stage_memory]") {
  Layer layer;
  layer.parameters = {{"dense", 800}, {"experts", 1600}};
  layer.parameters[1].expert = true;
  const HeldElements elements = held_elements({&layer}, {1, 2, 8}, {1, 1, 4});
  CHECK(elements.parameters == 2400);
  CHECK(elements.gradients == 800 / 2 + 1600);
  CHECK(elements.optimizer == 100 + 400);

  layer.tied_elements = 16;
  CHECK(held_elements({&layer}, {1, 1, 8}, {}).parameters == 2400);
  CHECK(held_elements({&layer}, {1, 1, 8}, {}, true).optimizer == 100 + 2 + 1600);

  SoftwareStack stack;
  stack.gradient_precision = Precision::fp32;
  const Optimizer& adam = find_optimizer("adam", {});
  const StaticMemory wide = static_memory(100, Precision::bf16, adam, stack);
  CHECK(wide.gradients.value == 400 + 0);
  CHECK(optimizer_traffic(adam, Precision::bf16, stack).value == 4 + 24 + 2);
  CHECK(gradient_accumulation_work(1, Precision::bf16, stack).bytes.value == 10);
  stack.cast_accumulation = true;  // copied to fp32 first
  CHECK(gradient_accumulation_work(1, Precision::bf16, stack).bytes.value == 18);
  CHECK(gradient_accumulation_work(1, Precision::fp32, stack).bytes.value == 12);
  stack.master_parameters = true;
  const StaticMemory sharded = static_memory(100, Precision::bf16, adam, stack);
  CHECK(sharded.parameters.value == 400);
  CHECK(sharded.optimizer.value == 800);
  CHECK(optimizer_traffic(adam, Precision::bf16, stack).value == 4 + 24);
  stack.optimizer_traffic = Bytes{34};
  CHECK(optimizer_work(10, Precision::bf16, adam, stack).bytes.value == 340);
}

TEST_CASE("an optimizer can keep its states in 16 bits, and leave out master weights", "[stage_memory]") {
  Optimizer adam = find_optimizer("adam", {});
  adam.state_element = element_size(Precision::bf16);
  SoftwareStack stack;
  // DeepSeek-AI 2024, §3.3.3: moments in bf16, master weights in fp32.
  CHECK(static_memory(100, Precision::bf16, adam, stack).optimizer.value == 100 * (4 + 2 * 2));
  CHECK(optimizer_traffic(adam, Precision::bf16).value == 2 + 2 * (4 + 2 * 2) + 2);
  // All in bf16, as torch.optim.Adam on a model in bf16.
  adam.keeps_master = false;
  CHECK(static_memory(100, Precision::bf16, adam, stack).optimizer.value == 100 * 2 * 2);
  CHECK(optimizer_traffic(adam, Precision::bf16).value == 2 + 2 * (2 + 2 * 2));
  stack.master_parameters = true;  // FSDP would store fp32 parameters, but there is no copy in fp32
  const StaticMemory sharded = static_memory(100, Precision::bf16, adam, stack);
  CHECK(sharded.parameters.value == 200);
  CHECK(sharded.optimizer.value == 400);
  CHECK(optimizer_traffic(adam, Precision::fp32).value == 4 + 2 * (4 + 2 * 2));
}

TEST_CASE("a library's buffers are named", "[stage_memory]") {
  const SoftwareStack stack = catalog_stack("megatron-core");
  TransformerOptions options;
  static_cast<Fusions&>(options) = stack;
  options.sharding.tensor = 2;
  options.sharding.sequence = true;
  const Network network =
      transformer_network(catalog_config("llama-3-8b", "{num_hidden_layers: 2}"), 1, 4096, Precision::bf16, options);
  std::vector<const Layer*> layers;
  for (const Layer& layer : network.layers) layers.push_back(&layer);
  StaticMemory memory;
  add_library_buffers(memory, network, layers, true, Bytes{10}, stack);
  const auto part = [&memory](const std::string& name) {
    for (const MemoryPart& p : memory.parts)
      if (p.name == name) return p.bytes.value;
    return -1.0;
  };
  CHECK(part("tables") == 4.0 * 4096 * 128);
  CHECK(part("gather buffer") == 2.0 * 4096 * 4096);
  const double h = 4096, f = 14336, vocab = 128256;  // 501 times 256
  CHECK(part("weight gradients in passing") == h * (h + 2048 + h + 2 * f + f + vocab));
  CHECK(part("gradient sent last") == 10);
  CHECK(memory.total() == memory.buffers);
}

}  // namespace models_test_stage_memory
