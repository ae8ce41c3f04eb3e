#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "models/networks/transformers/transformer.hpp"
#include "sim/error.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_sharding {

using namespace trainyard;

namespace {

constexpr std::int64_t kSeq = 512, kSamples = 4;
const char* const kGpt =
    R"({model_type: gpt2, vocab_size: 4096, n_layer: 2, n_embd: 1024, n_head: 16, n_positions: 1024})";
const char* const kLlama = R"({model_type: llama, vocab_size: 4096, num_hidden_layers: 2, hidden_size: 1024,
  num_attention_heads: 16, num_key_value_heads: 8, intermediate_size: 2816, max_position_embeddings: 2048})";
const char* const kExperts = R"({model_type: qwen2_moe, vocab_size: 4096, num_hidden_layers: 1, hidden_size: 512,
  num_attention_heads: 8, num_key_value_heads: 8, intermediate_size: 1024, max_position_embeddings: 2048,
  num_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 256, shared_expert_intermediate_size: 512})";

Network sharded_network(const char* config, const Sharding& sharding, TransformerOptions options = {}) {
  options.sharding = sharding;
  return transformer_network(parsed_config(config), kSamples, kSeq, Precision::bf16, options);
}

template <class Kernels>
int index_of(const Kernels& kernels, const std::string& name) {
  for (std::size_t i = 0; i < kernels.size(); ++i)
    if (kernels[i].name == name) return static_cast<int>(i);
  throw UserError("no kernel " + name);
}
}  // namespace

TEST_CASE("tensor ranks share FLOPs exactly, and all parameters except the replicated ones", "[sharding]") {
  const std::set<std::string> whole_everywhere{"projection.bias", "fc2.bias", "position_embedding.weight"};
  for (const char* config : {kGpt, kLlama, kExperts}) {
    const Network one = sharded_network(config, {});
    for (const bool sequence : {false, true}) {
      const Network part = sharded_network(config, {{.tensor = 4}, {.sequence = sequence}});
      CHECK(gradients_are_ready_once(part));
      for (std::size_t i = 0; i < one.layers.size(); ++i) {
        const Layer &a = one.layers[i], &b = part.layers[i];
        INFO(a.name);
        CHECK(in_order(b.forward_exchanges, b.forward.size()));
        CHECK(in_order(b.backward_exchanges, b.backward.size()));
        if (config != kExperts) {  // each rank routes all tokens
          CHECK(b.forward_flops().value * 4 == a.forward_flops().value);
          CHECK(b.backward_flops().value * 4 == a.backward_flops().value);
        }
        REQUIRE(a.parameters.size() == b.parameters.size());
        for (const ParameterTensor& tensor : b.parameters) {
          const auto same = std::ranges::find_if(
              a.parameters, [&](const ParameterTensor& other) { return other.name == tensor.name; });
          INFO(tensor.name);
          REQUIRE(same != a.parameters.end());
          const bool scale = tensor.name == "router.weight" || tensor.name == "shared.scale.weight";
          const bool whole =
              scale || whole_everywhere.count(tensor.name) || tensor.name.find("norm") != std::string::npos;
          CHECK(tensor.elements * (whole ? 1 : 4) == same->elements);
          CHECK(tensor.partial == (whole && (sequence || scale)));
        }
      }
    }
  }
}

TEST_CASE("a block sums its tokens twice in each pass (seed TP-01)", "[sharding]") {
  const Network one = sharded_network(kGpt, {}), two = sharded_network(kGpt, {{.tensor = 2}, {}});
  const Layer& block = two.layers[1];
  CHECK(names(block.forward_exchanges) == std::vector<std::string>{"attention.reduce", "mlp.reduce"});
  CHECK(names(block.backward_exchanges) ==
        std::vector<std::string>{"mlp.reduce.backward", "attention.reduce.backward"});
  for (const auto* pass : {&block.forward_exchanges, &block.backward_exchanges})
    for (const Exchange& exchange : *pass) {
      CHECK(exchange.kind == ExchangeKind::all_reduce);
      CHECK(exchange.axis == Axis::tensor);
      CHECK(exchange.bytes.value == 4194304);
    }
  double mine = 0, all = 0;
  for (const ParameterTensor& tensor : block.parameters) mine += tensor.in > 0 ? tensor.elements : 0;
  for (const ParameterTensor& tensor : one.layers[1].parameters) all += tensor.in > 0 ? tensor.elements : 0;
  CHECK(mine / all == 0.5);
  CHECK(names(two.layers[0].forward_exchanges) == std::vector<std::string>{"embedding.reduce"});
  CHECK(two.layers[0].backward_exchanges.empty());
  const Layer& head = two.layers.back();
  CHECK(names(head.forward_exchanges) == std::vector<std::string>{"head.maximum", "head.sums"});
  CHECK(head.forward_exchanges[0].bytes.value == 4 * kSeq * kSamples);
  CHECK(head.forward_exchanges[1].bytes.value == 8 * kSeq * kSamples);
  CHECK(names(head.backward_exchanges) == std::vector<std::string>{"head.reduce.backward"});
}

TEST_CASE("sequence parallelism moves the same volume, and gathers inputs once more", "[sharding]") {
  const Layer block = sharded_network(kGpt, {{.tensor = 2}, {.sequence = true}}).layers[1];
  CHECK(names(block.forward_exchanges) ==
        std::vector<std::string>{"attention.gather", "attention.scatter", "mlp.gather", "mlp.scatter"});
  CHECK(names(block.backward_exchanges) == std::vector<std::string>{"mlp.scatter.backward", "mlp.regather",
                                                                    "mlp.gather.backward", "attention.scatter.backward",
                                                                    "attention.regather", "attention.gather.backward"});
  double forward = 0, backward = 0;  // an all-reduce is a reduce-scatter and an all-gather of the same bytes
  for (const Exchange& e : block.forward_exchanges) forward += e.bytes.value;
  for (const Exchange& e : block.backward_exchanges) backward += e.for_weights ? 0 : e.bytes.value;
  CHECK(forward == 2 * 2 * 4194304.0);
  CHECK(backward == forward);
  const Exchange& regather = exchange_of(block.backward_exchanges, "mlp.regather");
  CHECK(regather.for_weights);
  CHECK(regather.kind == ExchangeKind::all_gather);
  CHECK(regather.kernels_before == index_of(block.backward, "fc1.dgrad"));
  CHECK(regather.needed_by == index_of(block.backward, "fc1.wgrad"));
  const std::vector<Layer> layers = sharded_network(kGpt, {{.tensor = 2}, {.sequence = true}}).layers;
  CHECK(names(layers[0].forward_exchanges) == std::vector<std::string>{"embedding.scatter"});
  CHECK(names(layers[0].backward_exchanges) == std::vector<std::string>{"embedding.gather"});
  CHECK(layers[0].backward_exchanges[0].kernels_before == index_of(layers[0].backward, "token_embedding.backward"));
  CHECK(names(layers.back().forward_exchanges) == std::vector<std::string>{"head.gather", "head.maximum", "head.sums"});
  CHECK(names(layers.back().backward_exchanges) == std::vector<std::string>{"head.regather", "head.gather.backward"});
  CHECK(layers[0].output.value == 4194304.0 / 2);
}

TEST_CASE("gradients are exchanged before the kernels of weights, and with overlap during them", "[sharding]") {
  for (const bool overlap : {false, true}) {
    const Layer block = sharded_network(kGpt, {{.tensor = 2}, {.sequence = true, .overlap = overlap}}).layers[1];
    const Exchange& out = exchange_of(block.backward_exchanges, "mlp.gather.backward");
    CHECK(out.kernels_before == index_of(block.backward, "fc1.dgrad") + 1);
    const int after_weights = index_of(block.backward, "fc1.bias_grad") + 1;
    CHECK(out.needed_by == (overlap ? after_weights : out.kernels_before));
    CHECK(block.backward[static_cast<std::size_t>(out.kernels_before)].for_weights);
  }
  // Three linear layers add their gradients first: no kernel is left to overlap with.
  const Layer separate = sharded_network(kLlama, {{.tensor = 2}, {.overlap = true}}).layers[1];
  const Exchange& out = exchange_of(separate.backward_exchanges, "attention.reduce.backward");
  CHECK(out.kernels_before == out.needed_by);
  CHECK(out.kernels_before == index_of(separate.backward, "attention_norm.input_grad"));
  TransformerOptions fused;
  fused.fused_projections = true;
  const Layer one = sharded_network(kLlama, {{.tensor = 2}, {.overlap = true}}, fused).layers[1];
  CHECK(exchange_of(one.backward_exchanges, "attention.reduce.backward").kernels_before ==
        index_of(one.backward, "qkv.wgrad"));
  CHECK(exchange_of(one.backward_exchanges, "mlp.reduce.backward").needed_by ==
        index_of(one.backward, "mlp_norm.input_grad"));
  CHECK(one.parameter_elements() == separate.parameter_elements());
}

TEST_CASE("the activations of a layer follow Korthikanti et al., table 2", "[sharding]") {
  const double s = kSeq, b = kSamples, h = 1024, a = 16, t = 4, sbh = s * b * h;
  const TransformerOptions options = without_flash_attention();
  const auto kept = [&](Sharding sharding) {
    return sharded_network(kGpt, sharding, options).layers[1].activations().value;
  };
  const double statistics = 2 * 8 * s * b;  // statistics of two norms in fp32, which are not in the paper
  CHECK(kept({}) == sbh * (34 + 5 * a * s / h) + statistics);
  CHECK(kept({{.tensor = 4}, {}}) == sbh * (10 + 24 / t + 5 * a * s / (h * t)) + statistics);
  CHECK(kept({{.tensor = 4}, {.sequence = true}}) == sbh / t * (34 + 5 * a * s / h) + statistics / t);
  CHECK(kept({{.tensor = 4}, {.sequence = true, .recompute = Recompute::selective}}) == sbh * 34 / t + statistics / t);
  CHECK(kept({{.tensor = 4}, {.recompute = Recompute::full}}) == 2 * sbh);
  CHECK(kept({{.tensor = 4}, {.sequence = true, .recompute = Recompute::full}}) == 2 * sbh / t);
}

TEST_CASE("recomputation runs kernels again, and needs their memory then", "[sharding]") {
  const TransformerOptions options = without_flash_attention();
  const Sharding plain{{.tensor = 2}, {.sequence = true}};
  Sharding selective = plain, full = plain;
  selective.recompute = Recompute::selective;
  full.recompute = Recompute::full;
  const Layer none = sharded_network(kGpt, plain, options).layers[1];
  const Layer core = sharded_network(kGpt, selective, options).layers[1];
  const Layer all = sharded_network(kGpt, full, options).layers[1];

  CHECK(core.forward.size() == none.forward.size());
  CHECK(core.backward_flops().value - none.backward_flops().value ==
        work_of(none.forward, "scores").flops.value + work_of(none.forward, "context").flops.value);
  CHECK(index_of(core.backward, "scores") < index_of(core.backward, "context.left_grad"));
  CHECK(index_of(core.backward, "projection.wgrad") < index_of(core.backward, "scores"));
  CHECK(core.recomputed_exchanges == 0);
  const auto peak = [](const Layer& layer) { return (layer.activations() + layer.backward_transient).value; };
  CHECK(peak(core) <= peak(none));

  CHECK(all.backward.size() == none.forward.size() + none.backward.size());
  CHECK(all.backward_flops() == none.forward_flops() + none.backward_flops());
  CHECK(all.recomputes_all);
  CHECK(all.recomputed_exchanges == 4);
  REQUIRE(all.backward_exchanges.size() == none.forward_exchanges.size() + none.backward_exchanges.size());
  CHECK(all.backward_exchanges[4].kernels_before ==
        none.backward_exchanges[0].kernels_before + static_cast<int>(none.forward.size()));
  CHECK(in_order(all.backward_exchanges, all.backward.size()));
  CHECK(peak(all) >= peak(none));  // the layer's own tensors exist again
  CHECK(peak(all) <= peak(none) + none.output.value);
  CHECK(all.forward_transient < none.activations());
}

TEST_CASE("context ranks send keys and values round, or trade heads for tokens", "[sharding]") {
  const Network one = sharded_network(kLlama, {}), ring = sharded_network(kLlama, {{.context = 4}, {}});
  const Layer& block = ring.layers[1];
  CHECK(block.forward_flops().value * 4 == one.layers[1].forward_flops().value);
  CHECK(block.backward_flops().value * 4 == one.layers[1].backward_flops().value);
  const int first = index_of(block.forward, "attention 0");
  const Exchange& keys = exchange_of(block.forward_exchanges, "attention.keys.1");
  CHECK(keys.kernels_before == first + 1);
  CHECK(keys.needed_by == first + 2);
  CHECK(keys.kind == ExchangeKind::ring_shift);
  CHECK(keys.bytes.value == 2 * 2 * kSamples * kSeq / 4 * 512);
  CHECK(block.forward_exchanges.size() == 3);
  CHECK(block.backward_exchanges.size() == 3 + 4);
  const int back = index_of(block.backward, "attention.backward 0");
  CHECK(exchange_of(block.backward_exchanges, "attention.keys.0.backward").kernels_before == back);
  const Exchange& home = exchange_of(block.backward_exchanges, "attention.key_gradients.3");
  CHECK(home.kernels_before == back + 4);
  CHECK(home.needed_by == back + 4);
  CHECK(exchange_of(block.backward_exchanges, "attention.key_gradients.1").needed_by == back + 3);
  CHECK(in_order(block.backward_exchanges, block.backward.size()));

  const Layer heads =
      sharded_network(kLlama, {{.tensor = 2, .context = 4}, {.context_exchange = ContextExchange::all_to_all}})
          .layers[1];
  CHECK(heads.forward_flops().value * 8 == one.layers[1].forward_flops().value);
  CHECK(names(heads.forward_exchanges) ==
        std::vector<std::string>{"attention.heads", "attention.tokens", "attention.reduce", "mlp.reduce"});
  CHECK(exchange_of(heads.forward_exchanges, "attention.heads").bytes.value ==
        2 * kSamples * kSeq / 4 * (512 + 2 * 256));
  CHECK(exchange_of(heads.backward_exchanges, "attention.tokens.backward").bytes.value ==
        2 * kSamples * kSeq / 4 * 512);
}

TEST_CASE("a recomputed ring sends keys and values round once more", "[sharding]") {
  const Layer none = sharded_network(kLlama, {{.context = 4}, {}}).layers[1],
              again = sharded_network(kLlama, {{.context = 4}, {.recompute = Recompute::selective}}).layers[1];
  CHECK(names(again.forward_exchanges) == names(none.forward_exchanges));
  std::vector<std::string> expected = names(none.forward_exchanges);
  for (const std::string& name : names(none.backward_exchanges)) expected.push_back(name);
  CHECK(names(again.backward_exchanges) == expected);
  CHECK(in_order(again.backward_exchanges, again.backward.size()));
  double attention = 0;
  for (int i = 0; i < 4; ++i) attention += work_of(none.forward, "attention " + std::to_string(i)).flops.value;
  CHECK(again.backward_flops().value - none.backward_flops().value == attention);
  const int first = index_of(again.backward, "attention 0");
  CHECK(exchange_of(again.backward_exchanges, "attention.keys.1").kernels_before == first + 1);
  CHECK(exchange_of(again.backward_exchanges, "attention.keys.1").needed_by == first + 2);
  CHECK(index_of(again.backward, "attention.merge.3") < index_of(again.backward, "attention.backward 0"));
  // Three of four steps merge sums of the softmax and the output, and gradients of queries, keys and values.
  const auto merges = [](const auto& kernels) {
    return std::count_if(kernels.begin(), kernels.end(),
                         [](const auto& k) { return k.name.find("merge.") != k.name.npos; });
  };
  CHECK(merges(none.forward) == 6);
  CHECK(merges(none.backward) == 9);
  CHECK(again.activations() < none.activations());
  CHECK((again.activations() + again.backward_transient).value <=
        (none.activations() + none.backward_transient).value * (1 + 1e-12));
}

TEST_CASE("experts are spread over ranks, and rows are sent to them", "[sharding]") {
  const Layer one = sharded_network(kExperts, {}).layers[1],
              spread = sharded_network(kExperts, {{.expert = 4}, {}}).layers[1];
  CHECK(names(spread.forward_exchanges) == std::vector<std::string>{"experts.dispatch", "experts.return"});
  CHECK(names(spread.backward_exchanges) ==
        std::vector<std::string>{"experts.return.backward", "experts.dispatch.backward"});
  for (const Exchange& e : spread.forward_exchanges) {
    CHECK(e.axis == Axis::expert);
    CHECK(e.bytes.value == 2.0 * kSamples * kSeq * 2 * 512);
  }
  double experts = 0, whole = 0;
  for (const ParameterTensor& t : spread.parameters) experts += t.expert ? t.elements : 0;
  for (const ParameterTensor& t : one.parameters) whole += t.expert ? t.elements : 0;
  CHECK(whole == 8.0 * 3 * 512 * 256);
  CHECK(experts * 4 == whole);
  CHECK(spread.forward_flops() == one.forward_flops());

  const auto rows = [](double imbalance, double capacity) {
    const Layer layer =
        sharded_network(kExperts, {{.expert = 4}, {.expert_imbalance = imbalance, .expert_capacity = capacity}})
            .layers[1];
    return work_of(layer.forward, "experts.gate").flops.value;
  };
  CHECK(rows(1.5, 0) == 1.5 * rows(1, 0));
  CHECK(rows(1.5, 1.25) == 1.25 * rows(1, 0));
  // The fullest of four drops 0.25 of 4 means; below the mean all others drop too: 0.5 and 3 (5/6 - 0.5).
  CHECK(rows_within_capacity({{.expert = 4}, {.expert_imbalance = 1.5, .expert_capacity = 1.25}}) ==
        Approx(3.75 / 4).epsilon(1e-12));
  CHECK(rows_within_capacity({{.expert = 4}, {.expert_imbalance = 1.5, .expert_capacity = 0.5}}) ==
        Approx(0.5).epsilon(1e-12));
  CHECK(rows_within_capacity({{}, {.expert_capacity = 0.75}}) == 0.75);
  CHECK(rows_within_capacity({{.expert = 4}, {.expert_imbalance = 4}}) == 1);
  const Layer limited = sharded_network(kExperts, {{.expert = 4}, {.expert_capacity = 0.5}}).layers[1];
  CHECK(limited.forward_exchanges[0].bytes.value == 0.5 * spread.forward_exchanges[0].bytes.value);

  // Loads of eight experts, two on each of four ranks: the fullest rank has 4 of 12.
  const std::vector<double> loads{3, 1, 2, 2, 1, 1, 1, 1};
  const auto of_rank = [&](int rank, double capacity) {
    return sharded_network(kExperts,
                           {{.expert = 4}, {.expert_loads = loads, .expert_rank = rank, .expert_capacity = capacity}})
        .layers[1];
  };
  const auto flops_of_rank = [&](int rank, double capacity) {
    return work_of(of_rank(rank, capacity).forward, "experts.gate").flops.value;
  };
  CHECK(unequal_expert_loads({{.expert = 4}, {.expert_loads = loads}}).size() == 4);
  CHECK(unequal_expert_loads({{.expert = 1}, {.expert_loads = loads}}).empty());
  CHECK(fullest_expert_rank({{.expert = 4}, {.expert_loads = loads}}) == Approx(4.0 / 3).epsilon(1e-12));
  CHECK(rows_within_capacity({{.expert = 4}, {.expert_loads = loads}}) == 1);
  CHECK(flops_of_rank(-1, 0) == Approx(4.0 / 3 * rows(1, 0)).epsilon(1e-12));
  CHECK(flops_of_rank(0, 0) == Approx(flops_of_rank(-1, 0)).epsilon(1e-12));
  CHECK(flops_of_rank(3, 0) == Approx(2.0 / 3 * rows(1, 0)).epsilon(1e-12));
  // A capacity of the mean holds for each expert: the first rank keeps 1.5 + 1 of 4.
  CHECK(flops_of_rank(0, 1) == Approx(2.5 / 3 * rows(1, 0)).epsilon(1e-12));
  CHECK(rows_within_capacity({{.expert = 4}, {.expert_loads = loads, .expert_capacity = 1}}) ==
        Approx((2.5 + 3 + 2 + 2) / 12).epsilon(1e-12));
  // All ranks name the bytes of the fullest one; the groups divide them by the loads.
  for (const int rank : {0, 3})
    CHECK(of_rank(rank, 0).forward_exchanges[0].bytes.value ==
          Approx(4.0 / 3 * spread.forward_exchanges[0].bytes.value).epsilon(1e-12));

  const Layer both = sharded_network(kExperts, {{.tensor = 2, .expert = 4}, {.sequence = true}}).layers[1];
  CHECK(names(both.forward_exchanges) == std::vector<std::string>{"attention.gather", "attention.scatter", "mlp.gather",
                                                                  "experts.dispatch", "experts.return", "mlp.scatter"});
  CHECK(names(both.backward_exchanges) ==
        std::vector<std::string>{"mlp.scatter.backward", "mlp.regather", "experts.return.backward",
                                 "experts.dispatch.backward", "mlp.gather.backward", "attention.scatter.backward",
                                 "attention.regather", "attention.gather.backward"});
}

TEST_CASE("shardings that do not divide a network are refused with the broken rule", "[sharding]") {
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(sharded_network(kLlama, {{.tensor = 3}, {}}), Contains("they must divide the 16 attention heads"));
  CHECK_THROWS_WITH(sharded_network(kLlama, {{.tensor = 16}, {}}), Contains("8 key-value heads"));
  CHECK_THROWS_WITH(sharded_network(kLlama, {{}, {.sequence = true}}),
                    Contains("sequence parallelism is over the tensor axis"));
  CHECK_THROWS_WITH(sharded_network(kLlama, {{.context = 3}, {}}), Contains("cut into 6 equal blocks"));
  CHECK_THROWS_WITH(sharded_network(kLlama, {{.expert = 2}, {}}), Contains("has no experts"));
  CHECK_THROWS_WITH(sharded_network(kExperts, {{.expert = 3}, {}}), Contains("they must divide the 8 experts"));
  CHECK_THROWS_WITH(sharded_network(kExperts, {{.expert = 2}, {.expert_imbalance = 0.5}}), Contains("at least 1"));
  CHECK_THROWS_WITH(sharded_network(kExperts, {{.expert = 4}, {.expert_loads = {1, 2, 3}}}),
                    Contains("3 loads; expected 8, one for each expert, or 4, one for each expert rank"));
  CHECK_THROWS_WITH(
      sharded_network(kLlama, {{.tensor = 4, .context = 4}, {.context_exchange = ContextExchange::all_to_all}}),
      Contains("multiple of the ranks"));
  CHECK_THROWS_WITH(sharded_network(kLlama, {{.context = 2}, {.recompute = Recompute::operators}}),
                    Contains("expected none, selective or full"));
  TransformerOptions two;
  two.sharding.tensor = 2;
  CHECK_THROWS_WITH(transformer_network(catalog_config("t5-base"), 1, 128, Precision::bf16, two),
                    Contains("encoder-decoder"));
  const Network bert = transformer_network(catalog_config("bert-base"), 1, 128, Precision::bf16, two);
  CHECK(gradients_are_ready_once(bert));
  CHECK(names(bert.layers.back().backward_exchanges) == std::vector<std::string>{"head.reduce.backward"});
  CHECK_NOTHROW(transformer_network(catalog_config("vit-b-16"), 1, 197, Precision::bf16, two));
  two.sharding.sequence = true;
  CHECK_THROWS_WITH(transformer_network(catalog_config("bert-base"), 1, 128, Precision::bf16, two),
                    Contains("only the tensor axis"));
}

TEST_CASE("every family of the catalog can be recomputed, and makes every gradient once", "[sharding]") {
  for (const char* name : {"gpt2", "bert-base", "t5-base", "vit-b-16", "mixtral-8x7b", "deepseek-v2"}) {
    const TransformerConfig config = catalog_config(name);
    const std::int64_t seq = config.fixed_seq_length ? config.max_position_embeddings : 128;
    for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
      INFO(name);
      TransformerOptions options = without_flash_attention();
      const Network none = transformer_network(config, 1, seq, Precision::bf16, options);
      options.sharding.recompute = recompute;
      const Network again = transformer_network(config, 1, seq, Precision::bf16, options);
      CHECK(gradients_are_ready_once(again));
      CHECK(again.forward_flops() == none.forward_flops());
      CHECK(again.backward_flops() > none.backward_flops());
      CHECK(again.activations() < none.activations());
    }
  }
}

TEST_CASE("outputs of recomputed modules are freed, and the modules run again before the next kernel's gradient",
          "[sharding]") {
  const char* const latent = R"({model_type: deepseek_v3, vocab_size: 4096, num_hidden_layers: 1, hidden_size: 512,
    num_attention_heads: 8, num_key_value_heads: 8, intermediate_size: 1024, max_position_embeddings: 2048,
    q_lora_rank: 128, kv_lora_rank: 64, qk_nope_head_dim: 32, qk_rope_head_dim: 16, v_head_dim: 32,
    n_routed_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 256, n_group: 1, topk_group: 1})";
  TransformerOptions options;
  options.fused_projections = options.fused_gated_activation = true;
  const auto block = [&](RecomputedPart module) {
    Sharding sharding;
    if (module != RecomputedPart::none) sharding.remade[static_cast<std::size_t>(module)] = true;
    return sharded_network(latent, sharding, options).layers[1];
  };
  const Layer whole = block(RecomputedPart::none);
  const auto check = [&](RecomputedPart module, std::vector<std::string> gone, const std::string& again,
                         const std::string& before) {
    const Layer layer = block(module);
    Bytes left;
    for (const KeptTensor& tensor : whole.saved_tensors)
      if (std::find(gone.begin(), gone.end(), tensor.name) == gone.end()) left += tensor.bytes;
    CAPTURE(static_cast<int>(module));
    CHECK(layer.activations() == left);
    CHECK(layer.activations() < whole.activations());
    CHECK(index_of(layer.backward, again) < index_of(layer.backward, before));
    CHECK(layer.forward.size() == whole.forward.size());
  };
  check(RecomputedPart::layernorm, {"q_a.input", "router.input"}, "attention_norm", "q_a.dgrad");
  check(RecomputedPart::moe_act, {"experts.down.input"}, "experts.silu_mul", "experts.down.dgrad");
  check(RecomputedPart::mla_up_proj, {"attention.qkv"}, "kv_b", "attention.backward");
}

TEST_CASE("a recomputed activation of a dense feed-forward part keeps the inputs of the activation", "[sharding]") {
  TransformerOptions options;
  options.fused_projections = options.fused_gated_activation = true;
  const auto block = [&](bool again) {
    Sharding sharding;
    sharding.remade[static_cast<std::size_t>(RecomputedPart::mlp_act)] = again;
    return sharded_network(
               "{model_type: llama, vocab_size: 4096, num_hidden_layers: 1, hidden_size: 512, "
               "num_attention_heads: 8, intermediate_size: 1024, max_position_embeddings: 2048}",
               sharding, options)
        .layers[1];
  };
  const Layer kept = block(false), remade = block(true);
  Bytes product;
  for (const KeptTensor& tensor : kept.saved_tensors)
    if (tensor.name == "down.input") product += tensor.bytes;
  CHECK(product.value > 0);
  CHECK(remade.activations() == kept.activations() - product);
  CHECK(remade.forward.size() == kept.forward.size());
  CHECK(index_of(remade.backward, "silu_mul") < index_of(remade.backward, "down.dgrad"));
}

TEST_CASE("a recomputed dense feed-forward part keeps only its input, and runs again before its gradients",
          "[sharding]") {
  TransformerOptions options;
  options.fused_projections = options.fused_gated_activation = true;
  const auto block = [&](bool again) {
    Sharding sharding;
    sharding.remade[static_cast<std::size_t>(RecomputedPart::mlp)] = again;
    return sharded_network(kLlama, sharding, options).layers[1];
  };
  const Layer whole = block(false), again = block(true);
  const double tokens = kSamples * kSeq, gate_up_and_product = 3 * 2816;
  CHECK((whole.activations() - again.activations()).value == tokens * gate_up_and_product * 2);
  CHECK(again.forward.size() == whole.forward.size());
  CHECK(again.backward.size() == whole.backward.size() + 3);
  CHECK(index_of(again.backward, "gate_up") < index_of(again.backward, "silu_mul"));
  CHECK(index_of(again.backward, "silu_mul") < index_of(again.backward, "down.dgrad"));
}

}  // namespace models_test_sharding
