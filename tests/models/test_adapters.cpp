#include <algorithm>
#include <catch2/catch.hpp>

#include "models/networks/transformers/transformer.hpp"
#include "models/software/training_memory.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_adapters {

using namespace trainyard;

namespace {

constexpr double kHidden = 1024, kWidth = 2816, kRank = 16;
const char* const kConfig = R"({model_type: llama, vocab_size: 4096, num_hidden_layers: 2, hidden_size: 1024,
  num_attention_heads: 16, num_key_value_heads: 16, intermediate_size: 2816, max_position_embeddings: 2048})";

Network adapted_llama(const Adapters& adapters) {
  TransformerOptions options;
  options.adapters = adapters;
  options.fused_projections = true;
  return transformer_network(parsed_config(kConfig), 2, 512, Precision::bf16, options);
}
Adapters adapters_on(std::array<bool, kLinearParts> parts) { return {static_cast<int>(kRank), parts}; }

double trained_elements(const Network& network) {
  double elements = 0;
  for (const Layer& layer : network.layers)
    for (const ParameterTensor& tensor : layer.parameters) elements += tensor.frozen ? 0 : tensor.elements;
  return elements;
}
Flops products(const Network& network, const std::string& ending) {
  Flops sum;
  for (const Layer& layer : network.layers)
    for (const BackwardKernel& kernel : layer.backward)
      if (kernel.name.size() > ending.size() && kernel.name.ends_with(ending)) sum += kernel.work.flops;
  return sum;
}
HeldElements elements_of(const Network& network) {
  std::vector<const Layer*> layers;
  for (const Layer& layer : network.layers) layers.push_back(&layer);
  return held_elements(layers, {}, {});
}

}  // namespace

TEST_CASE("adapters alone are trained", "[lora]") {
  const Network without_adapters = adapted_llama({});
  const Network attention = adapted_llama(adapters_on({false, true, true, false, false}));
  const double attention_elements = kRank * ((kHidden + 3 * kHidden) + (kHidden + kHidden));
  CHECK(trained_elements(attention) == 2 * attention_elements);
  CHECK(attention.parameters() == without_adapters.parameters() + 2 * attention_elements);
  const Network all = adapted_llama(adapters_on({false, true, true, true, true}));
  CHECK(trained_elements(all) == 2 * (attention_elements + kRank * ((kHidden + 2 * kWidth) + (kWidth + kHidden))));

  // Frozen matrices have no weight gradients, but gradients of their inputs remain.
  CHECK(products(attention, "qkv.wgrad").value == 0);
  CHECK(products(attention, "lora_a.wgrad").value == Approx(2 * 2 * 1024 * kRank * (kHidden + kHidden)).epsilon(1e-12));
  CHECK(products(attention, "gate_up.dgrad").value == products(without_adapters, "gate_up.dgrad").value);
  CHECK(attention.backward_flops().value < 0.7 * without_adapters.backward_flops().value);
  CHECK(attention.model_flops_per_token().value ==
        Approx(4 * without_adapters.parameters() + 6 * 2 * attention_elements).epsilon(1e-12));

  const HeldElements memory = elements_of(attention);
  CHECK(memory.parameters == attention.parameters());
  CHECK(memory.gradients == trained_elements(attention));
  CHECK(memory.optimizer == trained_elements(attention));
}

TEST_CASE("the input of a frozen matrix is kept if an adapter reads it", "[lora]") {
  const auto kept = [](const Network& network, const std::string& name) {
    for (const KeptTensor& tensor : network.layers[1].saved_tensors)
      if (tensor.name == name) return true;
    return false;
  };
  const Network attention = adapted_llama(adapters_on({false, true, true, false, false}));
  CHECK(kept(attention, "qkv.input"));
  CHECK(kept(attention, "qkv.lora_hidden"));
  CHECK(!kept(attention, "down.input"));
  CHECK(kept(adapted_llama({}), "down.input"));
}

TEST_CASE("a base in four bits takes less memory and is widened for each product", "[lora]") {
  Adapters adapters = adapters_on({false, true, true, true, true});
  const HeldElements plain = elements_of(adapted_llama(adapters));
  adapters.base = Adapters::Base::nf4;
  const Network network = adapted_llama(adapters);
  const HeldElements quantized = elements_of(network);
  const double matrices = 2 * (4 * kHidden * kHidden + 3 * kHidden * kWidth);
  CHECK(quantized.narrow == matrices);
  CHECK(plain.narrow == 0);
  const auto bytes = [](const HeldElements& elements) {
    return model_states(elements, Precision::bf16, find_optimizer("adamw", {})).parameters.value;
  };
  CHECK(bytes(plain) - bytes(quantized) == Approx(matrices * (2 - 4.127 / 8)).epsilon(1e-12));
  int forward = 0, backward = 0;
  for (const KernelCall& kernel : network.layers[1].forward) forward += kernel.name.ends_with(".dequantize") ? 1 : 0;
  for (const KernelCall& kernel : network.layers[1].backward) backward += kernel.name.ends_with(".dequantize") ? 1 : 0;
  CHECK(forward == 4);
  CHECK(backward == 4);
}

TEST_CASE("a base that is quantized once has no further copies for products in nvfp4", "[lora]") {
  TransformerOptions options;
  options.adapters = adapters_on({false, true, true, true, true});
  options.fp8 = true;
  options.fp8_scaling = Fp8Scaling::nvfp4;
  const auto network = [&](Adapters::Base base) {
    options.adapters.base = base;
    return transformer_network(catalog_config("llama-2-7b"), 1, 64, Precision::bf16, options);
  };
  const Network fp8 = network(Adapters::Base::fp8), once = network(Adapters::Base::nvfp4);
  const auto copies = [](const Network& n) { return n.layers[1].lasting.value; };
  const double matrices = 4 * 4096.0 * 4096 + 3 * 4096.0 * 11008;
  CHECK(copies(fp8) == Approx(matrices * 2 * (0.5 + 1.0 / 16)).epsilon(1e-12));
  CHECK(copies(once) == 0);
  CHECK(elements_of(once).narrow_bytes.value == Approx(32 * matrices * 1.125).epsilon(1e-12));
  options.fp8_scaling = Fp8Scaling::delayed;  // products in fp8 cannot read it
  CHECK(std::ranges::any_of(network(Adapters::Base::nvfp4).layers[1].forward,
                            [](const KernelCall& kernel) { return kernel.name.ends_with(".dequantize"); }));
}

TEST_CASE("fused operations leave out the sums of adapters and the casts beside gated activations", "[lora][fusions]") {
  TransformerOptions options;
  options.adapters = adapters_on({false, true, true, false, false});
  options.fp8 = options.fused_projections = options.fused_gated_activation = options.fp8_any_layout = true;
  const auto layer = [&] {
    return transformer_network(catalog_config("llama-2-7b"), 1, 64, Precision::bf16, options).layers[1];
  };
  const auto bytes = [](const auto& kernels, const std::string& name) {
    for (const auto& kernel : kernels)
      if (kernel.name == name) return kernel.work.bytes.value;
    return 0.0;
  };
  const Layer apart = layer();
  options.fused_operations = true;
  const Layer fused = layer();
  for (const char* kernel : {"qkv.lora_add", "projection.lora_add", "down.cast"}) {
    CAPTURE(kernel);
    CHECK(bytes(apart.forward, kernel) > 0);
    CHECK(bytes(fused.forward, kernel) == 0);
  }
  for (const char* kernel : {"qkv.lora_gradient_sum", "gate_up.gradient_cast"}) {
    CAPTURE(kernel);
    CHECK(bytes(apart.backward, kernel) > 0);
    CHECK(bytes(fused.backward, kernel) == 0);
  }
  const double width = 64 * 11008.0;  // elements of a gated activation
  CHECK(bytes(apart.forward, "silu_mul") - bytes(fused.forward, "silu_mul") == width);
  CHECK(bytes(apart.backward, "silu_mul.backward") - bytes(fused.backward, "silu_mul.backward") == 2 * width);
  CHECK(bytes(fused.forward, "qkv.lora_b") - bytes(apart.forward, "qkv.lora_b") == 2 * 64 * 3 * 4096.0);
  CHECK(fused.activations() == apart.activations());
  options.fp8_scaling = Fp8Scaling::current;  // the maximum is not known before
  CHECK(bytes(layer().forward, "down.cast") > 0);
}

}  // namespace models_test_adapters
