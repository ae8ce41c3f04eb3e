#include <catch2/catch.hpp>
#include <map>

#include "models/networks/network_entry.hpp"
#include "models/reading/catalog.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_parameter_counts {

using namespace trainyard;

TEST_CASE("the catalog's networks have the published parameters", "[transformer]") {
  const std::map<std::string, double> published{
      {"bert-base", 109'514'298},                                    // BertForMaskedLM: no pooler, a head
      {"bert-large", 335'174'458},        {"vit-b-16", 86'567'656},  // torchvision.models.ViT_B_16_Weights
      {"vit-l-16", 304'326'632},                                     // torchvision.models.ViT_L_16_Weights
      {"t5-base", 222'903'552},           {"t5-large", 737'668'096},
      {"t5-3b", 2'851'598'336},           {"t5-11b", 11'307'321'344},
      {"llama-2-13b", 13'015'864'320},    {"llama-2-70b", 68'976'648'192},
      {"llama-3-70b", 70'553'706'496},    {"llama-3.1-405b", 405'853'388'800},
      {"mistral-7b", 7'241'732'096},      {"mixtral-8x7b", 46'702'792'704},
      {"mixtral-8x22b", 140'620'634'112}, {"deepseek-v2", 235'741'434'880},
      {"deepseek-v3", 671'026'419'200},  // with the router's correction bias, without MTP
      {"qwen2-7b", 7'615'616'512},        {"qwen2.5-72b", 72'706'203'648},
      {"qwen3-30b-a3b", 30'532'122'624},
  };
  for (const auto& [name, parameters] : published) {
    CAPTURE(name);
    CHECK(network_of(name).parameters() == parameters);
  }
}

TEST_CASE("GPT-3's sizes round to those of the paper's table", "[transformer]") {
  const std::map<std::string, double> billions{{"125m", 0.125}, {"350m", 0.35}, {"760m", 0.76}, {"1.3b", 1.3},
                                               {"2.7b", 2.7},   {"6.7b", 6.7},  {"13b", 13},    {"175b", 175}};
  for (const auto& [size, expected] : billions) {
    CAPTURE(size);
    CHECK(network_of("gpt3-" + size).parameters() == Approx(expected * 1e9).epsilon(0.02));
  }
  CHECK(network_of("gpt3-175b").parameters() == 174'604'259'328);
}

TEST_CASE("BERT's head depends on its architecture", "[transformer]") {
  const auto parameters = [](const char* size, const char* architecture) {
    const std::string over = std::string("{architectures: [") + architecture + "]}";
    return network_of(catalog_config(std::string("bert-") + size, over), 1, 512).parameters();
  };
  CHECK(parameters("base", "BertModel") == 109'482'240);
  CHECK(parameters("large", "BertModel") == 335'141'888);
  CHECK(parameters("base", "BertForPreTraining") == 110'106'428);
  CHECK(parameters("large", "BertForPreTraining") == 336'226'108);
}

TEST_CASE("configs that have another family's layers are read with their library's defaults", "[transformer]") {
  // 300,176,768 parameters of google/mt5-small: two tables of 250,112 x 512, and the layers of T5 1.1.
  CHECK(network_of(
            parsed_config("{model_type: mt5, d_ff: 1024, d_kv: 64, d_model: 512, num_decoder_layers: 8, num_heads: "
                          "6, num_layers: 8, vocab_size: 250112, is_encoder_decoder: true}"),
            1, 512)
            .parameters() == 300'176'768);
  // 124,697,433 parameters of roberta-base in its safetensors file; two positions for padding are left out.
  CHECK(network_of(parsed_config("{architectures: [RobertaForMaskedLM], model_type: roberta, vocab_size: 50265, "
                                 "num_hidden_layers: 12, hidden_size: 768, num_attention_heads: 12, intermediate_size: "
                                 "3072, max_position_embeddings: 514, type_vocab_size: 1}"),
                   1, 512)
            .parameters() == 124'697'433 - 2 * 768);
  // Gemma 3 4B: 675 + 3,209 million without images (Gemma Team 2025, Gemma 3 Technical Report, table 1).
  CHECK(
      network_of(parsed_config("{model_type: gemma3, text_config: {hidden_size: 2560, intermediate_size: 10240, "
                               "model_type: gemma3_text, num_hidden_layers: 34, rope_scaling: {factor: 8.0, rope_type: "
                               "linear}, sliding_window: 1024}, vision_config: {hidden_size: 1152}}"),
                 1, 512)
          .parameters() == 3'880'263'168);
}

TEST_CASE("only the chosen experts of a token are active", "[transformer]") {
  const std::map<std::string, double> active{{"mixtral-8x7b", 12'879'925'248},   // "12.9B" (Mistral AI)
                                             {"mixtral-8x22b", 39'152'031'744},  // "39B"
                                             {"deepseek-v2", 21'375'800'320},    // "21B"
                                             {"deepseek-v3", 37'552'297'472},    // "37B"
                                             {"qwen3-30b-a3b", 3'353'032'704}};  // "3.3B"
  for (const auto& [name, parameters] : active) {
    CAPTURE(name);
    const Network network = network_of(name);
    CHECK(network.active_parameters() == Approx(parameters).epsilon(1e-12));
    CHECK(network.model_flops_per_token().value == 6 * network.active_parameters());
  }
  const Network dense = network_of("llama-3-8b");
  CHECK(dense.active_parameters() == dense.parameters());
}

TEST_CASE("Qwen3-0.6B and the sparse Qwen1.5-MoE have their published parameters", "[transformer]") {
  // Qwen3-0.6B (596,049,920) and Qwen1.5-MoE-A2.7B (14,315,784,192, of which 2.7 billion are active without
  // embeddings).
  CHECK(network_of(parsed_config("{model_type: qwen3, hidden_size: 1024, intermediate_size: 3072, head_dim: 128, "
                                 "num_attention_heads: 16, num_key_value_heads: 8, num_hidden_layers: 28, "
                                 "max_position_embeddings: 40960, tie_word_embeddings: true, vocab_size: 151936}"),
                   1, 16)
            .parameters() == 596'049'920);
  const Network moe = network_of(
      parsed_config("{model_type: qwen2_moe, hidden_size: 2048, intermediate_size: 5632, num_attention_heads: 16, "
                    "num_key_value_heads: 16, num_hidden_layers: 24, num_experts: 60, num_experts_per_tok: 4, "
                    "moe_intermediate_size: 1408, shared_expert_intermediate_size: 5632, "
                    "max_position_embeddings: 8192, vocab_size: 151936}"),
      1, 16);
  CHECK(moe.parameters() == 14'315'784'192);
  CHECK(moe.active_parameters() == Approx(2.69e9).epsilon(0.01));
  CHECK(gradients_are_ready_once(moe));
}

TEST_CASE("every network of the catalog is built, and its work grows with the micro-batch", "[network]") {
  const Catalog catalog;
  for (const std::string& name : catalog.names("network")) {
    CAPTURE(name);
    const NetworkEntry entry = read_network_entry(catalog.resolve("network", Node::scalar_node(name)));
    const bool transformer = entry.transformer() != nullptr;
    const std::int64_t seq = std::min<std::int64_t>(sample_tokens(entry), 2048);
    const Network one = make_network(entry, 1, seq, Precision::bf16), four = make_network(entry, 4, seq, one.precision);
    CHECK(gradients_are_ready_once(four));
    CHECK(four.parameters() == one.parameters());
    CHECK(four.active_parameters() == one.active_parameters());
    CHECK(four.model_flops_per_token().value == Approx(one.model_flops_per_token().value).epsilon(1e-12));
    CHECK(four.forward_flops().value == Approx(4 * one.forward_flops().value).epsilon(1e-12));
    CHECK(four.activations().value > 3 * one.activations().value);
    // The first layer of an image network or an MLP has no gradient of its input.
    const double backward = four.backward_flops().value / four.forward_flops().value;
    CHECK(backward > (transformer ? 1.98 : 1));
    CHECK(backward < (transformer ? 2.5 : 2));
    if (!transformer) continue;
    // Without attention, forward FLOPs are two for each parameter and token, except for tables, layers of few tokens,
    // and towers that see some of the tokens.
    const double tokens = static_cast<double>(one.tokens());
    CHECK(one.forward_flops().value < 1.5 * 2 * one.active_parameters() * tokens);
    CHECK(one.forward_flops().value > 0.7 * 2 * one.active_parameters() * tokens);
  }
}

}  // namespace models_test_parameter_counts
