// State-space layers, linear attention, patterns of layers, and attention to chosen keys.
#include <catch2/catch.hpp>
#include <map>

#include "models/fitted/kernel_fit.hpp"
#include "models/networks/layers/sharding.hpp"
#include "models/reading/shipped_files.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_hybrids {

using namespace trainyard;
using Catch::Contains;

namespace {

const char* const kHybrid =
    "{model_type: nemotron_h, vocab_size: 1024, hidden_size: 256, num_hidden_layers: 6, hybrid_override_pattern: "
    "'ME*M-E', num_attention_heads: 8, num_key_value_heads: 4, head_dim: 32, intermediate_size: 512, mamba_num_heads: "
    "16, mamba_head_dim: 32, n_groups: 4, ssm_state_size: 64, chunk_size: 64, max_position_embeddings: 4096, "
    "n_routed_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 128, moe_shared_expert_intermediate_size: 256";

Network hybrid(const Sharding& sharding = {}, const std::string& over = "}", TransformerOptions options = {}) {
  options.sharding = sharding;
  return transformer_network(parsed_config(kHybrid + over), 2, 1024, Precision::bf16, options);
}

Bytes bytes_of(const std::vector<KernelCall>& kernels) {
  Bytes total;
  for (const KernelCall& kernel : kernels) total += kernel.work.bytes;
  return total;
}

}  // namespace

TEST_CASE("hybrids have the parameters that are published", "[transformer][hybrids]") {
  const std::map<std::string, std::pair<double, double>> billions{
      {"nemotron-3-nano", {31.6, 3.6}},  // with embeddings, of the model's report
      {"nemotron-h-8b", {8.1, 8.1}},       {"nemotron-h-56b", {56.3, 56.3}},
      {"nemotron-3-super", {120.6, 12.7}},  // the report's 120.6 and 12.7, with embeddings
      {"mamba2-2.7b", {2.70, 2.70}},       {"qwen3-next-80b-a3b", {79.7, 3.9}},
      {"deepseek-v3.2", {671.9, 38.4}}};
  for (const auto& [name, expected] : billions) {
    CAPTURE(name);
    const Network network = network_of(catalog_config(name), 1, 512);
    CHECK(network.parameters() == Approx(expected.first * 1e9).epsilon(0.005));
    CHECK(network.active_parameters() == Approx(expected.second * 1e9).epsilon(0.01));
    CHECK(gradients_are_ready_once(network));
  }
}

TEST_CASE("Nemotron 3 Ultra has the parameters of its report, and its checkpoint one layer for further tokens",
          "[transformer][hybrids]") {
  const TransformerConfig ultra = catalog_config("nemotron-3-ultra");
  const Network network = network_of(ultra, 1, 512);
  CHECK(network.parameters() == Approx(550e9).epsilon(0.005));
  CHECK(network.active_parameters() - network.layers.front().parameter_elements() == Approx(55e9).epsilon(0.005));
  TransformerConfig drafting = ultra;
  drafting.further_tokens = 1;
  CHECK(network_of(drafting, 1, 512).parameters() == Approx(561e9).epsilon(0.005));  // Hugging Face's count
}

TEST_CASE("each layer of a pattern is one branch", "[transformer][hybrids]") {
  const Network network = hybrid();
  CHECK(names(network.layers) == std::vector<std::string>{"embedding", "mamba 0", "experts 1", "attention 2", "mamba 3",
                                                          "mlp 4", "experts 5", "head"});
  // By hand: in-projection, convolution with bias, decay, step bias, skip, norm of the gated output, out-projection.
  const double inner = 16 * 32, keys = 4 * 64;
  CHECK(network.layers[1].parameter_elements() ==
        256 * (2 * inner + 2 * keys + 16) + (inner + 2 * keys) * (4 + 1) + 3 * 16 + inner + inner * 256 + 256);
  CHECK(network.layers[1].parameters.size() == 9);
  CHECK(gradients_are_ready_once(network));
}

TEST_CASE("a further token of a hybrid has the branches of its own pattern", "[transformer][hybrids]") {
  const Network plain = hybrid(), two = hybrid({}, ", mtp_num_layers: 2}");
  // The default pattern is attention, then experts: layers 3 and 2 of this hybrid, after the embedding.
  const double branches = plain.layers[3].parameter_elements() + plain.layers[2].parameter_elements();
  CHECK(two.parameters() - plain.parameters() == 2 * (branches + 2 * 256 * 256 + 3 * 256));
  const Network scanned = hybrid({}, ", mtp_num_layers: 2, mtp_hybrid_override_pattern: 'M'}");
  CHECK(scanned.parameters() - plain.parameters() ==
        2 * (plain.layers[1].parameter_elements() + 2 * 256 * 256 + 3 * 256));
  CHECK_THROWS_WITH(hybrid({}, ", mtp_hybrid_override_pattern: 'X'}"), Contains("'X' is no kind of layer"));
}

TEST_CASE("a scan moves the bytes of its kernels, and its arithmetic grows with the chunk", "[transformer][hybrids]") {
  ScanShape s{ScanKind::mamba2, 8192, 64, 64, 8, 128, 128, 4};
  const auto flops = [&] {
    double total = 0;
    for (const KernelCall& kernel : scan_forward(s, Precision::bf16)) total += kernel.work.flops.value;
    return total;
  };
  const double keys = 8 * 128, inner = 64 * 64;
  CHECK(flops() == 8192 * (128 * keys + 128 * inner + 2 * 2 * inner * 128));
  CHECK(bytes_of(convolution_forward(s, Precision::bf16)).value == 2 * 2 * 8192 * (inner + 2 * keys));
  const double states = 64, chunked = bytes_of(scan_forward(s, Precision::bf16)).value;
  s.chunk *= 2;  // half as many states are written and read, in fp32 and in 16 bits
  CHECK(bytes_of(scan_forward(s, Precision::bf16)).value ==
        Approx(chunked - 8192 * inner * states / 128 * (4 + 4 + 2 + 2) + 8192 * 8 * 128 * 4 * 2));
  for (const ScanKind kind : {ScanKind::gated_delta, ScanKind::kimi_delta}) {
    const ScanShape delta{kind, 8192, 32, 128, 16, 128, 64, 4};
    CHECK(bytes_of(scan_backward(delta, Precision::bf16)) > bytes_of(scan_forward(delta, Precision::bf16)));
  }
}

TEST_CASE("gradients of Mamba-2's scans have a rate of their own, which is that of scans where none is given",
          "[hybrids]") {
  const ScanShape s{ScanKind::mamba2, 8192, 64, 64, 8, 128, 128, 4};
  const auto time = [&s](const Gpu& gpu) {
    Seconds all{0};
    for (const KernelCall& call : scan_backward(s, Precision::bf16)) all += kernel_time(gpu, call.work);
    return all.value;
  };
  Gpu gpu = read_gpu(Catalog().resolve("gpu", Node::scalar_node("a100-sxm4-80gb")));
  gpu.kernel_launch = Seconds{0};
  const auto share = [&gpu](Kernel kernel) -> double& {
    return gpu.efficiency[static_cast<std::size_t>(kernel)].memory;
  };
  CHECK(share(Kernel::scan_backward) == share(Kernel::scan));
  const double even = time(gpu);
  share(Kernel::scan_backward) /= 2;
  CHECK(time(gpu) > 1.5 * even);  // the backward pass also makes the states again, as in the forward pass
  CHECK(time(gpu) < 2 * even);
}

TEST_CASE("the share of the memory bandwidth of scans is the fitted one", "[hybrids]") {
  for (const char* name : {"h100-sxm5-80gb", "b200-sxm-180gb"}) {
    CAPTURE(name);
    const Gpu gpu = read_gpu(Catalog().resolve("gpu", Node::scalar_node(name)));
    const RooflineFit fit = fit_roofline(shipped_file("scenarios/measured/tables/linear_attention.csv"), Kernel::scan,
                                         gpu, gpu.measured_as);
    CHECK(gpu.efficiency[static_cast<std::size_t>(Kernel::scan)].memory == Approx(fit.efficiency.memory).epsilon(0.01));
    CHECK(fit.efficiency.flops == 1);
    CHECK(fit.held_out.median < 0.12);
    CHECK(fit.judged > 100);
  }
}

TEST_CASE("tensor ranks split the heads of scans, context ranks trade tokens for heads", "[sharding][hybrids]") {
  const Layer reference = hybrid().layers[1];
  Sharding split;
  split.tensor = 2;
  const Layer half = hybrid(split).layers[1];
  for (const char* name : {"in_proj", "scan.chunk_scan", "convolution", "out_proj"}) {
    CAPTURE(name);
    CHECK(work_of(half.forward, name).bytes <= work_of(reference.forward, name).bytes);
  }
  CHECK(work_of(half.forward, "scan.chunk_scan").flops.value ==
        work_of(reference.forward, "scan.chunk_scan").flops.value / 2);
  CHECK(half.forward_exchanges.size() == 1);
  CHECK(half.forward_exchanges[0].name == "scan.reduce");
  Sharding context;
  context.context = 2;
  const Layer part = hybrid(context).layers[1];
  REQUIRE(part.forward_exchanges.size() == 2);
  CHECK(part.forward_exchanges[0].name == "scan.heads");
  CHECK(part.forward_exchanges[0].kind == ExchangeKind::all_to_all);
  // Half of the tokens, with the widths of gate, values, keys, queries and steps.
  CHECK(part.forward_exchanges[0].bytes.value == 2 * 1024 * (2 * 512 + 2 * 256 + 16));
  CHECK(part.forward_exchanges[1].bytes.value == 2 * 1024 * 512);
  CHECK(work_of(part.forward, "convolution").bytes.value == work_of(reference.forward, "convolution").bytes.value / 2);
  CHECK(part.parameter_elements() == reference.parameter_elements());
  CHECK(gradients_are_ready_once(hybrid(context)));
  split.tensor = 8;
  CHECK_THROWS_WITH(hybrid(split), Contains("must divide the 4 groups of heads of scans") && Contains("nearest: 4"));
  context.recompute = Recompute::operators;
  CHECK_THROWS_WITH(hybrid(context), Contains("recomputation by operator"));
}

TEST_CASE("recomputed experts keep only their input, and send their rows again", "[sharding][hybrids]") {
  Sharding sharding;
  sharding.expert = 4;
  const Layer reference = hybrid(sharding).layers[2];
  sharding.remade[static_cast<std::size_t>(RecomputedPart::moe)] = true;
  const Layer again = hybrid(sharding).layers[2];
  CHECK(names(again.saved_tensors) ==
        std::vector<std::string>{"mlp_norm.input", "mlp_norm.statistics", "router.input"});
  CHECK(again.backward_exchanges.size() == reference.backward_exchanges.size() + reference.forward_exchanges.size());
  CHECK(again.backward.size() > reference.backward.size());
  CHECK(again.forward.size() == reference.forward.size());
  CHECK(hybrid(sharding).layers[1].activations() == hybrid().layers[1].activations());
}

TEST_CASE("experts with a latent read and write narrow rows", "[hybrids]") {
  const std::string latent = ", moe_latent_size: 64}";
  const Layer layer = hybrid({}, latent).layers[2];
  const double experts = 8 * 2 * 64 * 128, shared = 2 * 256 * 256, router = 256 * 8 + 8;
  CHECK(layer.parameter_elements() == experts + shared + router + 2 * 256 * 64 + 256);
  Sharding spread;
  spread.expert = 4;
  CHECK(hybrid(spread, latent).layers[2].forward_exchanges[0].bytes.value ==
        hybrid(spread).layers[2].forward_exchanges[0].bytes.value / 4);
}

TEST_CASE("attention reads only the keys that its indexer chooses", "[hybrids]") {
  const TransformerConfig config = catalog_config("deepseek-v3.2"), dense = catalog_config("deepseek-v3");
  const auto attention = [](const TransformerConfig& c, std::int64_t seq) {
    return work_of(network_of(c, 1, seq).layers[1].forward, "attention").flops.value;
  };
  // Heads read 576 and 512 numbers of a key instead of 192 and 128.
  CHECK(attention(config, 2048) == Approx(attention(dense, 2048) * (576.0 + 512) / (192 + 128)));
  const double pairs = 65536.0 * 2048 - 2048.0 * 2048 / 2;
  CHECK(attention(config, 65536) == Approx(2 * 128 * pairs * (576 + 512)));
  const Layer layer = network_of(config, 1, 65536).layers[1];
  CHECK(work_of(layer.forward, "indexer.scores").flops.value == Approx(2 * 64 * 128 * 65536.0 * 65536 / 2));
  CHECK(layer.parameter_elements() - network_of(dense, 1, 512).layers[1].parameter_elements() ==
        1536 * 64 * 128 + 7168 * 128 + 7168 * 64 + 2 * 128);
}

TEST_CASE("further families have exactly the parameters of their model cards", "[hybrids][families]") {
  const std::map<std::string, double> parameters{
      // Pythia 70M, OPT 125M and BLOOM 560M, as their model cards have them; OPT without two positions of padding.
      {"{model_type: gpt_neox, hidden_size: 512, intermediate_size: 2048, num_attention_heads: 8, num_hidden_layers: "
       "6, "
       "max_position_embeddings: 2048, vocab_size: 50304}",
       70'426'624},
      {"{model_type: opt, hidden_size: 768, ffn_dim: 3072, num_attention_heads: 12, num_hidden_layers: 12, "
       "max_position_embeddings: 2048, vocab_size: 50272}",
       125'239'296 - 2 * 768},
      {"{model_type: bloom, hidden_size: 1024, n_head: 16, n_layer: 24, vocab_size: 250880}", 559'214'592},
      // SmolLM3-3B and StarCoder2 3B.
      {"{model_type: smollm3, hidden_size: 2048, intermediate_size: 11008, num_attention_heads: 16, "
       "num_key_value_heads: 4, num_hidden_layers: 36, max_position_embeddings: 65536, vocab_size: 128256}",
       3'075'098'624},
      {"{model_type: starcoder2, hidden_size: 3072, intermediate_size: 12288, num_attention_heads: 24, "
       "num_key_value_heads: 2, num_hidden_layers: 30, max_position_embeddings: 16384, vocab_size: 49152, "
       "hidden_act: gelu_pytorch_tanh}",
       3'030'371'328}};
  for (const auto& [config, expected] : parameters) {
    CAPTURE(config);
    CHECK(network_of(parsed_config(config), 1, 512).parameters() == expected);
  }
}

TEST_CASE("an OPT without the norm before its blocks has no final norm, and norms have weights",
          "[hybrids][families]") {
  const auto opt = [](const std::string& keys) {
    return parsed_config(
        "{model_type: opt, hidden_size: 768, ffn_dim: 3072, num_attention_heads: 12, num_hidden_layers: "
        "12, max_position_embeddings: 2048, vocab_size: 50272" +
        keys + "}");
  };
  CHECK(network_of(opt(", do_layer_norm_before: false"), 1, 512).parameters() ==
        network_of(opt(""), 1, 512).parameters() - 2 * 768);
  CHECK_THROWS_WITH(opt(", layer_norm_elementwise_affine: false"), Catch::Contains("norms without weights"));
  CHECK_THROWS_WITH(opt(", _remove_final_layer_norm: true"), Catch::Contains("a head without a norm is not modelled"));
}

TEST_CASE("further families have the rounded sizes of their model cards", "[hybrids][families]") {
  std::string kinds;  // Granite 4.0 H Small: attention in 4 of 40 layers
  for (int i = 0; i < 40; ++i) kinds += std::string(i > 0 ? ", " : "") + (i % 10 == 5 ? "attention" : "mamba");
  const std::map<std::string, double> billions{
      {"{model_type: granitemoehybrid, hidden_size: 4096, intermediate_size: 768, num_hidden_layers: 40, "
       "num_attention_heads: 32, num_key_value_heads: 8, num_local_experts: 72, num_experts_per_tok: 10, "
       "shared_intermediate_size: 1536, mamba_n_heads: 128, mamba_d_head: 64, mamba_d_state: 128, mamba_n_groups: 1, "
       "tie_word_embeddings: true, vocab_size: 100352, max_position_embeddings: 131072, layer_types: [" +
           kinds + "]}",
       32.2},
      {"{model_type: ernie4_5_moe, hidden_size: 2560, intermediate_size: 12288, moe_intermediate_size: 1536, "
       "num_hidden_layers: 28, num_attention_heads: 20, num_key_value_heads: 4, head_dim: 128, moe_num_experts: 64, "
       "moe_num_shared_experts: 2, moe_k: 6, moe_layer_start_index: 1, vocab_size: 103424, max_position_embeddings: "
       "131072}",
       21.8},
      {"{model_type: minimax_m2, vocab_size: 200064, hidden_size: 3072, intermediate_size: 1536, num_hidden_layers: "
       "62, "
       "num_attention_heads: 48, num_key_value_heads: 8, head_dim: 128, max_position_embeddings: 196608, "
       "num_local_experts: 256, num_experts_per_tok: 8}",
       228.7},
      {"{model_type: seed_oss, hidden_size: 5120, num_hidden_layers: 64, intermediate_size: 27648, "
       "num_attention_heads: "
       "80, num_key_value_heads: 8, head_dim: 128, vocab_size: 155136, max_position_embeddings: 524288}",
       36.2},
      {"{model_type: qwen3_5_moe_text, hidden_size: 4096, head_dim: 256, linear_num_value_heads: 64, "
       "moe_intermediate_size: 1024, num_attention_heads: 32, num_experts: 512, num_experts_per_tok: 10, "
       "num_hidden_layers: 60, num_key_value_heads: 2, shared_expert_intermediate_size: 1024, vocab_size: 248320, "
       "max_position_embeddings: 262144}",
       396.3}};
  for (const auto& [config, expected] : billions) {
    CAPTURE(config);
    const Network network = network_of(parsed_config(config), 1, 512);
    CHECK(network.parameters() == Approx(expected * 1e9).epsilon(0.005));
    CHECK(gradients_are_ready_once(network));
  }
}

TEST_CASE("configs of other than language models and faulty patterns of layers are refused", "[hybrids][errors]") {
  CHECK_THROWS_WITH(parsed_config("{model_type: wav2vec2, hidden_size: 384}"),
                    Contains("\"wav2vec2\" (other networks of speech and sound, which are no language models)"));
  CHECK_THROWS_WITH(parsed_config("{_class_name: UNet2DConditionModel, num_layers: 24}"),
                    Contains("UNet2DConditionModel is part of a diffusion pipeline, which is no language model"));
  std::string bad = kHybrid;
  bad.replace(bad.find("'ME*M-E'"), 8, "'ME*M-X'");
  CHECK_THROWS_WITH(parsed_config(bad + "}"), Contains("'X' is no kind of layer; expected M (Mamba)"));
  bad.replace(bad.find("'ME*M-X'"), 8, "'ME*M-'");
  CHECK_THROWS_WITH(parsed_config(bad + "}"),
                    Contains("hybrid_override_pattern: 5 layers, but num_hidden_layers is 6"));
}

}  // namespace models_test_hybrids
