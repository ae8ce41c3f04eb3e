// Networks that are written as operators are equal to the families in C++, kernel by kernel, on any ranks and stack.
#include <catch2/catch.hpp>
#include <optional>

#include "tests/models/listed_families.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_listed_families {

using namespace trainyard;

namespace {

/// The numbers of a layer that decide its time, memory and bytes, in a fixed order.
class Figures {
 public:
  explicit Figures(const Layer& layer) {
    add_kernels(layer.forward);
    add_kernels(layer.backward);
    add_exchanges(layer.forward_exchanges);
    add_exchanges(layer.backward_exchanges);
    for (const BackwardKernel& kernel : layer.backward) add({double(kernel.for_weights)});
    for (const ParameterTensor& t : layer.parameters)
      add({t.elements, t.active_share, double(t.expert), double(t.partial), t.in, t.out, t.rows, double(t.frozen),
           t.stored.value, double(t.accumulated)});
    add({layer.activations().value, layer.kept_for_weights.value, layer.tied_elements, layer.attention.value,
         double(layer.delayed_products), layer.lasting.value, layer.output.value, double(layer.output_in_parts),
         layer.forward_transient.value, layer.backward_transient.value, double(layer.recomputed_exchanges),
         double(layer.recomputes_all)});
  }
  const std::vector<double>& all() const { return all_; }

 private:
  std::vector<double> all_;

  void add(std::initializer_list<double> figures) { all_.insert(all_.end(), figures); }
  template <class Kernels>
  void add_kernels(const Kernels& kernels) {
    add({double(kernels.size())});
    for (const KernelCall& k : kernels)
      add({k.work.flops.value, k.work.bytes.value, double(k.work.kernel), double(k.work.precision),
           double(k.work.launches), double(k.host_reads)});
  }
  void add_exchanges(const std::vector<Exchange>& exchanges) {
    add({double(exchanges.size())});
    for (const Exchange& e : exchanges)
      add({double(e.axis), double(e.kind), e.bytes.value, double(e.kernels_before), double(e.needed_by), e.hidden_share,
           double(e.returns), double(e.for_weights)});
  }
};

struct Plan {
  const char* name;
  Sharding sharding;
};

std::vector<Plan> plans() {
  std::vector<Plan> all{{"one rank", {}}};
  const auto plan = [&all](const char* name, LayerDegrees degrees, SplitRules rules = {}) {
    all.push_back({name, {degrees, std::move(rules)}});
  };
  plan("tensor", {.tensor = 4});
  plan("tensor and sequence", {.tensor = 4}, {.sequence = true});
  plan("overlapped exchanges", {.tensor = 2}, {.sequence = true, .overlap = true, .user_buffers = 0.5});
  plan("context", {.context = 2});
  plan("context, all-to-all", {.context = 2}, {.context_exchange = ContextExchange::all_to_all});
  plan("tensor, sequence and context", {.tensor = 2, .context = 2}, {.sequence = true});
  plan("experts", {.expert = 4}, {.expert_imbalance = 1.2});
  plan("experts and tensor", {.tensor = 2, .expert = 4}, {.sequence = true});
  plan("whole experts", {.tensor = 2, .expert = 4, .expert_tensor = 1}, {.sequence = true});
  plan("dispatcher", {.expert = 4}, {.one_row_a_rank = true, .fp8_dispatch = true});
  for (const Recompute recompute : {Recompute::selective, Recompute::full, Recompute::operators})
    plan(name_of(recompute), {.tensor = 2}, {.sequence = true, .recompute = recompute});
  SplitRules parts{.sequence = true};
  for (const RecomputedPart part :
       {RecomputedPart::layernorm, RecomputedPart::mlp, RecomputedPart::moe_act, RecomputedPart::moe}) {
    parts.remade = {};
    parts.remade[static_cast<std::size_t>(part)] = true;
    plan("parts", {.tensor = 2}, parts);
  }
  return all;
}

/// Stacks, and the scaling of their products in fp8 or below; none: of 16 bits.
const std::vector<std::pair<std::string, std::optional<Fp8Scaling>>>& stacks() {
  static const std::vector<std::pair<std::string, std::optional<Fp8Scaling>>> all{
      {"", {}},
      {"megatron-core", {}},
      {"megatron-2022", {}},
      {"torchtitan", {}},
      {"pytorch-ddp", {}},
      {"pytorch-autocast", {}},
      {"megatron-core", Fp8Scaling::delayed},
      {"nemo", Fp8Scaling::current},
      {"megatron-bridge", Fp8Scaling::block},
      {"megatron-bridge", Fp8Scaling::nvfp4},
      {"torchtitan", Fp8Scaling::row}};
  return all;
}

TransformerOptions options_of(const std::string& stack, std::optional<Fp8Scaling> scaling, const Sharding& sharding) {
  TransformerOptions options;
  if (!stack.empty()) static_cast<Fusions&>(options) = catalog_stack(stack);
  options.fp8 = scaling.has_value();
  if (options.fp8) options.fp8_scaling = *scaling;
  options.sharding = sharding;
  return options;
}

}  // namespace

TEST_CASE("a network that is written as operators has the kernels, exchanges and tensors of its family",
          "[network][operators]") {
  int compared = 0;
  for (const test::ListedFamily& family : test::listed_families()) {
    const TransformerConfig config = parsed_config(family.config), operators = parsed_config(family.operators);
    for (const Plan& plan : plans())
      for (const auto& [stack, scaling] : stacks()) {
        const TransformerOptions options = options_of(stack, scaling, plan.sharding);
        CAPTURE(family.name, plan.name, stack, options.fp8, static_cast<int>(options.fp8_scaling));
        const auto network_of = [&](const TransformerConfig& c) {
          return transformer_network(c, 4, 512, Precision::bf16, options);
        };
        Network expected;
        try {
          expected = network_of(config);
        } catch (const UserError&) {  // the family refuses the plan: it has no experts, or no operators to keep
          continue;
        }
        const Network listed = network_of(operators);
        ++compared;
        REQUIRE(listed.layers.size() == expected.layers.size());
        CHECK(listed.parameters() == expected.parameters());
        CHECK(listed.active_parameters() == Approx(expected.active_parameters()).epsilon(1e-12));
        CHECK(listed.tables == expected.tables);
        CHECK(listed.routing.experts == expected.routing.experts);
        CHECK(gradients_are_ready_once(listed));
        for (std::size_t i = 0; i < expected.layers.size(); ++i) {
          CAPTURE(listed.layers[i].name);
          const std::vector<double> a = Figures(listed.layers[i]).all(), b = Figures(expected.layers[i]).all();
          std::size_t unlike = a.size() == b.size() ? 0 : 1;
          for (std::size_t k = 0; k < std::min(a.size(), b.size()); ++k)
            if (std::abs(a[k] - b[k]) > 1e-12 * std::max(std::abs(a[k]), std::abs(b[k]))) ++unlike;
          if (unlike > 0) {
            CAPTURE(names(listed.layers[i].forward), names(expected.layers[i].forward));
            CAPTURE(names(listed.layers[i].backward), names(expected.layers[i].backward));
            CAPTURE(a, b);
            CHECK(unlike == 0);
          }
        }
      }
  }
  CHECK(compared > 400);
}

}  // namespace models_test_listed_families
