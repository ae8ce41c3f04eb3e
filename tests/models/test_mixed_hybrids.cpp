// Jamba, Falcon-H1 and Zamba2: Mamba-1 with experts, scans beside attention, and blocks that layers share.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "models/networks/layers/sharding.hpp"
#include "scenarios/src/running/simulate.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_mixed_hybrids {

using namespace trainyard;
using Catch::Contains;

namespace {

const char* const kSmallJamba =
    "{model_type: jamba, vocab_size: 1024, hidden_size: 256, intermediate_size: 512, num_hidden_layers: 4, "
    "num_attention_heads: 8, num_key_value_heads: 4, attn_layer_period: 4, attn_layer_offset: 2, num_experts: 4";
const char* const kSmallZamba =
    "{model_type: zamba2, vocab_size: 1024, hidden_size: 256, num_hidden_layers: 7, n_mamba_heads: 8, mamba_d_state: "
    "64, "
    "num_attention_heads: 8, num_mem_blocks: 2, adapter_rank: 16, use_mem_rope: true, hybrid_layer_ids: [1, 3, 5, 6]";

std::string falcon(int layers, int hidden, int heads, int width, int inner, int scan_heads, int state, int groups,
                   int ffn, int vocabulary) {
  return fmt::format(
      "{{model_type: falcon_h1, num_hidden_layers: {}, hidden_size: {}, num_attention_heads: {}, num_key_value_heads: "
      "{}, head_dim: {}, mamba_d_ssm: {}, mamba_n_heads: {}, mamba_d_head: {}, mamba_d_state: {}, mamba_n_groups: {}, "
      "intermediate_size: {}, vocab_size: {}}}",
      layers, hidden, heads, heads == 20 ? 4 : 2, width, inner, scan_heads, inner / scan_heads, state, groups, ffn,
      vocabulary);
}

std::string zamba(int layers, int hidden, int heads, int state, int groups, int blocks, bool adapted,
                  const std::string& uses) {
  return fmt::format(
      "{{model_type: zamba2, num_hidden_layers: {}, hidden_size: {}, n_mamba_heads: {}, mamba_d_state: {}, "
      "mamba_ngroups: {}, num_mem_blocks: {}, use_shared_attention_adapter: {}, num_attention_heads: 32, vocab_size: "
      "32000, hybrid_layer_ids: [{}]}}",
      layers, hidden, heads, state, groups, blocks, adapted, uses);
}

Network small(const std::string& config, const Sharding& sharding = {}) {
  TransformerOptions options;
  options.sharding = sharding;
  return transformer_network(parsed_config(config + "}"), 2, 1024, Precision::bf16, options);
}

}  // namespace

TEST_CASE("Jamba, Falcon-H1 and Zamba2 have the parameters that are published", "[transformer][hybrids][mixed]") {
  // Jamba v0.1 and 1.5 Mini, of one architecture, and Zamba2 have these counts in their checkpoints; Falcon-H1's are
  // those of its report (table 1).
  const std::map<std::string, double> parameters{
      {"{model_type: jamba, vocab_size: 65536, hidden_size: 4096, intermediate_size: 14336, num_hidden_layers: 32, "
       "num_attention_heads: 32, num_key_value_heads: 8}",
       51'570'323'328},
      {zamba(38, 2048, 64, 128, 1, 1, true, "5, 11, 17, 23, 29, 35"), 1'215'064'704},
      {zamba(54, 2560, 80, 64, 1, 2, false, "6, 12, 18, 24, 30, 36, 42, 47, 51"), 2'662'214'560},
      {zamba(81, 3584, 112, 64, 2, 2, false, "6, 11, 17, 23, 29, 35, 41, 47, 53, 59, 65, 71, 77"), 7'356'749'648}};
  for (const auto& [config, expected] : parameters) {
    CAPTURE(config);
    const Network network = network_of(parsed_config(config), 1, 512);
    CHECK(network.parameters() == expected);
    CHECK(gradients_are_ready_once(network));
  }
  const std::map<std::string, double> millions{{falcon(36, 1024, 8, 64, 1536, 24, 128, 1, 2048, 32784), 521},
                                               {falcon(24, 2048, 8, 128, 3072, 48, 256, 1, 4608, 65537), 1555},
                                               {falcon(66, 1280, 6, 128, 1536, 24, 256, 1, 3072, 65537), 1555},
                                               {falcon(32, 2560, 10, 128, 4096, 32, 256, 1, 6144, 65537), 3149},
                                               {falcon(44, 3072, 12, 128, 3072, 24, 256, 1, 12288, 130049), 7586},
                                               {falcon(72, 5120, 20, 128, 4096, 32, 256, 2, 21504, 261120), 33643}};
  for (const auto& [config, expected] : millions) {
    CAPTURE(config);
    const Network network = network_of(parsed_config(config), 1, 512);
    CHECK(network.parameters() == Approx(expected * 1e6).epsilon(0.001));
    CHECK(gradients_are_ready_once(network));
  }
  const Network large =
      network_of(parsed_config("{model_type: jamba, vocab_size: 65536, hidden_size: 8192, intermediate_size: 24576, "
                               "num_hidden_layers: 72, num_attention_heads: 64, num_key_value_heads: 8}"),
                 1, 512);  // Jamba 1.5 Large: 398 billion, of which 94 are active
  CHECK(large.parameters() == Approx(398e9).epsilon(0.005));
  CHECK(large.active_parameters() == Approx(94e9).epsilon(0.005));
}

TEST_CASE("a layer of Mamba-1 has steps of a low rank, and tensor ranks sum them", "[sharding][hybrids][mixed]") {
  const Network jamba = small(kSmallJamba);
  const Layer& mamba = jamba.layers[1];  // a dense feed-forward part; layer 2 has attention, layers 1 and 3 experts
  const double inner = 2 * 256, rank = 256 / 16, state = 16;
  CHECK(mamba.parameter_elements() == 256 * 2 * inner + inner * (4 + 1) + inner * (rank + 2 * state) + rank +
                                          2 * state + rank * inner + inner * (state + 2) + inner * 256 + 256 +
                                          (3 * 256 * 512 + 256));
  // By hand: five tensors of the channels, keys and queries, and decays and states at the end of each 2,048 tokens.
  CHECK(work_of(mamba.forward, "scan.selective").bytes.value ==
        2 * 1024 * (5 * 2 * inner + 2 * 2 * state) + inner * state * 2 * 4);
  Sharding split;
  split.tensor = 4;
  const Layer quarter = small(kSmallJamba, split).layers[1];
  CHECK(quarter.forward_exchanges[0].name == "scan.steps.reduce");
  CHECK(quarter.forward_exchanges[0].bytes.value == 2 * 2 * 1024 * (rank + 2 * state));
  CHECK(work_of(quarter.forward, "scan.selective").bytes < work_of(mamba.forward, "scan.selective").bytes / 3);
  CHECK(gradients_are_ready_once(small(kSmallJamba, split)));
  split.tensor = 1;
  split.context = 2;
  CHECK_THROWS_WITH(small(kSmallJamba, split), Contains("scans of Mamba-1 over context ranks are not modelled"));
  CHECK_THROWS_WITH(small(kSmallJamba + std::string(", expert_layer_offset: 0")), Contains("expected 1"));
}

TEST_CASE("attention and scan of Falcon-H1 read one norm", "[hybrids][mixed]") {
  const std::string config = falcon(2, 1024, 8, 64, 1536, 24, 128, 1, 2048, 1024);
  const Layer block = network_of(parsed_config(config), 1, 512).layers[1];
  const auto count = [&block](const std::string& name) { return std::ranges::count(names(block.forward), name); };
  CHECK(count("block_norm") == 1);
  CHECK(count("branches_sum") == 1);
  CHECK(count("attention") == 1);
  CHECK(count("scan.chunk_scan") == 1);
  CHECK(count("mlp_norm") == 1);
  CHECK(count("gated_norm") == 0);
  // Attention and the scan keep the output of the norm once.
  double kept = 0;
  for (const KeptTensor& tensor : block.saved_tensors)
    if (tensor.name.ends_with("qkv.input") || tensor.name.ends_with("q.input") ||
        tensor.name.ends_with("in_proj.input"))
      kept += tensor.bytes.value;
  CHECK(kept == 2.0 * 512 * 1024);
}

TEST_CASE("layers of Zamba2 take turns at shared blocks, whose weights the first use lists",
          "[sharding][hybrids][mixed]") {
  const Network zamba2 = small(kSmallZamba);
  CHECK(names(zamba2.layers) == std::vector<std::string>{"embedding", "mamba 0", "hybrid 1", "mamba 2", "hybrid 3",
                                                         "mamba 4", "hybrid 5", "hybrid 6", "head"});
  std::vector<int> owners;
  for (const Layer& layer : zamba2.layers) owners.push_back(layer.shared_layer);
  CHECK(owners == std::vector<int>{-1, -1, -1, -1, -1, -1, 2, 4, -1});
  const double block = 2 * 256 + 4 * 512 * 512 - 512 * 256 + 256 + 3 * 256 * 1024;
  CHECK(zamba2.layers[2].parameter_elements() - zamba2.layers[6].parameter_elements() == block);
  CHECK(zamba2.layers[6].parameter_elements() - zamba2.layers[1].parameter_elements() ==
        256 * 256 + 16 * (256 + 2 * 1024));  // the linear layer after the block, and the adapter
  CHECK(zamba2.layers[6].forward_flops() == zamba2.layers[2].forward_flops());
  // Autograd adds the gradients of all uses but one.
  CHECK(zamba2.layers[6].backward.size() > zamba2.layers[2].backward.size());
  CHECK(gradients_are_ready_once(zamba2));
  CHECK(zamba2.layers[0].activations().value >= 2.0 * 2 * 1024 * 256);  // blocks read the embedding again
  const std::string scenario = fmt::format(
      "{{cluster: {{nodes: 1, node: dgx-a100}}, model: {}}}, plan: {{global_batch_size: 16, micro_batch_size: 1, "
      "seq_length: 512, precision: bf16, pipeline_parallel: 2}}, software: megatron-core}}",
      kSmallZamba);
  CHECK_THROWS_WITH(read_scenario_text(scenario, "zamba.yaml"), Contains("share blocks of weights; expected 1"));
}

TEST_CASE("tensor and context ranks share the work of Zamba2's blocks", "[sharding][hybrids][mixed]") {
  const std::string config = std::string(kSmallZamba) + ", mamba_ngroups: 2";
  const double one_rank_flops = small(config).forward_flops().value;
  // Every rank has the first matrices of the adapters and, without sequence parallelism, the linear layers after the
  // four uses of blocks.
  constexpr double rows = 2 * 1024, uses = 4;
  const double adapters = 2 * rows * 256 * 16 * uses, linear = 2 * rows * 256 * 256 * uses;
  for (const bool sequence : {false, true}) {
    CAPTURE(sequence);
    Sharding split;
    split.tensor = 2;
    split.sequence = sequence;
    const Network rank = small(config, split);
    CHECK(gradients_are_ready_once(rank));
    const double copied = (adapters + (sequence ? 0 : linear)) / 2;
    CHECK(rank.forward_flops().value == Approx(one_rank_flops / 2 + copied).epsilon(0.01));
    std::map<std::string, double> exchanges;
    for (const Exchange& exchange : rank.layers[2].forward_exchanges) exchanges[exchange.name] += exchange.bytes.value;
    // Blocks gather the hidden state and the embedding side by side.
    const double hidden = rows * 256 * 2;
    if (sequence) CHECK(exchanges.at("attention.gather") == 2 * hidden);
    if (sequence) CHECK(exchanges.at("mlp.gather") == hidden);
    CHECK(exchanges.at(sequence ? "attention.scatter" : "attention.reduce") == hidden);
    CHECK(exchanges.at(sequence ? "mlp.scatter" : "mlp.reduce") == hidden);
  }
  Sharding ring;
  ring.context = 2;
  const Network part = small(config, ring);
  CHECK(gradients_are_ready_once(part));
  CHECK(part.forward_flops().value == Approx(one_rank_flops / 2).epsilon(0.01));
  Sharding odd;
  odd.tensor = 2;
  CHECK_THROWS_WITH(small(kSmallZamba, odd), Contains("groups of heads of scans"));
}

TEST_CASE("ranks that shard parameters gather a shared block for each use", "[hybrids][mixed]") {
  const auto gathered = [](int blocks) {
    std::string config = kSmallZamba;
    config.replace(config.find("num_mem_blocks: 2"), 17, fmt::format("num_mem_blocks: {}", blocks));
    const std::string scenario = fmt::format(
        "{{cluster: {{nodes: 1, node: dgx-a100}}, model: {}}}, plan: {{global_batch_size: 8, micro_batch_size: 1, "
        "seq_length: 512, precision: bf16, data_parallel: {{zero_stage: 3}}}}, software: pytorch-fsdp}}",
        config);
    return simulate(read_scenario_text(scenario, "zamba.yaml")).bytes_by_content.at("weights");
  };
  CHECK(gathered(2) == Approx(gathered(4)).epsilon(0.1));  // with four blocks, each use has its own
}

}  // namespace models_test_mixed_hybrids
