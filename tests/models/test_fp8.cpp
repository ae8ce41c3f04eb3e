// Products in fp8: bytes of casts by their scaling, and casts of tensors that tensor ranks gather.
#include <catch2/catch.hpp>

#include "models/networks/layers/layer_builder.hpp"
#include "models/software/stack.hpp"
#include "models/software/training_memory.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_fp8 {

using namespace trainyard;

namespace {

constexpr double kRows = 128, kHidden = 4096;

template <class Kernels>
bool runs(const Kernels& kernels, const std::string& name) {
  return std::ranges::any_of(kernels, [&](const auto& kernel) { return kernel.name == name; });
}

Layer linear(Fp8Scaling scaling, bool any_layout) {
  LayerBuilder b("layer", kRows, Precision::bf16);
  b.set_fp8({true, scaling, any_layout});
  b.linear({.name = "fc", .in = 256, .out = 512});
  return std::move(b).build(Bytes{1});
}

TransformerOptions fp8_options(Fp8Scaling scaling, int tensor) {
  TransformerOptions options;
  options.fp8 = options.fused_projections = options.fused_gated_activation = true;
  options.fp8_scaling = scaling;
  options.sharding.tensor = tensor;
  options.sharding.sequence = tensor > 1;
  return options;
}

Layer block_of(const TransformerOptions& options, const char* config = "llama-3-8b") {
  return transformer_network(catalog_config(config), 1, static_cast<std::int64_t>(kRows), Precision::bf16, options)
      .layers.at(1);
}

}  // namespace

TEST_CASE("casts to fp8 move the bytes that their scaling needs", "[fp8]") {
  const auto forward = [](Fp8Scaling scaling, bool any_layout) {
    return work_of(linear(scaling, any_layout).forward, "fc.cast").bytes.value / (kRows * 256);
  };
  CHECK(forward(Fp8Scaling::delayed, false) == 2 + 1 + 1);  // read, written, and written transposed
  CHECK(forward(Fp8Scaling::delayed, true) == 2 + 1);
  CHECK(forward(Fp8Scaling::row, false) == 2 * (2 + 1));  // columns have other scales
  CHECK(forward(Fp8Scaling::block, true) == 2 + 1 + 1);
  CHECK(forward(Fp8Scaling::nvfp4, true) == 2 + 2 * (0.5 + 1.0 / 16));  // along both dimensions, with scales
  CHECK(forward(Fp8Scaling::mxfp4, true) == 2 + 2 * (0.5 + 1.0 / 32));
  CHECK(forward(Fp8Scaling::mxfp6, true) == 2 + 2 * (0.75 + 1.0 / 32));
  const Layer current = linear(Fp8Scaling::current, false);
  CHECK(work_of(current.forward, "fc.cast.maximum").bytes.value == 2 * kRows * 256);
  CHECK(work_of(current.backward, "fc.gradient_cast.maximum").bytes.value == 2 * kRows * 512);
  CHECK(linear(Fp8Scaling::delayed, false).delayed_products == 1);
  CHECK(current.delayed_products == 0);
}

TEST_CASE("tensors in fp8 with block scales keep their scales in memory", "[fp8]") {
  const auto kept_input = [](Fp8Scaling scaling) {
    for (const KeptTensor& tensor : linear(scaling, true).saved_tensors)
      if (tensor.name == "fc.input") return tensor.bytes.value / (kRows * 256);
    return 0.0;
  };
  CHECK(kept_input(Fp8Scaling::current) == 1);
  CHECK(kept_input(Fp8Scaling::block) == 1 + 1.0 / 32);  // a byte for 32 elements, or four for 128
  const auto weight_scales = [](Fp8Scaling scaling, bool any_layout) {
    return linear(scaling, any_layout).parameters.front().scales.value;
  };
  CHECK(weight_scales(Fp8Scaling::block, true) == 2.0 / 32);  // rows and columns have scales
  CHECK(weight_scales(Fp8Scaling::block, false) == 0);        // squares of 128 x 128
  CHECK(weight_scales(Fp8Scaling::current, true) == 0);
  // Ranks that shard the parameters hold their part of the scales.
  const Layer blocks = linear(Fp8Scaling::block, true);
  ZeroShares sharded;
  sharded.parameters = 8;
  CHECK(held_elements({&blocks}, {}, {}).scales.value == 256 * 512 * 2.0 / 32);
  CHECK(held_elements({&blocks}, sharded, sharded).scales.value == 256 * 512 * 2.0 / 32 / 8);
  const Layer tensors = linear(Fp8Scaling::current, true);
  const auto parameters = [](const Layer& layer) {
    return static_memory(held_elements({&layer}, {}, {}), Precision::bf16, find_optimizer("adam", {}), SoftwareStack{})
        .parameters.value;
  };
  CHECK(parameters(blocks) - parameters(tensors) == 256 * 512 * 2.0 / 32);
}

TEST_CASE("tensor ranks cast their own tokens before they gather them", "[fp8]") {
  const Layer layer = block_of(fp8_options(Fp8Scaling::delayed, 2));
  CHECK(work_of(layer.forward, "attention.cast").bytes.value == 3 * kRows / 2 * kHidden);
  CHECK(exchange_of(layer.forward_exchanges, "attention.gather").bytes.value == kRows * kHidden);
  CHECK(work_of(layer.backward, "qkv.transpose").bytes.value == 2 * kRows * kHidden);
  CHECK(work_of(layer.backward, "mlp.gradient_cast").bytes.value == 3 * kRows / 2 * kHidden);
  CHECK(exchange_of(layer.backward_exchanges, "mlp.scatter.backward").bytes.value == kRows * kHidden);
  CHECK(work_of(layer.backward, "down.gradient_transpose").bytes.value == 2 * kRows * kHidden);
  CHECK_FALSE(runs(layer.forward, "qkv.cast"));
  CHECK_FALSE(runs(layer.backward, "down.gradient_cast"));
  // A rank has its share of heads and columns for all tokens, so it casts the share along both dimensions.
  CHECK(work_of(layer.forward, "projection.cast").bytes.value == 4 * kRows * kHidden / 2);
}

TEST_CASE("a norm writes fp8 if the scale is known before", "[fp8]") {
  TransformerOptions options = fp8_options(Fp8Scaling::delayed, 2);
  const double wide = work_of(block_of(options).forward, "mlp_norm").bytes.value;
  options.fp8_norms = true;
  const Layer fused = block_of(options);
  CHECK(wide - work_of(fused.forward, "mlp_norm").bytes.value == kRows / 2 * kHidden);
  CHECK_FALSE(runs(fused.forward, "mlp.cast"));
  CHECK(runs(fused.backward, "gate_up.transpose"));
  options.fp8_any_layout = true;
  CHECK_FALSE(runs(block_of(options).backward, "gate_up.transpose"));
  options.fp8_scaling = Fp8Scaling::current;
  const Layer current = block_of(options);
  CHECK(work_of(current.forward, "mlp_norm").bytes.value == wide);
  const Exchange& agree = exchange_of(current.forward_exchanges, "mlp.maximum");
  CHECK(agree.kind == ExchangeKind::all_reduce);
  CHECK(agree.bytes.value == 4);
  CHECK(exchange_of(current.backward_exchanges, "attention.gradient_maximum").bytes.value == 4);
  // With one rank, the norm's output is transposed for the gradient of the weight.
  options = fp8_options(Fp8Scaling::delayed, 1);
  options.fp8_norms = true;
  CHECK(work_of(block_of(options).backward, "qkv.transpose").bytes.value == 2 * kRows * kHidden);
}

TEST_CASE("a tensor with other readers than products is gathered in 16 bits", "[fp8]") {
  const Bytes wide{2 * kRows * kHidden};
  const Layer rows = block_of(fp8_options(Fp8Scaling::row, 2));
  CHECK(exchange_of(rows.forward_exchanges, "attention.gather").bytes == wide);
  CHECK(exchange_of(rows.backward_exchanges, "attention.regather").bytes == wide);
  CHECK(work_of(rows.forward, "qkv.cast").bytes.value == 3 * kRows * kHidden);
  CHECK(work_of(rows.backward, "qkv.cast_again").bytes.value ==
        3 * kRows * kHidden);  // columns of the tensor that is gathered again
  const Layer experts = block_of(fp8_options(Fp8Scaling::delayed, 2), "mixtral-8x7b");  // the router
  CHECK(exchange_of(experts.forward_exchanges, "mlp.gather").bytes == wide);
  CHECK(exchange_of(experts.forward_exchanges, "attention.gather").bytes == wide / 2);
  TransformerOptions lora = fp8_options(Fp8Scaling::delayed, 2);
  lora.fp8_norms = true;
  lora.adapters.rank = 16;
  lora.adapters.has_adapter[static_cast<std::size_t>(LinearPart::qkv)] = true;
  const Layer adapted = block_of(lora);
  CHECK(exchange_of(adapted.forward_exchanges, "attention.gather").bytes == wide);
  CHECK(exchange_of(adapted.forward_exchanges, "mlp.gather").bytes == wide / 2);
  CHECK(work_of(adapted.forward, "qkv.cast").bytes.value == 3 * kRows * kHidden);  // its weight has no gradient
  CHECK_FALSE(runs(adapted.backward, "gate_up.transpose"));
}

TEST_CASE("products in fewer than 8 bits keep two copies of their weights and narrow inputs", "[fp8]") {
  const Layer fp8 = linear(Fp8Scaling::block, true), nvfp4 = linear(Fp8Scaling::nvfp4, true);
  constexpr double weights = 256 * 512, element = 0.5 + 1.0 / 16;
  CHECK(fp8.lasting == Bytes{});
  CHECK(nvfp4.lasting.value == weights * 2 * element);
  CHECK(work_of(nvfp4.forward, "fc").precision == static_cast<std::uint8_t>(Precision::fp4));
  CHECK(work_of(linear(Fp8Scaling::mxfp6, true).forward, "fc").precision == static_cast<std::uint8_t>(Precision::fp6));
  // The scale of the tensor comes from a pass that finds its maximum; a microscaling format has none.
  CHECK(work_of(nvfp4.forward, "fc.cast.maximum").bytes.value == 2 * kRows * 256);
  CHECK_FALSE(runs(linear(Fp8Scaling::mxfp4, true).forward, "fc.cast.maximum"));
  const Layer gathered = block_of(fp8_options(Fp8Scaling::nvfp4, 2));
  CHECK(exchange_of(gathered.forward_exchanges, "attention.gather").bytes.value == kRows * kHidden * element);
}

TEST_CASE("adapters of the feed-forward part read its input in 16 bits, and its gradient is cast once", "[fp8][lora]") {
  TransformerOptions lora = fp8_options(Fp8Scaling::delayed, 2);
  lora.adapters.rank = 16;
  for (const LinearPart part : {LinearPart::mlp_in, LinearPart::mlp_out})
    lora.adapters.has_adapter[static_cast<std::size_t>(part)] = true;
  const Layer layer = block_of(lora);
  CHECK(exchange_of(layer.forward_exchanges, "mlp.gather").bytes.value == 2 * kRows * kHidden);
  CHECK(exchange_of(layer.backward_exchanges, "mlp.scatter.backward").bytes.value == kRows * kHidden);
  CHECK(runs(layer.backward, "mlp.gradient_cast"));
  CHECK_FALSE(runs(layer.backward, "down.gradient_cast"));
}

TEST_CASE("shared experts gather their input again in the backward pass", "[fp8]") {
  for (const bool folded : {false, true}) {
    CAPTURE(folded);
    TransformerOptions options = fp8_options(Fp8Scaling::delayed, 2);
    options.sharding.expert = 2;
    options.sharding.expert_tensor = folded ? 1 : 0;
    const Layer layer = transformer_network(catalog_config("deepseek-v3"), 1, static_cast<std::int64_t>(kRows),
                                            Precision::bf16, options)
                            .layers.at(5);
    CHECK(exchange_of(layer.backward_exchanges, "mlp.regather").bytes ==
          exchange_of(layer.forward_exchanges, "mlp.gather").bytes);
  }
}

TEST_CASE("an encoder-decoder casts the operands of its products in fp8", "[fp8]") {
  const Layer layer = block_of(fp8_options(Fp8Scaling::delayed, 1), "t5-large");
  const auto multiplies = [&](const std::string& name) { return work_of(layer.forward, name).precision; };
  CHECK(runs(layer.forward, "attention.cast"));
  CHECK_FALSE(runs(layer.forward, "qkv.cast"));
  CHECK(multiplies("qkv") == static_cast<std::uint8_t>(Precision::fp8));
}

TEST_CASE("a cast is recomputed only if it follows a recomputed norm", "[fp8]") {
  for (const char* config : {"llama-3-8b", "olmo-2-7b"}) {
    CAPTURE(config);
    TransformerOptions options = fp8_options(Fp8Scaling::current, 2);
    const Layer kept = block_of(options, config);
    options.sharding.remade[static_cast<std::size_t>(RecomputedPart::layernorm)] = true;
    const Layer remade = block_of(options, config);
    const bool before = std::string(config) == "llama-3-8b";
    CHECK((remade.activations() < kept.activations()) == before);
    CHECK(runs(remade.backward, "mlp.cast") == before);
  }
}

TEST_CASE("an unknown scaling of fp8 is refused with the known ones", "[fp8]") {
  CHECK_THROWS_WITH(parse_fp8_scaling("delaid"), "unknown scaling of fp8 \"delaid\"; did you mean \"delayed\"?");
  const auto stack = [](const std::string& more) {
    return read_stack(parse_document("{name: x, bucket: 25 MB, workspace: 0 B,\n" + more + "}", "stack.yaml"));
  };
  CHECK_THROWS_WITH(stack("fp8_scaling: rows"), Catch::Contains("stack.yaml:2") && Catch::Contains("row"));
  CHECK_THROWS_WITH(stack("fp8_maxima: all"), Catch::Contains("stack.yaml:2") && Catch::Contains("stage, tensor"));
}

}  // namespace models_test_fp8
