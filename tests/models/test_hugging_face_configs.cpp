// Configs of Hugging Face that the catalog's networks of operators read, with the published counts of parameters.
#include <catch2/catch.hpp>

#include <string>
#include <tuple>
#include <vector>

#include "models/networks/network_entry.hpp"
#include "models/networks/transformers/operator_lists.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_hugging_face_configs {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

Network built(const TransformerConfig& config, int tensor = 1) {
  TransformerOptions options;
  options.sharding.tensor = tensor;
  return transformer_network(config, 1, config.max_position_embeddings, Precision::bf16, options);
}

double forward_flops(const Network& network) { return network.forward_flops().value; }

}  // namespace

TEST_CASE("networks of the catalog that configs stand for have the published parameters on one rank, and halves on two",
          "[network][hugging_face]") {
  // Counts by transformers' and diffusers' modules, as public repositories state them: mteb (clip, siglip), hiq
  // (gpt-neo-1.3b), lists of language models (bart-large), LLaVA and Qwen2-VL as loaded by their users; of the others the
  // sums over the shapes of the modules, which round to the papers' figures (sources in the catalog's files). Of Stable
  // Diffusion 3 and Whisper fixed tables of positions (192 x 192 x 1536, 1500 x 1280) are left out.
  for (const auto& [name, published] : {std::pair{"distilbert-base", 66'985'530.0},
                                        {"electra-base", 109'483'009.0},
                                        {"modernbert-base", 149'655'232.0},
                                        {"bart-large", 406'291'456.0},
                                        {"gpt-neo-1.3b", 1'315'575'808.0},
                                        {"mpt-7b", 6'649'286'656.0},
                                        {"olmo-1b", 1'176'764'416.0},
                                        {"dbrx", 131'596'523'520.0},
                                        {"clip-vit-b-32", 151'277'313.0},
                                        {"siglip-base", 203'155'970.0},
                                        {"dinov2-base", 86'580'480.0},
                                        {"deit-distilled", 87'338'192.0},
                                        {"llava-1.5-7b", 7'063'427'072.0},
                                        {"qwen2-vl-7b", 8'291'375'616.0},
                                        {"whisper-large-v3", 1'543'490'560.0 - 1500 * 1280},
                                        {"qwen3-vl-8b", 8'767'123'696.0},
                                        {"sd3-medium", 2'084'951'104.0 - 192 * 192 * 1536}}) {
    CAPTURE(name);
    const NetworkEntry entry = read_network_entry(Catalog().resolve("network", Node::scalar_node(name)));
    const Network whole = built(*entry.transformer());
    CHECK(whole.parameters() == Approx(published).epsilon(1e-12));
    CHECK(gradients_are_ready_once(whole));
    CHECK(built(*entry.transformer(), 2).parameters() < 0.8 * whole.parameters());
  }
}

TEST_CASE("a config of another size of these families has its published parameters", "[network][hugging_face]") {
  const std::vector<std::pair<std::string, double>> rows{
      {"{model_type: gpt_neo, hidden_size: 2560, num_layers: 32, num_heads: 20, attention_types: [[[global, local], "
       "16]]}",
       2'651'307'520},
      {"{model_type: gpt_neo, hidden_size: 768, num_layers: 12, num_heads: 12}", 125'198'592},
      {"{model_type: olmo, hidden_size: 4096, intermediate_size: 11008, num_attention_heads: 32, num_hidden_layers: "
       "32, "
       "num_key_value_heads: 32, tie_word_embeddings: false, clip_qkv: null}",
       6'888'095'744},
      {"{model_type: bart, d_model: 768, encoder_layers: 6, decoder_layers: 6, encoder_ffn_dim: 3072, decoder_ffn_dim: "
       "3072, encoder_attention_heads: 12, decoder_attention_heads: 12, id2label: {0: A, 1: B}}",
       139'420'416},
      {"{model_type: clip, projection_dim: 768, text_config: {hidden_size: 768, intermediate_size: 3072, "
       "num_attention_heads: 12, num_hidden_layers: 12}, vision_config: {hidden_size: 1024, intermediate_size: 4096, "
       "num_attention_heads: 16, num_hidden_layers: 24, patch_size: 14, hidden_act: quick_gelu}}",
       427'616'513},
      {"{model_type: dinov2, hidden_size: 1024, num_attention_heads: 16, num_hidden_layers: 24, patch_size: 14, "
       "image_size: 518}",
       304'368'640},
      {"{model_type: deit, hidden_size: 192, num_attention_heads: 3, intermediate_size: 768}", 5'910'800},
      // Whisper small without its fixed table, and LLaVA-NeXT with Mistral 7B ("7.57B").
      {"{model_type: whisper, d_model: 768, decoder_attention_heads: 12, decoder_ffn_dim: 3072, decoder_layers: 12, "
       "encoder_attention_heads: 12, encoder_ffn_dim: 3072, encoder_layers: 12, dropout: 0.0, num_mel_bins: 80}",
       240'582'912},
      {"{model_type: llava_next, text_config: {intermediate_size: 14336, max_position_embeddings: 32768, model_type: "
       "mistral, num_key_value_heads: 8, vocab_size: 32064}}",
       7.57e9},
      {"{model_type: qwen2_vl, hidden_size: 8192, intermediate_size: 29568, num_attention_heads: 64, "
       "num_key_value_heads: 8, num_hidden_layers: 80, vocab_size: 152064, vision_config: {depth: 32, embed_dim: 1280, "
       "mlp_ratio: 4, num_heads: 16}}",
       73'405'560'320},
      // As the files of Qwen/Qwen2-VL-2B-Instruct, Qwen2.5-VL-3B-Instruct, FLUX.1 [schnell], CogVideoX-2b, Stable
      // Diffusion 3.5 Large and dinov2-giant count them.
      {"{model_type: qwen2_vl, hidden_size: 1536, intermediate_size: 8960, num_attention_heads: 12, "
       "num_key_value_heads: 2, num_hidden_layers: 28, vocab_size: 151936, tie_word_embeddings: true}",
       2'208'985'600},
      {"{model_type: qwen2_5_vl, text_config: {model_type: qwen2_5_vl_text, hidden_size: 2048, intermediate_size: "
       "11008, num_attention_heads: 16, num_key_value_heads: 2, num_hidden_layers: 36, vocab_size: 151936, "
       "tie_word_embeddings: true}, vision_config: {fullatt_block_indexes: [7, 15, 23, 31]}}",
       3'754'622'976},
      {"{_class_name: FluxTransformer2DModel, guidance_embeds: false}", 11'891'178'560},
      {"{_class_name: CogVideoXTransformer3DModel, num_attention_heads: 30, num_layers: 30, "
       "use_rotary_positional_embeddings: false}",
       1'693'783'872},
      {"{_class_name: SD3Transformer2DModel, num_attention_heads: 38, num_layers: 38, qk_norm: rms_norm, "
       "dual_attention_layers: []}",
       8'056'627'520},
      // The file of Stable Diffusion 3.5 Medium also has the fixed table of 384 x 384 positions: 2.47 billion.
      {"{_class_name: SD3Transformer2DModel, num_attention_heads: 24, num_layers: 24, qk_norm: rms_norm, "
       "dual_attention_layers: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], caption_projection_dim: 1536, "
       "pos_embed_max_size: 384, sample_size: 128}",
       2'469'663'936.0 - 384 * 384 * 1536},
      // Wan2.1-I2V-14B, by the names of the authors and of diffusers.
      {"{_class_name: WanModel, model_type: i2v, dim: 5120, ffn_dim: 13824, freq_dim: 256, in_dim: 36, out_dim: 16, "
       "num_heads: 40, num_layers: 40, text_len: 512}",
       16.4e9},
      {"{_class_name: WanModel, model_type: i2v, dim: 5120, ffn_dim: 13824, freq_dim: 256, in_dim: 36, out_dim: 16, "
       "num_heads: 40, num_layers: 40, text_len: 512, sizes: {picture: 0}}",
       14'288'491'584.0 + 20 * 4 * 5120},
      {"{_class_name: WanTransformer3DModel, in_channels: 36, image_dim: 1280, added_kv_proj_dim: 5120, "
       "pos_embed_seq_len: null}",
       16.4e9},
      // Mamba-Codestral-7B-v0.1 (mistral.ai), LongCat-Flash (arXiv:2509.01322) and Gemma 2 27B (model card).
      {"{model_type: mamba2, hidden_size: 4096, num_hidden_layers: 64, num_heads: 128, head_dim: 64, n_groups: 8, "
       "state_size: 128, vocab_size: 32768, intermediate_size: 8192, norm_before_gate: true, time_step_init_scheme: "
       "random, time_step_scale: 1.0, time_step_limit: [0.0, Infinity], tie_word_embeddings: false}",
       7'285'403'648},
      {"{model_type: longcat_flash, attention_method: MLA, attention_bias: false, vocab_size: 131072, hidden_size: "
       "6144, "
       "ffn_hidden_size: 12288, expert_ffn_hidden_size: 2048, num_layers: 28, num_attention_heads: 64, kv_lora_rank: "
       "512, q_lora_rank: 1536, qk_rope_head_dim: 64, qk_nope_head_dim: 128, v_head_dim: 128, mla_scale_q_lora: true, "
       "mla_scale_kv_lora: true, routed_scaling_factor: 6.0, n_routed_experts: 512, zero_expert_num: 256, "
       "zero_expert_type: identity, moe_topk: 12, max_position_embeddings: 131072}",
       560e9},
      {"{model_type: gemma2, hidden_size: 4608, intermediate_size: 36864, num_attention_heads: 32, "
       "num_key_value_heads: 16, head_dim: 128, num_hidden_layers: 46, vocab_size: 256000, max_position_embeddings: "
       "8192, sliding_window: 4096, sliding_window_size: 4096}",
       27'227'128'320},
      {"{model_type: dinov2, hidden_size: 1536, num_attention_heads: 24, num_hidden_layers: 40, patch_size: 14, "
       "image_size: 518, use_swiglu_ffn: true}",
       1'136'480'768},
      {"{model_type: electra, hidden_size: 1024, embedding_size: 1024, num_attention_heads: 16, num_hidden_layers: 24, "
       "intermediate_size: 4096}",
       335e6},
      {"{model_type: modernbert, hidden_size: 1024, intermediate_size: 2624, num_attention_heads: 16, "
       "num_hidden_layers: 28}",
       395e6}};
  for (const auto& [config, published] : rows) {
    CAPTURE(config);
    CHECK(built(parsed_config(config)).parameters() == Approx(published).epsilon(0.005));
  }
}

TEST_CASE("Qwen3-VL of other sizes has the parameters of its files", "[network][hugging_face]") {
  // Qwen3-VL-4B-Instruct and Qwen3-VL-30B-A3B-Instruct; of the second, a token uses 8 of 128 experts in 48 layers.
  const Network dense = built(parsed_config(
      "{model_type: qwen3_vl, text_config: {hidden_size: 2560, intermediate_size: 9728, num_attention_heads: 32, "
      "num_key_value_heads: 8, num_hidden_layers: 36, head_dim: 128}, tie_word_embeddings: true, vision_config: "
      "{depth: 24, "
      "hidden_size: 1024, intermediate_size: 4096, out_hidden_size: 2560, deepstack_visual_indexes: [5, 11, 17]}}"));
  CHECK(dense.parameters() == 4'437'815'808);
  const Network mixture = built(parsed_config(
      "{model_type: qwen3_vl_moe, text_config: {hidden_size: 2048, intermediate_size: 6144, moe_intermediate_size: "
      "768, "
      "num_attention_heads: 32, num_key_value_heads: 4, num_hidden_layers: 48, head_dim: 128, num_experts: 128, "
      "num_experts_per_tok: 8, decoder_sparse_step: 1, mlp_only_layers: []}, vision_config: {out_hidden_size: 2048}}"));
  CHECK(mixture.parameters() == 31'070'754'032);
  const double idle = 48.0 * 120 * 3 * 768 * 2048;  // elements of experts that a token does not use
  CHECK(mixture.active_parameters() < mixture.parameters() - idle);
}

TEST_CASE("DeepSeek-V4 has the parameters of its checkpoints and of its report", "[network][hugging_face]") {
  // The tensors of DeepSeek-V4-Pro's checkpoint without its scales, tables of hashes and layer of a further token; those of
  // Flash by the same sum. Published (arXiv:2606.19348): 1.6 trillion and 49 billion active, 284 and 13 billion. A token
  // reads one row of the embedding.
  for (const auto& [name, parameters, active, embedding] :
       {std::tuple{"deepseek-v4-flash", 284'332'240'471.0, 13.27e9, 129280.0 * 4096},
        {"deepseek-v4-pro", 1'572'997'201'763.0, 48.85e9, 129280.0 * 7168}}) {
    CAPTURE(name);
    const NetworkEntry entry = read_network_entry(Catalog().resolve("network", Node::scalar_node(name)));
    const Network network = make_network(entry, 1, sample_tokens(entry), Precision::bf16);
    CHECK(network.parameters() == parameters);
    CHECK(network.active_parameters() - embedding == Approx(active).epsilon(0.001));
    CHECK(gradients_are_ready_once(network));
    TransformerOptions split;
    split.sharding.tensor = 8;
    split.sharding.sequence = true;
    split.sharding.expert = 8;
    split.sharding.expert_tensor = 1;
    CHECK(gradients_are_ready_once(make_network(entry, 1, 4096, Precision::bf16, split)));
  }
  const auto config = [](const std::string& order) {
    return parsed_config(
        "{model_type: deepseek_v4, num_hidden_layers: 3, hidden_size: 64, num_attention_heads: 8, q_lora_rank: "
        "32, n_routed_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 32, vocab_size: 512, " +
        order + "}");
  };
  const auto parts = [&config](const std::string& order) {
    std::vector<std::string> kinds;
    const TransformerConfig read = config(order);
    for (const ListedLayer& layer : read.lists->layers) kinds.push_back(layer.name);
    return kinds;
  };
  CHECK(parts("compress_ratios: [128, 4, 0, 0]") ==
        std::vector<std::string>{"embedding", "heavy", "sparse", "window", "head"});
  CHECK(parts("layer_types: [sliding_attention, heavily_compressed_attention, compressed_sparse_attention]") ==
        std::vector<std::string>{"embedding", "window", "heavy", "sparse", "head"});
  CHECK_THROWS_WITH(config("compress_ratios: [128, 4]"), Contains("model.compress_ratios: 2 items for 3 layers"));
  CHECK_THROWS_WITH(config("compress_ratios: [128, 4, 16]"), Contains("model.compress_ratios: \"16\" is not modelled"));
  CHECK_THROWS_WITH(config("hc_mult: 4"), Contains("missing key \"compress_ratios\""));
  CHECK_THROWS_WITH(config("compress_ratios: [128, 4, 0], mtp_num_layers: 2"),
                    Contains("model.mtp_num_layers: \"2\" is not modelled; known: 0, 1"));
}

TEST_CASE("hashes of tokens choose the experts of DeepSeek-V4's first layers, and one layer predicts a further token",
          "[network][hugging_face]") {
  const auto network = [](const std::string& keys) {
    return built(parsed_config(
        "{model_type: deepseek_v4, num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 8, q_lora_rank: 32, "
        "n_routed_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 32, vocab_size: 512, compress_ratios: [0, "
        "0, 0, 0]" +
        keys + "}"));
  };
  const auto has_kernel = [](const Layer& layer, const char* name) {
    return std::ranges::any_of(layer.forward, [&](const KernelCall& call) { return call.name == name; });
  };
  const auto corrections = [](const Layer& layer) {
    return std::ranges::count_if(layer.parameters,
                                 [](const ParameterTensor& tensor) { return tensor.name == "router.correction_bias"; });
  };
  const Network two = network(", num_hash_layers: 2");
  for (std::size_t i = 1; i <= 4; ++i) {
    CAPTURE(i);
    const bool hashed = i <= 2;
    CHECK(has_kernel(two.layers[i], "router.look_up") == hashed);
    CHECK(has_kernel(two.layers[i], "router.top_k") == !hashed);
    CHECK(corrections(two.layers[i]) == (hashed ? 0 : 1));
  }
  CHECK(network("").parameters() == two.parameters() - 8);  // three layers, as in the published configs
  // The further layer: a block of the last tokens, a projection of the embedding and one of each stream, three norms, and a
  // sum of the streams. The embedding's table and the output's weight are those of the network.
  const Network further = network(", num_hash_layers: 2, mtp_num_layers: 1");
  const double h = 64, streams = 4, tokens = 4096, vocabulary = 512;
  const Layer& block = two.layers[4];
  CHECK(further.parameters() - two.parameters() ==
        block.parameter_elements() + 2 * h * h + 3 * h + streams * h * streams + streams + 1);
  CHECK(further.layers.size() == two.layers.size());
  CHECK(further.forward_flops().value - two.forward_flops().value ==
        Approx(block.forward_flops().value +
               2 * tokens * (h * h + streams * h * h + streams * h * streams + h * vocabulary)));
  CHECK(gradients_are_ready_once(further));
  const auto flash = [](const std::string& document) {
    const NetworkEntry entry = read_network_entry(Catalog().resolve("network", parse_document(document, "further")));
    return make_network(entry, 1, sample_tokens(entry), Precision::bf16).parameters();
  };
  CHECK(flash("{base: deepseek-v4-flash, sizes: {further: 1}}") > flash("deepseek-v4-flash") + 6e9);
  const auto config = parsed_config(
      "{model_type: deepseek_v4, num_hidden_layers: 1, compress_ratios: [0], hidden_size: 64, "
      "num_attention_heads: 8, q_lora_rank: 32, n_routed_experts: 8, num_experts_per_tok: 2, "
      "moe_intermediate_size: 32, vocab_size: 512, mtp_num_layers: 1}");
  TransformerOptions split;
  split.sharding.tensor = 8;
  split.sharding.sequence = true;
  CHECK(gradients_are_ready_once(transformer_network(config, 1, 4096, Precision::bf16, split)));
}

TEST_CASE("a token of LongCat-Flash uses the parameters that its report states on average", "[network][hugging_face]") {
  const std::string config =
      "{model_type: longcat_flash, num_layers: 28, kv_lora_rank: 512, q_lora_rank: 1536, qk_rope_head_dim: 64, "
      "qk_nope_head_dim: 128, v_head_dim: 128";
  const double embedding = 131072.0 * 6144;  // a token reads one row of them
  CHECK(built(parsed_config(config + "}")).active_parameters() - embedding == Approx(27e9).epsilon(0.01));
  CHECK_THROWS_WITH(parsed_config(config + ", moe_topk: 10}"), Contains("a fraction is not modelled"));
  CHECK_THROWS_WITH(parsed_config(config + ", num_hidden_layers: 28}"), Contains("expected two for each"));
}

TEST_CASE("networks of the catalog refuse cross-attention to another network", "[network][hugging_face]") {
  CHECK_THROWS_WITH(parsed_config("{model_type: electra, add_cross_attention: true}"),
                    Contains("model.add_cross_attention: cross-attention to another network is not modelled"));
  CHECK_THROWS_WITH(parsed_config("{model_type: distilbert, is_decoder: true}"), Contains("expected false"));
  CHECK_NOTHROW(parsed_config("{model_type: electra, add_cross_attention: false, is_decoder: false}"));
}

TEST_CASE("FLOP of networks that configs stand for are those of their products", "[network][hugging_face]") {
  // 2 x rows x weights of products, and 4 x pairs x width of attention.
  const double h = 768, n = 198, block = 12 * h * h;
  CHECK(forward_flops(built(parsed_config("{model_type: deit}"))) ==
        Approx(12 * (2 * n * block + 4 * n * n * h) + 2 * 196 * 768 * h + 2 * 2000 * h).epsilon(1e-9));
  const double d = 4096, t = 2048;
  CHECK(forward_flops(built(parsed_config("{model_type: mpt, d_model: 4096, n_layers: 32, n_heads: 32, vocab_size: "
                                          "50432, attn_config: {alibi: true, clip_qkv: null}}"))) ==
        Approx(32 * (2 * t * 12 * d * d + 2 * t * t * d) + 2 * t * d * 50432).epsilon(0.001));
  const double s = 512;  // the embedding of ELECTRA-small is narrower than its layers
  CHECK(forward_flops(built(parsed_config("{model_type: electra, num_hidden_layers: 12}"))) ==
        Approx(2 * s * 128 * 256 + 12 * (2 * s * 12 * 256 * 256 + 4 * s * s * 256) + 2 * s * (256 * 256 + 256))
            .epsilon(1e-9));
}

TEST_CASE("keys and values of a config for which the layers are not written are refused", "[network][hugging_face]") {
  CHECK_THROWS_WITH(parsed_config("{model_type: mpt, attn_config: {alibi: false}}"),
                    Contains("model.attn_config.alibi: false is not modelled; expected true"));
  CHECK_THROWS_WITH(parsed_config("{model_type: clip, vision_config: {hiden_size: 8}}"),
                    Contains("unknown key \"vision_config.hiden_size\" in model; did you mean "
                             "\"vision_config.hidden_size\"?"));
  CHECK_THROWS_WITH(parsed_config("{model_type: olmo, hidden_size: wide}"), Contains("expected a number"));
  CHECK_THROWS_WITH(parsed_config("{_class_name: SD3Transformer2DModel, qk_norm: layer}"),
                    Contains("\"layer\" is not modelled"));
  CHECK_THROWS_WITH(parsed_config("{_class_name: WanModel, model_type: t2v}"), Contains("missing key"));
  CHECK_THROWS_WITH(parsed_config("{model_type: modern_bert}"), Contains("did you mean \"modernbert\"?"));
  CHECK_THROWS_WITH(parsed_config("{_class_name: SD3Transformer2D}"), Contains("did you mean"));
}

TEST_CASE("keys of a config that carry sizes change them, and `sizes` sets those of the network",
          "[network][hugging_face]") {
  const std::string tower = "{model_type: qwen2_5_vl, vision_config: {";
  const Network plain = built(parsed_config(tower + "}}"));
  for (const char* larger : {"patch_size: 28", "in_channels: 6", "temporal_patch_size: 4", "spatial_merge_size: 4"}) {
    CAPTURE(larger);
    CHECK(built(parsed_config(tower + larger + "}}")).parameters() > plain.parameters());
  }
  for (const char* more : {"window_size: 224", "fullatt_block_indexes: [1, 2, 3, 4, 5, 6, 7, 8]"}) {
    CAPTURE(more);
    const Network other = built(parsed_config(tower + more + "}}"));
    CHECK(other.parameters() == plain.parameters());
    CHECK(forward_flops(other) > forward_flops(plain));
  }
  CHECK(forward_flops(built(parsed_config(tower + "}, sizes: {image: tokens / 4}}"))) < forward_flops(plain));
  CHECK_THROWS_WITH(parsed_config(tower + "}, sizes: {imag: 4}}"), Contains("did you mean \"image\"?"));
}

TEST_CASE("operators and layers whose condition is 0 are left out, and flags may be formulas",
          "[network][hugging_face]") {
  const auto parameters = [](const std::string& sizes) {
    return built(parsed_config("{model_type: operators, tokens: 8, sizes: " + sizes +
                               ", layers: [{layer: first, width: 8, operators: [linear: {in: 8, out: 8, bias: biased}, "
                               "rms_norm: {when: normed, width: 8}]}, {layer: second, when: long, width: 8, operators: "
                               "[linear: {in: 8, out: floor(17 / 2)}]}]}"))
        .parameters();
  };
  CHECK(parameters("{biased: 0, normed: 0, long: 0}") == 64);
  CHECK(parameters("{biased: 1, normed: 0, long: 0}") == 72);
  CHECK(parameters("{biased: 1, normed: 1, long: 1}") == 144);
  CHECK_THROWS_WITH(parameters("{biased: 1, normed: 1}"), Contains("no size \"long\""));
}

}  // namespace models_test_hugging_face_configs
