// Networks that are written as operators: equal to the families in C++, with the published parameters.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "models/networks/network_entry.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_operator_networks {

using namespace trainyard;
using Catch::Matchers::Contains;

namespace {

NetworkEntry catalog_network(const std::string& name) {
  return read_network_entry(Catalog().resolve("network", Node::scalar_node(name)));
}

Network built(const char* document, TransformerOptions options) {
  options.fused_gated_activation = true;
  return transformer_network(parsed_config(document), 4, 512, Precision::bf16, options);
}

template <class Kernels>
double bytes_of(const Kernels& kernels) {
  double sum = 0;
  for (const auto& kernel : kernels) sum += kernel.work.bytes.value;
  return sum;
}

double bytes_of(const std::vector<Exchange>& exchanges) {
  double sum = 0;
  for (const Exchange& exchange : exchanges) sum += exchange.bytes.value;
  return sum;
}

}  // namespace

TEST_CASE("a kernel and an exchange have the sizes that a user states", "[network][operators]") {
  const auto layer_of = [](int tensor) {
    TransformerOptions options;
    options.sharding.tensor = tensor;
    return built(
               "{model_type: operators, tokens: 512, layers: [{layer: head, width: 64, operators: ["
               "kernel: {name: mix, moved: 3 * 64, flops: 1000, kept: 64, parameters: 128, split: columns}, "
               "kernel: {name: plain, moved: 64, backward_moved: 64}, "
               "exchange: {width: 64, kind: all_gather, over: tensor}, "
               "exchange: {name: sum, width: 64, kind: all_reduce, over: tensor}]}]}",
               options)
        .layers.front();
  };
  const double rows = 4 * 512, element = 2;
  const Layer alone = layer_of(1), halved = layer_of(2);
  CHECK(alone.parameter_elements() == 128);
  CHECK(alone.forward_flops().value == Approx(1000 * rows));
  CHECK(alone.backward_flops().value == Approx(2000 * rows));
  CHECK(bytes_of(alone.forward) == Approx(element * (rows * (3 * 64 + 64) + 128)));
  CHECK(bytes_of(alone.backward) == Approx(element * (rows * (6 * 64 + 64) + 128)));
  CHECK(alone.activations().value >= element * rows * 64);
  CHECK(alone.forward_exchanges.empty());
  CHECK(halved.parameter_elements() == 64);
  CHECK(halved.forward_flops().value == Approx(500 * rows));
  REQUIRE(halved.forward_exchanges.size() == 2);
  CHECK(halved.forward_exchanges[1].kind == ExchangeKind::all_reduce);
  REQUIRE(halved.backward_exchanges.size() == 1);  // the gradient of a sum needs none
  CHECK(halved.backward_exchanges.front().kind == ExchangeKind::reduce_scatter);
  CHECK(bytes_of(halved.backward_exchanges) == Approx(element * rows * 64));
}

TEST_CASE("a convolution over tokens has its taps as parameters, and is split by channels", "[network][operators]") {
  const auto layer_of = [](int tensor) {
    TransformerOptions options;
    options.sharding.tensor = tensor;
    return built(
               "{model_type: operators, tokens: 512, layers: [{layer: head, width: 64, operators: [convolution: "
               "{width: "
               "64, taps: 4, bias: true, split: columns}]}]}",
               options)
        .layers.front();
  };
  CHECK(layer_of(1).parameter_elements() == 64 * 5);
  CHECK(layer_of(2).parameter_elements() == 32 * 5);
  CHECK(bytes_of(layer_of(2).forward) == Approx(bytes_of(layer_of(1).forward) / 2));
}

TEST_CASE("networks of the catalog that are written as operators have the published parameters",
          "[network][operators]") {
  // Peebles & Xie 2023, table 4; the safetensors files of three (sources in the catalog's files); the sums over the layers
  // of diffusers, by hand, of Qwen-Image, PixArt and CogVideoX (20, 0.6 and 5 billion in their papers).
  for (const auto& [name, published] : {std::pair{"dit-xl-2", 675e6},
                                        {"flux-1-dev", 11'901'408'320.0},
                                        {"qwen-image", 20'430'401'088.0},
                                        {"pixart-sigma-xl-2", 610'856'096.0},
                                        {"cogvideox-5b", 5'570'283'072.0},
                                        {"wan2.1-t2v-14b", 14'288'491'584.0},
                                        {"qwen2.5-vl-7b", 8'292'166'656.0}}) {
    CAPTURE(name);
    const NetworkEntry entry = catalog_network(name);
    const Network network = make_network(entry, 1, sample_tokens(entry), Precision::bf16);
    CHECK(network.parameters() == Approx(published).epsilon(std::string(name) == "dit-xl-2" ? 0.005 : 1e-12));
    CHECK(gradients_are_ready_once(network));
  }
  // 118.64 billion multiply-adds for a sample (Peebles & Xie 2023, table 4).
  CHECK(make_network(catalog_network("dit-xl-2"), 1, 256, Precision::bf16).forward_flops().value ==
        Approx(2 * 118.64e9).epsilon(0.005));
  const NetworkEntry entry = catalog_network("qwen2.5-vl-7b");
  double tower = 0;
  for (const Layer& layer : make_network(entry, 1, sample_tokens(entry), Precision::bf16).layers)
    if (layer.name == "patches" || layer.name == "merger" || layer.name.ends_with(" vision"))
      tower += layer.parameter_elements();
  CHECK(tower == 676'550'144);
}

TEST_CASE("recommendation models spread their tables over ranks, which exchange vectors", "[network][operators]") {
  // The sizes of MLPerf's models and of HSTU's configuration, by hand (sources in the catalog's files).
  for (const auto& [name, counted] :
       {std::pair{"dlrm-criteo", 24'036'595'969.0}, {"dlrm-dcnv2", 26'151'671'809.0}, {"hstu-ml20m", 38'912'864.0}}) {
    CAPTURE(name);
    const NetworkEntry entry = catalog_network(name);
    CHECK(make_network(entry, 1, sample_tokens(entry), Precision::bf16).parameters() == Approx(counted).epsilon(1e-12));
  }
  TransformerOptions options;
  const auto features = [&](int ranks) {
    options.sharding.expert = ranks;
    return make_network(catalog_network("dlrm-dcnv2"), 1024, 1, Precision::bf16, options).layers.front();
  };
  const Layer one = features(1), eight = features(8);
  CHECK(one.forward_exchanges.empty());
  CHECK(one.backward_exchanges.empty());
  CHECK(eight.parameters.front().elements == 204'184'588.0 * 128 / 8);
  CHECK(eight.parameters.front().expert);
  CHECK(eight.parameters.front().frozen);
  CHECK(eight.parameters.front().stored.value == 4 + 4 / 128.0);  // fp32, and a state for each row
  // Each rank looks up an eighth of the rows of eight times as many samples.
  const double looked_up = 1024 * 214, vectors = 2 * 1024 * 26 * 128;
  CHECK(work_of(eight.forward, "tables").bytes.value == looked_up * (4 * 128 + 8) + vectors);
  CHECK(work_of(eight.forward, "tables").bytes == work_of(one.forward, "tables").bytes);
  REQUIRE(eight.forward_exchanges.size() == 2);
  REQUIRE(eight.backward_exchanges.size() == 1);
  const Exchange &indices = eight.forward_exchanges[0], &there = eight.forward_exchanges[1],
                 &back = eight.backward_exchanges[0];
  CHECK(indices.bytes.value == 8 * looked_up);
  for (const Exchange* exchange : {&there, &back}) {
    CHECK(exchange->bytes.value == vectors);
    CHECK(exchange->axis == Axis::expert);
    CHECK(exchange->kind == ExchangeKind::all_to_all);
  }
  // The bottom MLP runs meanwhile: all kernels forward after the lookups, and all backward but the update of the tables.
  CHECK(there.kernels_before == 1);
  CHECK(there.needed_by == static_cast<int>(eight.forward.size()));
  CHECK(back.kernels_before == 0);
  CHECK(back.needed_by == static_cast<int>(eight.backward.size()) - 1);
  CHECK(eight.backward.back().name == "tables.update");
  const Layer pairs = make_network(catalog_network("dlrm-criteo"), 64, 1, Precision::bf16).layers.at(1);
  CHECK(work_of(pairs.forward, "interaction").flops.value == 2.0 * 27 * 27 * 128 * 64);
  options.sharding.expert = 8;
  CHECK_THROWS_WITH(make_network(catalog_network("dit-xl-2"), 1, 256, Precision::bf16, options),
                    Contains("has no experts and no tables of embeddings"));
}

TEST_CASE("configs of Hugging Face replace the sizes of networks that are written as operators",
          "[network][operators]") {
  const auto parameters = [](const std::string& config) {
    const TransformerConfig c = parsed_config(config);
    return transformer_network(c, 1, 2048, Precision::bf16).parameters();
  };
  // The 1.3 billion of Wan2.1-T2V-1.3B: 1,418,996,800 parameters in its safetensors file.
  CHECK(parameters("{_class_name: WanModel, _diffusers_version: 0.30.0, dim: 1536, eps: 1e-06, ffn_dim: 8960, "
                   "freq_dim: 256, in_dim: 16, model_type: t2v, num_heads: 12, num_layers: 30, out_dim: 16, "
                   "text_len: 512}") == 1'418'996'800);
  CHECK(
      parameters("{_class_name: WanTransformer3DModel, attention_head_dim: 128, cross_attn_norm: true, ffn_dim: 8960, "
                 "freq_dim: 256, in_channels: 16, num_attention_heads: 12, num_layers: 30, out_channels: 16, "
                 "patch_size: [1, 2, 2], text_dim: 4096, image_dim: null}") == 1'418'996'800);
  CHECK(parameters("{_class_name: FluxTransformer2DModel, attention_head_dim: 128, guidance_embeds: true, in_channels: "
                   "64, joint_attention_dim: 4096, num_attention_heads: 24, num_layers: 19, num_single_layers: 38, "
                   "patch_size: 1, pooled_projection_dim: 768}") == 11'901'408'320);
  CHECK(parameters("{_class_name: QwenImageTransformer2DModel, attention_head_dim: 128, axes_dims_rope: [16, 56, 56], "
                   "guidance_embeds: false, in_channels: 64, joint_attention_dim: 3584, num_attention_heads: 24, "
                   "num_layers: 60, out_channels: 16, patch_size: 2, pooled_projection_dim: 768}") == 20'430'401'088);
  CHECK(parameters("{_class_name: PixArtTransformer2DModel, attention_bias: true, attention_head_dim: 72, "
                   "caption_channels: 4096, cross_attention_dim: 1152, in_channels: 4, num_attention_heads: 16, "
                   "num_layers: 28, out_channels: 8, patch_size: 2, use_additional_conditions: false}") == 610'856'096);
  CHECK(parameters("{_class_name: DiTTransformer2DModel, num_layers: 28, num_attention_heads: 16, "
                   "attention_head_dim: 72, in_channels: 4, sample_size: 32}") == Approx(675e6).epsilon(0.005));
  CHECK(parameters("{model_type: qwen2_5_vl, hidden_size: 3584, intermediate_size: 18944, num_attention_heads: 28, "
                   "num_key_value_heads: 4, num_hidden_layers: 28, vocab_size: 152064, tie_word_embeddings: false, "
                   "vision_config: {depth: 32, hidden_size: 1280, intermediate_size: 3420, num_heads: 16}}") ==
        8'292'166'656);
  CHECK_THROWS_WITH(parsed_config("{_class_name: FluxTransformer2DModel, patch_size: 2}"),
                    Contains("model.patch_size: 2 is not modelled; expected 1"));
  CHECK_THROWS_WITH(parsed_config("{_class_name: FluxTransformer2DModel, num_layer: 19}"),
                    Contains("unknown key \"num_layer\""));
  CHECK_THROWS_WITH(parsed_config("{model_type: qwen2_5_vl, use_sliding_window: true}"), Contains("expected false"));
}

TEST_CASE("the network as data in the manual is read and built", "[network][operators][pages]") {
  std::ifstream file(std::string(TRAINYARD_SOURCE_DIR) + "/tools/manual/scenario-reference.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = page.find("model:\n  model_type: operators\n");
  REQUIRE(begin != std::string::npos);
  const Node document = parse_document(page.substr(begin, page.find("```", begin) - begin), "manual.yaml");
  for (const std::int64_t tokens : {1024, 2048}) {
    TransformerOptions options;
    options.sharding.tensor = 2;
    const Network network =
        transformer_network(read_transformer(*document.find("model")), 1, tokens, Precision::bf16, options);
    CHECK(network.layers.size() == 14);
    CHECK(network.layers[1].forward_exchanges.size() == 1);
    CHECK(network.layers[1].backward_exchanges.size() == 1);
    CHECK(work_of(network.layers.back().forward, "output").flops.value ==
          2.0 * (static_cast<double>(tokens) - 128) * 512 * 64);
    CHECK(gradients_are_ready_once(network));
  }
}

TEST_CASE("rows of a sample are not divided over context ranks, and rows of tokens are", "[network][operators]") {
  const auto block = [](int context) {
    TransformerOptions options;
    options.sharding.context = options.sharding.ulysses = context;
    return make_network(catalog_network("wan2.1-t2v-14b"), 1, 32760, Precision::bf16, options).layers.at(1);
  };
  const Layer one = block(1), two = block(2);
  const auto flops = [](const Layer& layer, const char* kernel) { return work_of(layer.forward, kernel).flops.value; };
  for (const char* kernel : {"q", "fc1", "attention", "cross_attention"})
    CHECK(flops(one, kernel) == 2 * flops(two, kernel));
  for (const char* kernel : {"cross_k", "cross_v"}) CHECK(flops(one, kernel) == flops(two, kernel));
  CHECK(work_of(one.forward, "modulation").bytes == work_of(two.forward, "modulation").bytes);
}

TEST_CASE("faulty lists of operators are refused at their place", "[network][operators][errors]") {
  const auto with = [](const std::string& operators, const std::string& sizes = "{hidden: 8}") {
    return "{model_type: operators, tokens: 16, sizes: " + sizes + ", layers: [{layer: head, operators: [" + operators +
           "]}]}";
  };
  const auto refusal = [&](const std::string& operators) { return with(operators); };
  CHECK_THROWS_WITH(parsed_config(refusal("linar: {in: 1, out: 2}")),
                    Contains("unknown operator \"linar\"; did you mean \"linear\"?"));
  CHECK_THROWS_WITH(parsed_config(refusal("linear: {in: 1}")), Contains("\"out\""));
  CHECK_THROWS_WITH(parsed_config(refusal("linear: {in: 1, out: hiden}")),
                    Contains("no size \"hiden\"; did you mean \"hidden\"?"));
  CHECK_THROWS_WITH(parsed_config(refusal("linear: {in: 1, out: 4 - hidden}")),
                    Contains("is -4 with 16 tokens; expected a size above 0"));
  CHECK_THROWS_WITH(parsed_config(refusal("linear: {in: 1, out: 2, bias: 3}")), Contains("expected true or false"));
  CHECK_THROWS_WITH(parsed_config(refusal("linear: {in: 1, out: 2, high: 3}")), Contains("unknown key \"high\""));
  CHECK_THROWS_WITH(parsed_config(refusal("linear")), Contains("expected an operator, such as linear"));
  CHECK_THROWS_WITH(parsed_config(with("linear: {in: 1, out: 2}", "{tokens: 8}")),
                    Contains("tokens has a meaning of its own"));
  const TransformerConfig config = parsed_config(with("linear: {in: 1, out: 2, rows: image}", "{image: tokens - 4}"));
  CHECK_THROWS_WITH(transformer_network(config, 1, 4, Precision::bf16), Contains("is 0 with 4 tokens"));
  TransformerOptions two;
  two.sharding.tensor = 2;
  CHECK_THROWS_WITH(transformer_network(config, 1, 16, Precision::bf16, two), Contains("none of its operators states"));
  const auto built_on_two = [&](const std::string& operators, int expert) {
    TransformerOptions options = two;
    options.sharding.expert = expert;
    return transformer_network(parsed_config(refusal(operators)), 1, 16, Precision::bf16, options);
  };
  CHECK_THROWS_WITH(parsed_config(refusal("exchange: {width: 8, kind: all_gater, over: tensor}")),
                    Contains("did you mean \"all_gather\"?"));
  CHECK_THROWS_WITH(parsed_config(refusal("experts: {width: 8, experts: 4, chosen: 5, inner: 8}")),
                    Contains("5 of 4 are chosen"));
  CHECK_THROWS_WITH(parsed_config(refusal("experts: {width: 8, experts: 4.5, chosen: 2, inner: 8}")),
                    Contains("4.5; expected a whole number"));
  CHECK_THROWS_WITH(parsed_config(refusal("experts: {width: 8, experts: 4, chosen: 2, inner: 8}, experts: {width: 8, "
                                          "experts: 8, chosen: 2, inner: 8}")),
                    Contains("expected equal numbers in all layers"));
  CHECK_THROWS_WITH(built_on_two("experts: {width: 8, experts: 4, chosen: 2, inner: 8}", 3), Contains("nearest: 2"));
  CHECK_THROWS_WITH(built_on_two("mamba2: {width: 8, heads: 3, head: 4, groups: 1, state: 4}", 1),
                    Contains("2 ranks share the 3 heads of mamba2"));
  CHECK_THROWS_WITH(
      built_on_two("linear: {in: 8, out: 16, split: columns}, attention: {heads: 2, key_value_heads: 1, width: 4}", 1),
      Contains("2 ranks share the 1 key-value heads of attention") && Contains("nearest: 1"));
  TransformerOptions cut;
  cut.sharding.context = 2;
  CHECK_THROWS_WITH(
      transformer_network(parsed_config(refusal("kernel: {moved: 8, sequential: true}")), 1, 16, Precision::bf16, cut),
      Contains("kernel reads the rows of other context ranks"));
}

TEST_CASE("sizes are whole where they count elements, and their errors name their lines",
          "[network][operators][errors]") {
  const auto error = [](const std::string& sizes, const std::string& in = "hidden") {
    try {
      parsed_config("model_type: operators\ntokens: 16\nsizes:\n" + sizes +
                    "layers:\n  - layer: head\n    operators: [linear: {in: " + in +
                    ", out: 4}, cross_entropy: {classes: 4}]\n");
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(error("  hidden: 5/2\n") ==
        "config.json:4:11: model.sizes.hidden: \"5/2\" is 2.5, and in of linear counts elements; expected a whole "
        "number");
  CHECK(error("  share: 5/2\n  hidden: 4 * share\n").empty());  // a size may be a fraction where nothing counts it
  CHECK(error("  hidden: 8\n", "hidden / 3") ==
        "config.json:7:25: model.layers: linear: in: \"hidden / 3\" is 2.666666667; expected a whole number");
  CHECK(error("  hidden: 8\n  inner: 4 * hiden\n") ==
        "config.json:5:10: model.sizes.inner: no size \"hiden\"; did you mean \"hidden\"?");
  CHECK(
      error("  hidden: 8\n  hid: 8\n") ==
      "config.json:5:3: model.sizes.hid: no layer and no other size reads it; expected a formula with hid, or no such "
      "size");
  CHECK(error("  hidden: 8\n  inner: 4 * hidden\n").find("model.sizes.inner: no layer") != std::string::npos);
  CHECK(error("  hidden: 2 * hid\n  hid: 8\n").find("model.sizes.hidden: no size \"hid\"") != std::string::npos);
  CHECK(error("  hid: 8\n  hidden: 2 * hid\n").empty());
}

TEST_CASE("widths of rows are compared between operators, branches and layers", "[network][operators][errors]") {
  const auto error = [](const std::string& layers) {
    try {
      parsed_config("model_type: operators\ntokens: 16\nsizes: {hidden: 8, inner: 32}\nlayers:\n" + layers);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto head = [&](const std::string& operators) {
    return error("  - layer: head\n    operators: [" + operators + "]\n");
  };
  CHECK(
      head("linear: {in: hidden, out: inner}, activation: {width: inner}, linear: {name: down, in: hidden, out: 4}, "
           "cross_entropy: {classes: 4}") ==
      "config.json:6:87: model.layers: down reads rows of 8 elements (in: hidden), and activation before it gives 32");
  CHECK_THAT(head("linear: {in: hidden, out: 4}, cross_entropy: {classes: 5}"),
             Contains("cross_entropy reads rows of 5 elements (classes: 5), and linear before it gives 4"));
  CHECK_THAT(head("linear: {in: hidden, out: 4, readers: 2}, linear: {in: inner, out: 4, shares_input: true}"),
             Contains("linear reads rows of 32 elements (in: inner), and the product whose input it shares reads 8"));
  CHECK_THAT(
      head("linear: {in: 8, out: 8, split: columns}, linear: {name: k, in: 8, out: 4, split: columns, "
           "shares_input: true}, linear: {name: v, in: 8, out: 4, split: columns, shares_input: true}, attention: "
           "{heads: 2, width: 4}"),
      Contains("attention reads rows of 24 elements (2 heads of queries and 2 of keys and values, of 4), and v "
               "before it gives 16 (8 + 4 + 4)"));
  CHECK_THAT(head("linear: {in: 8, out: inner, split: columns}, activation: {width: inner}"),
             Contains("activation reads whole rows, and linear before it gives a tensor rank's part of a row; expected "
                      "split: columns, or a product with split: rows before it"));
  CHECK_THAT(
      head("linear: {in: 8, out: inner, split: columns}, linear: {name: down, in: inner, out: 8}"),
      Contains("down reads whole rows, and linear before it gives a tensor rank's part of a row; expected split: "
               "rows"));
  CHECK_THAT(head("linear: {in: 8, out: inner}, activation: {width: inner, gated: true}"),
             Contains("activation reads rows of 64 elements (2 x width: inner), and linear before it gives 32"));
  CHECK_THAT(
      head("residual: {width: hidden, operators: [linear: {in: hidden, out: inner}]}"),
      Contains("the branch of residual is added to rows of 8 elements (width: hidden), and linear at its end gives "
               "32"));
  CHECK_THAT(error("  - {layer: a, width: hidden, operators: [embedding: {entries: 9, width: inner}]}\n"),
             Contains("config.json:5:5: model.layers: the width of layer a is 8, and embedding at its end gives 32"));
  CHECK_THAT(error("  - {layer: a, width: hidden, operators: [embedding: {entries: 9, width: hidden}]}\n"
                   "  - {layer: b, operators: [rms_norm: {width: inner}]}\n"),
             Contains("rms_norm reads rows of 32 elements (width: inner), and layer a before it gives 8"));
  CHECK_THAT(head("linear: {in: 8, out: 9, tied: table}"), Contains("tied: no embedding \"table\""));
  CHECK_THAT(error("  - {layer: a, width: hidden, operators: [embedding: {name: table, entries: 9, width: hidden}]}\n"
                   "  - {layer: b, operators: [linear: {in: hidden, out: 7, tied: table}]}\n"),
             Contains("linear: out is 7, and the entries of the embedding to which it is tied is 9"));
  // Rows of another number, a kernel without widths, and queries, keys and values of one product are not refused.
  CHECK(
      head(
          "linear: {in: 8, out: 24, parts: 3}, rms_norm: {heads: 2, width: 4}, rotary: {width: 16}, attention: {heads: "
          "2, width: 4}, kernel: {moved: 8}, linear: {in: 5, out: 4}, cross_entropy: {rows: 4, classes: inner}")
          .empty());
}

TEST_CASE("a wide product stays in 16 bits in a plan of fp8, without casts and their launches",
          "[network][operators]") {
  TransformerOptions options;
  options.fp8 = true;
  options.fp8_linear_launches = 23;
  const Layer layer =
      built(
          "{model_type: operators, tokens: 512, layers: [{layer: block, repeat: 1, width: 64, operators: "
          "[linear: {name: low, in: 64, out: 16, wide: true}, linear: {name: high, in: 16, out: 64}]}]}",
          options)
          .layers.front();
  CHECK(names(layer.forward) == std::vector<std::string>{"low", "high.cast", "high"});
  CHECK(names(layer.backward) ==
        std::vector<std::string>{"high.gradient_cast", "high.dgrad", "high.wgrad", "low.dgrad", "low.wgrad"});
  CHECK(work_of(layer.forward, "low").precision == static_cast<std::uint8_t>(Precision::bf16));
  CHECK(work_of(layer.forward, "low").launches == 1);
  CHECK(work_of(layer.forward, "high").launches + work_of(layer.forward, "high.cast").launches == 23);
}

TEST_CASE("a group of unlike layers is repeated in the order of its pattern", "[network][operators]") {
  const auto network = [](const std::string& group) {
    return built(("{model_type: operators, tokens: 8, layers: [{" + group +
                  ", layers: [{layer: M, width: 8, operators: [move: {in: 8, out: 8}]}, "
                  "{layer: A, width: 8, operators: [linear: {in: 8, out: 8}]}]}]}")
                     .c_str(),
                 {});
  };
  std::vector<std::string> layers;
  for (const Layer& layer : network("pattern: [M, M, A], repeat: 2").layers) layers.push_back(layer.name);
  CHECK(layers ==
        std::vector<std::string>{"block 0 M", "block 1 M", "block 2 A", "block 3 M", "block 4 M", "block 5 A"});
  CHECK(network("pattern: MMA").layers.size() == 3);
  CHECK(network("repeat: 3").layers.size() == 6);
  CHECK(network("repeat: 3").parameters() == 3 * 64);
  CHECK_THROWS_WITH(network("pattern: [M, B]"), Contains("no layer \"B\" in the group"));
  CHECK_THROWS_WITH(network("pattern: []"), Contains("expected names of layers"));
}

TEST_CASE("sequence parallelism gives unsplit operators the rank's tokens, and those after gather all tokens",
          "[network][operators]") {
  const auto layer_of = [](bool sequence, const std::string& operators) {
    TransformerOptions options;
    options.sharding.tensor = 2;
    options.sharding.sequence = sequence;
    return built(("{model_type: operators, tokens: 512, layers: [{layer: head, width: 64, operators: [" + operators +
                  "]}]}")
                     .c_str(),
                 options)
        .layers.front();
  };
  const std::string mixer =
      "rms_norm: {width: 64}, gather: {width: 64}, kernel: {name: shift, moved: 128, parameters: 64, in: 64, out: 64, "
      "sequential: true}, linear: {name: r, in: 64, out: 64, split: columns}, kernel: {name: wkv, moved: 64, split: "
      "columns, sequential: true}, linear: {name: o, in: 64, out: 64, split: rows}, scale: {width: 64}";
  const Layer whole = layer_of(false, mixer), split = layer_of(true, mixer);
  const auto bytes = [](const Layer& layer, const char* kernel) { return work_of(layer.forward, kernel).bytes.value; };
  for (const char* kernel : {"rms_norm", "scale"}) CHECK(2 * bytes(split, kernel) == bytes(whole, kernel));
  for (const char* kernel : {"shift", "r", "wkv", "o"}) CHECK(bytes(split, kernel) == bytes(whole, kernel));
  CHECK(names(split.forward_exchanges) == std::vector<std::string>{"gather.gather", "o.scatter"});
  CHECK(names(whole.forward_exchanges) == std::vector<std::string>{"o.reduce"});
  CHECK(names(whole.backward_exchanges) == std::vector<std::string>{"gather.reduce.backward"});
  for (const ParameterTensor& tensor : split.parameters)
    CHECK(tensor.partial == (tensor.name == "rms_norm.weight" || tensor.name == "shift.weight"));
  CHECK(2 * split.output.value == whole.output.value);
  CHECK_THROWS_WITH(layer_of(true, "convolution: {width: 64, taps: 4}, linear: {in: 64, out: 64, split: columns}"),
                    Contains("convolution reads the rows of other tensor ranks"));
  CHECK_THROWS_WITH(layer_of(true, "scale: {rows: 77, width: 64}, linear: {in: 64, out: 64, split: columns}"),
                    Contains("2 tensor ranks share the 77 rows of a sample of scale"));
}

}  // namespace models_test_operator_networks
