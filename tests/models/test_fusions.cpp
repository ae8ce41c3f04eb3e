// Fusions of libraries, and their effect on kernels, bytes and gradients.
#include <catch2/catch.hpp>

#include "models/networks/layers/layer_builder.hpp"
#include "models/software/stack.hpp"
#include "sim/error.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_fusions {

using namespace trainyard;
using Names = std::vector<std::string>;

namespace {

const char* const kGpt =
    R"({model_type: gpt2, vocab_size: 4096, n_layer: 2, n_embd: 256, n_head: 8, n_positions: 512})";
const char* const kLlama = R"({model_type: llama, vocab_size: 4096, num_hidden_layers: 2, hidden_size: 256,
  num_attention_heads: 8, num_key_value_heads: 4, intermediate_size: 768, max_position_embeddings: 2048})";

SoftwareStack stack_of(const std::string& text) { return read_stack(parse_document(text, "stack.yaml")); }
Layer block(const char* config, const Fusions& fusions, Sharding sharding = {}) {
  TransformerOptions options;
  static_cast<Fusions&>(options) = fusions;
  options.sharding = sharding;
  return transformer_network(parsed_config(config), 2, 128, Precision::bf16, options).layers[1];
}
bool has(const Names& all, const std::string& name) { return std::find(all.begin(), all.end(), name) != all.end(); }

/// Bytes that kernels with that beginning of a name move in the first block of gpt-oss 20B, forward and backward.
std::pair<double, double> moved_by(const std::string& beginning, const TransformerOptions& options,
                                   const std::string& over = "{}") {
  const Layer layer =
      transformer_network(catalog_config("gpt-oss-20b", over), 1, 64, Precision::bf16, options).layers.at(1);
  const auto moved = [&](const auto& kernels) {
    double bytes = 0;
    for (const auto& kernel : kernels)
      if (kernel.name.starts_with(beginning)) bytes += kernel.work.bytes.value;
    return bytes;
  };
  return {moved(layer.forward), moved(layer.backward)};
}

}  // namespace

TEST_CASE("a block of megatron-core has eleven kernels", "[fusions]") {
  const Layer layer = block(kLlama, catalog_stack("megatron-core"));
  CHECK(names(layer.forward) == Names{"attention_norm", "qkv", "rotary", "attention", "projection",
                                      "attention_residual", "mlp_norm", "gate_up", "silu_mul", "down", "mlp_residual"});
  CHECK(names(layer.parameters) == Names{"attention_norm.weight", "qkv.weight", "projection.weight", "mlp_norm.weight",
                                         "gate_up.weight", "down.weight"});
  CHECK(layer.parameters[1].elements == 256.0 * (256 + 2 * 128));
  CHECK(layer.parameters[4].elements == 256.0 * 2 * 768);
  const Layer separate = block(kLlama, {});
  CHECK(layer.parameter_elements() == separate.parameter_elements());
  CHECK(layer.forward_flops() == separate.forward_flops());
  CHECK(layer.backward_flops() == separate.backward_flops());
}

TEST_CASE("GEMMs that add to fp32 gradients move six more bytes for each element", "[fusions]") {
  Fusions fused;
  fused.fused_gradient_accumulation = true;
  const Layer accumulating = block(kLlama, fused), plain_block = block(kLlama, {});
  CHECK(
      (work_of(accumulating.backward, "down.wgrad").bytes - work_of(plain_block.backward, "down.wgrad").bytes).value ==
      6.0 * 256 * 768);
  CHECK(work_of(accumulating.backward, "down.dgrad").bytes == work_of(plain_block.backward, "down.dgrad").bytes);
  for (const ParameterTensor& tensor : accumulating.parameters) CHECK(tensor.accumulated == (tensor.in > 0));
  for (const ParameterTensor& tensor : plain_block.parameters) CHECK_FALSE(tensor.accumulated);
}

TEST_CASE("a block of 2022 has one kernel each for softmax, and for bias, dropout and residual", "[fusions]") {
  const Fusions stack = catalog_stack("megatron-2022");
  const Layer layer = block(kGpt, stack);
  const Names kernels = names(layer.forward);
  CHECK(kernels == Names{"attention_norm", "qkv", "scores", "softmax", "softmax_dropout", "context", "merge_heads",
                         "projection", "attention_residual", "mlp_norm", "fc1", "gelu_new", "fc2", "mlp_residual"});
  const double tensor = 2.0 * 128 * 256;  // elements: rows times width
  CHECK(work_of(layer.forward, "attention_residual").bytes.value == 3 * 2 * tensor + tensor);
  CHECK(layer.activations() == block(kGpt, without_flash_attention()).activations());
  CHECK_FALSE(has(names(block(kGpt, stack, {{.tensor = 2}, {}}).forward), "projection.bias"));
  CHECK(has(names(block(kGpt, {}, {{.tensor = 2}, {}}).forward), "projection.bias"));
}

TEST_CASE("kernels that make only gradients of weights are marked, and their inputs are counted", "[fusions]") {
  LayerBuilder b("l", 10, Precision::fp32);
  b.linear({.name = "a", .in = 4, .out = 6, .bias = true});
  b.norm(Norm::layer_norm, "n", 6);
  const Layer layer = std::move(b).build(Bytes{});
  for (const BackwardKernel& kernel : layer.backward)
    CHECK(kernel.for_weights ==
          (kernel.name == "a.wgrad" || kernel.name == "a.bias_grad" || kernel.name == "n.weight_grad"));
  const double linear = 4.0 * 10 * (4 + 6), norm = 4.0 * 10 * (6 + 6) + 8 * 10;  // inputs, gradients, statistics
  CHECK(layer.kept_for_weights.value == linear + norm);

  const Layer flash = block(kLlama, {});
  for (const BackwardKernel& kernel : flash.backward) {
    const bool alone = kernel.name.ends_with("wgrad") || kernel.name.ends_with("weight_grad");
    CHECK(kernel.for_weights == alone);
    CHECK((!kernel.for_weights || !kernel.gradients_ready.empty()));
  }
  CHECK(flash.kept_for_weights.value > 0);
}

TEST_CASE("gradients of replicated weights are partial if each tensor rank sees only its heads or tokens",
          "[fusions]") {
  const auto partial = [](const std::string& name, std::int64_t layers, Sharding sharding) {
    TransformerOptions options;
    options.sharding = sharding;
    const Network network = transformer_network(
        catalog_config(name, "{num_hidden_layers: " + std::to_string(layers) + "}"), 1, 128, Precision::bf16, options);
    CHECK(gradients_are_ready_once(network));
    Names result;
    for (const ParameterTensor& tensor : network.layers.rbegin()[1].parameters)
      if (tensor.partial) result.push_back(tensor.name);
    return result;
  };
  CHECK(partial("llama-3-8b", 1, {{.tensor = 2}, {}}).empty());
  CHECK(partial("qwen3-30b-a3b", 1, {{.tensor = 2}, {}}) == Names{"q_norm.weight", "k_norm.weight", "router.weight"});
  CHECK(partial("qwen3-30b-a3b", 1, {{.tensor = 2, .expert = 8}, {.sequence = true}}) ==
        Names{"attention_norm.weight", "q_norm.weight", "k_norm.weight", "mlp_norm.weight", "router.weight"});
  CHECK(partial("deepseek-v3", 4, {{.tensor = 4, .expert = 16}, {}}) ==
        Names{"q_a.weight", "q_a_norm.weight", "kv_a.weight", "kv_a_norm.weight", "router.weight"});
}

TEST_CASE("fields of a stack that do not go together are refused", "[fusions]") {
  const std::string least = "bucket: 25 MiB\n";
  CHECK_THROWS_WITH(stack_of(least + "fused_gradient_accumulation: true"),
                    Catch::Matchers::Contains("expected gradient_precision: fp32"));
  CHECK_THROWS_WITH(stack_of(least + "dummy_weight_gradients: true"),
                    Catch::Matchers::Contains("only with fused_gradient_accumulation"));
  CHECK_THROWS_WITH(stack_of(least + "vocabulary_multiple: 100000"), Catch::Matchers::Contains("the most is 65536"));
  CHECK_THROWS_AS(stack_of(least + "gradient_precision: fp8"), UserError);
  const SoftwareStack plain = stack_of(least);
  CHECK(plain.flash_attention);
  CHECK_FALSE(plain.fused_projections);
  CHECK_FALSE(plain.gradient_precision);
}

TEST_CASE("a hot chip computes more slowly, and moves data at the same rate", "[fusions]") {
  const Gpu gpu = read_gpu(Catalog(std::string(TRAINYARD_SOURCE_DIR) + "/models/catalog")
                               .resolve("gpu", Node::scalar_node("b200-sxm-180gb")));
  const Gpu hot = sustained_gpu(gpu);
  const double clock = 1 / (1 + gpu.gemm.throttle);  // the entry states no clock
  REQUIRE(gpu.sustained_clock == 0);
  const Work product = gemm("g", 8192, 8192, 8192, Precision::bf16).work;
  const auto time = [](const Gpu& g, const Work& w) { return (kernel_time(g, w) - g.kernel_launch).value; };
  const Work attention = kernel_call("a", Kernel::attention, Flops{1e12}, Bytes{}, Precision::bf16).work;
  CHECK(time(hot, attention) * clock == Approx(time(gpu, attention)));
  CHECK(time(hot, product) > time(gpu, product));
  CHECK(hot.gemm.clock == gpu.gemm.sustained);
  const Work copy = elementwise("c", Bytes{1e9}, Precision::bf16).work;
  CHECK(kernel_time(hot, copy) == kernel_time(gpu, copy));
  CHECK(kernel_time(sustained_gpu(hot), product) == kernel_time(hot, product));

  Gpu stated = gpu;
  stated.sustained_clock = 0.9;
  stated.gemm.sustained = 0;
  CHECK(sustained_gpu(stated).gemm.clock == 0.9);
  CHECK(time(sustained_gpu(stated), attention) * 0.9 == Approx(time(gpu, attention)));
  stated.sustained_attention = 0.95;  // an attention kernel may slow down less than the chip's other kernels
  CHECK(time(sustained_gpu(stated), attention) * 0.95 == Approx(time(gpu, attention)));
  CHECK(sustained_gpu(stated).gemm.clock == 0.9);
  CHECK(sustained_gpu(stated).sustained_attention == 1);
}

TEST_CASE("a chip under a power limit computes more slowly, in short and in long runs, and moves data at the same rate",
          "[fusions]") {
  const Catalog catalog(std::string(TRAINYARD_SOURCE_DIR) + "/models/catalog");
  const auto h100 = [&](const std::string& rest) {
    return read_gpu(catalog.resolve("gpu", parse_document("base: h100-sxm5-80gb\n" + rest, "x.yaml")));
  };
  const Gpu full_power = h100(""), limited = within_power_limit(h100("power_limit: 500 W\n"));
  const double clock = std::sqrt((500.0 - 70) / (700 - 70));
  CHECK(limited.power.busy.value == 500);
  CHECK(kernel_time(within_power_limit(limited), gemm("g", 64, 64, 64, Precision::bf16).work) ==
        kernel_time(limited, gemm("g", 64, 64, 64, Precision::bf16).work));
  const auto time = [](const Gpu& g, const Work& w) { return (kernel_time(g, w) - g.kernel_launch).value; };
  const Work attention = kernel_call("a", Kernel::attention, Flops{1e12}, Bytes{}, Precision::bf16).work;
  CHECK(time(limited, attention) * clock == Approx(time(full_power, attention)));
  CHECK(time(sustained_gpu(limited), attention) * clock == Approx(time(sustained_gpu(full_power), attention)));
  CHECK(sustained_gpu(limited).gemm.clock == Approx(clock * full_power.gemm.sustained));
  const Work copy = elementwise("c", Bytes{1e9}, Precision::bf16).work;
  CHECK(kernel_time(limited, copy) == kernel_time(full_power, copy));

  const Gpu cubic = within_power_limit(h100("power_limit: 500 W\nclock_by_power: 0.3333\n"));
  CHECK(cubic.gemm.clock == Approx(std::pow(430.0 / 630, 0.3333)));
  CHECK_THROWS_WITH(h100("power_limit: 800 W\n"), Catch::Contains("at most 700 W"));
  CHECK_THROWS_WITH(h100("power_limit: 60 W\n"), Catch::Contains("above 70 W"));
  CHECK_THROWS_WITH(h100("power: null\npower_limit: 500 W\n"), Catch::Contains("needs power.busy"));
  CHECK_THROWS_WITH(
      read_gpu(parse_document("peak: {bf16: 1 TFLOP/s}\nmemory_bandwidth: 1 TB/s\nmemory_capacity: 1 GiB\n"
                              "power: {busy: 300 W}\npower_limit: 200 W\n",
                              "x.yaml")),
      Catch::Contains("x.yaml:5") && Catch::Contains("power.idle"));
}

TEST_CASE("kernels of gpt-oss on strided, broadcast or mixed operands have the rate of these", "[fusions]") {
  TransformerOptions options;
  options.weighted_expert_activation = options.experts_in_turn = options.fused_rotary = true;
  options.scales_fused_rotary = false;
  const Layer layer = transformer_network(catalog_config("gpt-oss-20b"), 1, 64, Precision::bf16, options).layers.at(1);
  Names strided;
  const auto collect = [&strided](const auto& kernels) {
    for (const auto& kernel : kernels)
      if (kind_of(kernel.work.kernel) == Kernel::strided) strided.push_back(kernel.name);
  };
  collect(layer.forward);
  collect(layer.backward);
  CHECK(strided == Names{"rotary.q.negate",
                         "rotary.q.cos",
                         "rotary.q.sin",
                         "rotary.k.negate",
                         "rotary.k.cos",
                         "rotary.k.sin",
                         "experts.clamp.gate",
                         "experts.clamp.up",
                         "experts.bias.weigh",
                         "experts.bias.add",
                         "experts.bias.cast.backward",
                         "experts.bias.weigh.backward",
                         "experts.clamp.gate.backward",
                         "experts.clamp.up.backward",
                         "rotary.k.sin.backward",
                         "rotary.k.cos.backward",
                         "rotary.k.negate.backward",
                         "rotary.q.sin.backward",
                         "rotary.q.cos.backward",
                         "rotary.q.negate.backward"});
  const auto waits =
      std::count_if(layer.forward.begin(), layer.forward.end(), [](const auto& k) { return k.host_reads; });
  CHECK(waits == 2);  // for the rows of experts, and for the copy of the activation's offset
}

TEST_CASE("experts whose activation is weighted add weighted biases to their outputs by kernels of fp32", "[fusions]") {
  constexpr double kTokens = 64;
  const auto moved = [&](bool in_turn) {
    TransformerOptions options;
    options.weighted_expert_activation = true;
    options.experts_in_turn = in_turn;
    const Layer layer = transformer_network(catalog_config("gpt-oss-20b"), 1, static_cast<std::int64_t>(kTokens),
                                            Precision::bf16, options)
                            .layers.at(1);
    const auto bias_bytes = [](const auto& kernels) {
      double bytes = 0;
      for (const auto& kernel : kernels)
        if (kernel.name.starts_with("experts.bias.")) bytes += kernel.work.bytes.value;
      return bytes;
    };
    return std::pair{bias_bytes(layer.forward), bias_bytes(layer.backward)};
  };
  const double elements = kTokens * 4 * 2880;  // outputs of four experts a token
  // Forward: products (4), sums (2 + 8), their concatenation (8), a cast (6). Backward: the cast (6), the gradient of the
  // output (4 + 6), products with weights and with biases and their sum over columns (20).
  CHECK(moved(true).first == elements * 28);
  CHECK(moved(true).second == elements * 36);
  CHECK(moved(false).first == 0);
}

TEST_CASE("Megatron's experts clamp the inputs of a limited activation by eager kernels", "[fusions]") {
  TransformerOptions options;
  CHECK(moved_by("experts.clamp.", options).first == 0);
  options.weighted_expert_activation = options.experts_in_turn = true;
  const double half = 64 * 4 * 2880 * 2;  // bytes of the gates of four experts a token
  // Forward: each half is read and written, then both. Backward: a half's gradient and input are read and the result is
  // written, then both gradients are joined.
  CHECK(moved_by("experts.clamp.", options) == std::pair{half * 8, half * 10});
  CHECK(moved_by("experts.clamp.", options, "{swiglu_limit: 0}").first == 0);
}

TEST_CASE("a fused rotation that does not scale leaves queries and keys with YaRN to eager kernels", "[fusions]") {
  TransformerOptions options;
  options.fused_rotary = true;
  const double heads = 64 * (64 + 8) * 64 * 2;  // bytes of queries and keys
  CHECK(moved_by("rotary", options) == std::pair{heads * 2, heads * 2});
  options.scales_fused_rotary = false;
  CHECK(moved_by("rotary", options) == std::pair{heads * 12, heads * 13});
}

TEST_CASE("products of heads that are no multiple of 16 bytes wide leave the tensor cores", "[fusions]") {
  const auto scores = [](int heads, bool aligned) {
    TransformerOptions options = without_flash_attention();
    options.aligned_tensor_cores = aligned;
    const std::string over = "{n_layer: 1, n_embd: 13824, n_head: " + std::to_string(heads) + ", n_positions: 2048}";
    return transformer_network(catalog_config("gpt3-175b", over), 4, 2048, Precision::fp16, options).layers.at(1);
  };
  const Gpu a100 = read_gpu(Catalog().resolve("gpu", Node::scalar_node("a100-sxm4-80gb")));
  const auto attention = [&](const Layer& layer) {
    Seconds time{0};
    for (const KernelCall& call : layer.forward)
      if (call.name == "scores" || call.name == "context") time = time + kernel_time(a100, call.work);
    for (const BackwardKernel& call : layer.backward)
      if (call.name.starts_with("scores.") || call.name.starts_with("context."))
        time = time + kernel_time(a100, call.work);
    return time;
  };
  CHECK(attention(scores(64, true)) == attention(scores(64, false)));  // 216 elements
  const Layer narrow = scores(128, true);                              // 108 elements
  CHECK(attention(narrow) > attention(scores(128, false)) * 2.0);
  CHECK(work_of(narrow.forward, "scores").bytes == work_of(scores(128, false).forward, "scores").bytes);
}

TEST_CASE("inputs of activations are kept in fp8 if the stack does so", "[fusions]") {
  TransformerOptions options;
  options.fp8 = options.fused_gated_activation = true;
  const auto layer = [&] {
    return transformer_network(catalog_config("llama-3-8b"), 1, 64, Precision::bf16, options).layers.at(1);
  };
  const Layer wide = layer();
  options.fp8_activation_input = true;
  const Layer narrow = layer();
  const double inputs = 2.0 * 64 * 14336;  // gate and up, elements
  CHECK(wide.activations().value - narrow.activations().value == inputs);
  CHECK(work_of(narrow.forward, "silu_mul").bytes.value == work_of(wide.forward, "silu_mul").bytes.value + inputs);
  CHECK(work_of(narrow.backward, "silu_mul.backward").bytes.value ==
        work_of(wide.backward, "silu_mul.backward").bytes.value - inputs);
  options.fp8 = false;  // nothing is in fp8
  CHECK(layer().activations() ==
        network_of(catalog_config("llama-3-8b"), 1, 64).layers.at(1).activations() - Bytes{2.0 * 64 * 14336});
  CHECK(work_of(layer().forward, "silu_mul").bytes == work_of(wide.forward, "silu_mul").bytes);
}

TEST_CASE("attention in fp8 keeps half as much, and has the gradients of 16 bits", "[fusions]") {
  TransformerOptions options;
  options.fp8 = true;
  const auto layer = [&] {
    return transformer_network(catalog_config("llama-3-8b"), 1, 64, Precision::bf16, options).layers.at(1);
  };
  const Layer wide = layer();
  options.fp8_attention = true;
  const Layer narrow = layer();
  const double qkv = 64 * (4096 + 2 * 1024.0), output = 64 * 4096.0;  // elements
  CHECK(wide.activations().value - narrow.activations().value == qkv + output);
  CHECK(work_of(wide.forward, "attention").bytes.value - work_of(narrow.forward, "attention").bytes.value ==
        qkv + output);
  CHECK(work_of(wide.forward, "attention").flops == work_of(narrow.forward, "attention").flops);
}

TEST_CASE("outputs of experts are not kept if the activation applies the router weights", "[fusions]") {
  const TransformerConfig config = catalog_config("mixtral-8x7b");
  TransformerOptions options;
  const auto layer = [&] { return transformer_network(config, 1, 64, Precision::bf16, options).layers.at(1); };
  const Layer outside = layer();
  options.weighted_expert_activation = true;
  const Layer inside = layer();
  const double rows = 64 * 2, outputs = 2 * rows * 4096, weights = 4 * rows;
  CHECK(outside.activations().value - inside.activations().value == outputs - weights);
  CHECK(work_of(outside.forward, "combine").bytes.value - work_of(inside.forward, "combine").bytes.value == weights);
  CHECK(work_of(outside.backward, "combine.backward").bytes.value -
            work_of(inside.backward, "combine.backward").bytes.value ==
        outputs + 2 * weights);
}

}  // namespace models_test_fusions
