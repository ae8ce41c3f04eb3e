// MLPs and convolutional networks over the tensor axis.
#include <catch2/catch.hpp>

#include "models/networks/network_entry.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_split_products {

using namespace trainyard;

namespace {

const MlpShape kShape{{32, 64, 48, 64, 16}, MlpLoss::softmax_cross_entropy};

Network split(LinearSplit split_kind, int ranks, bool overlap = false) {
  Sharding sharding;
  sharding.tensor = ranks;
  sharding.linear_split = split_kind;
  sharding.overlap = overlap;
  return mlp_network(kShape, 8, Precision::fp64, sharding);
}
using Names = std::vector<std::string>;

Network catalog_cnn(const std::string& name, int ranks) {
  const Catalog catalog(std::string(TRAINYARD_SOURCE_DIR) + "/models/catalog");
  TransformerOptions options;
  options.sharding.tensor = ranks;
  return make_network(read_network_entry(catalog.resolve("network", Node::scalar_node(name))), 2, 1, Precision::fp32,
                      options);
}

}  // namespace

TEST_CASE("ranks share an MLP's products and weights, however it is split", "[sharding]") {
  const Network one = mlp_network(kShape, 8, Precision::fp64);
  for (const LinearSplit split_kind : {LinearSplit::pairs, LinearSplit::columns, LinearSplit::rows}) {
    const Network part = split(split_kind, 4);
    CHECK(part.forward_flops().value * 4 == one.forward_flops().value);
    CHECK(part.backward_flops().value * 4 == one.backward_flops().value);
    for (std::size_t i = 0; i < one.layers.size(); ++i) {
      const auto &a = one.layers[i].parameters, &b = part.layers[i].parameters;
      REQUIRE(b.size() == 2);
      CHECK(b[0].elements * 4 == a[0].elements);
      const bool rows = split_kind == LinearSplit::rows || (split_kind == LinearSplit::pairs && i % 2 == 1);
      CHECK(b[1].elements * (rows ? 1 : 4) == a[1].elements);
      CHECK_FALSE(b[1].partial);
    }
  }
}

TEST_CASE("an MLP in pairs has one sum for each pair and pass", "[sharding]") {
  const Network part = split(LinearSplit::pairs, 2);
  CHECK(part.layers[0].forward_exchanges.empty());
  CHECK(part.layers[0].backward_exchanges.empty());  // the gradient of the network's input is not needed
  CHECK(part.layers[0].output.value == 8 * 8 * 32);
  CHECK(names(part.layers[1].forward_exchanges) == Names{"linear.reduce"});
  CHECK(part.layers[1].forward_exchanges[0].bytes.value == 8 * 8 * 48);
  CHECK(part.layers[1].backward_exchanges.empty());
  CHECK(names(part.layers[2].backward_exchanges) == Names{"linear.reduce.backward"});
  CHECK(part.layers[2].backward_exchanges[0].bytes.value == 8 * 8 * 48);
  const Exchange waited = part.layers[2].backward_exchanges[0];
  const Exchange beside = split(LinearSplit::pairs, 2, true).layers[2].backward_exchanges[0];
  CHECK(waited.kernels_before == 2);  // tanh.backward, dgrad
  CHECK(waited.needed_by == 2);
  CHECK(beside.kernels_before == 2);
  CHECK(beside.needed_by == 4);  // wgrad, bias_grad

  MlpShape odd = kShape;
  odd.widths.pop_back();
  Sharding two;
  two.tensor = 2;
  const Layer last = mlp_network(odd, 8, Precision::fp64, two).layers.back();
  CHECK(names(last.forward_exchanges) == Names{"linear.gather"});
}

TEST_CASE("an MLP by columns gathers outputs, by rows gradients", "[sharding]") {
  const Network columns = split(LinearSplit::columns, 2), rows = split(LinearSplit::rows, 2);
  for (std::size_t i = 0; i < 4; ++i) {
    INFO(i);
    const Layer &c = columns.layers[i], &r = rows.layers[i];
    const double in = 8.0 * 8 * kShape.widths[i], out = 8.0 * 8 * kShape.widths[i + 1];
    CHECK(names(c.forward_exchanges) == Names{"linear.gather"});
    CHECK(c.forward_exchanges[0].bytes.value == out);
    CHECK(names(r.forward_exchanges) == Names{"linear.reduce"});
    CHECK(r.forward_exchanges[0].bytes.value == out);
    CHECK(names(c.backward_exchanges) == (i == 0 ? Names{} : Names{"linear.reduce.backward"}));
    CHECK(names(r.backward_exchanges) == (i == 0 ? Names{} : Names{"linear.gather.backward"}));
    if (i == 0) continue;
    CHECK(c.backward_exchanges[0].bytes.value == in);
    CHECK(r.backward_exchanges[0].bytes.value == in);
    CHECK(r.backward_exchanges[0].kind == ExchangeKind::all_gather);
  }
  CHECK_THROWS_WITH(split(LinearSplit::columns, 5), Catch::Matchers::Contains("they must divide width 1, which is 64"));
  Sharding sequence;
  sequence.tensor = 2;
  sequence.sequence = true;
  CHECK_THROWS_AS(mlp_network(kShape, 8, Precision::fp64, sequence), UserError);
}

TEST_CASE("a convolutional network is split by output channels", "[sharding]") {
  const Network one = catalog_cnn("vgg16", 1), four = catalog_cnn("vgg16", 4);
  CHECK(four.forward_flops().value * 4 == one.forward_flops().value);
  CHECK(four.backward_flops().value * 4 == one.backward_flops().value);
  CHECK(four.parameters() * 4 == one.parameters());
  const Layer& second = four.layers[1];
  CHECK(names(second.forward_exchanges) == Names{"conv1.gather"});
  CHECK(names(second.backward_exchanges) == Names{"conv1.reduce.backward"});
  CHECK(second.forward_exchanges[0].bytes.value == 2.0 * 4 * 64 * 224 * 224);
  CHECK(second.backward[static_cast<std::size_t>(second.backward_exchanges[0].kernels_before)].for_weights);
  CHECK(four.layers[0].backward_exchanges.empty());
  CHECK_THROWS_WITH(catalog_cnn("vgg16", 3), Catch::Matchers::Contains("they must divide the 64 outputs"));
}

TEST_CASE("layers of an MLP keep only their input under full recomputation", "[sharding]") {
  for (const LinearSplit split_kind : {LinearSplit::pairs, LinearSplit::columns, LinearSplit::rows}) {
    Sharding sharding;
    sharding.tensor = 2;
    sharding.linear_split = split_kind;
    const Network none = mlp_network(kShape, 8, Precision::fp64, sharding);
    sharding.recompute = Recompute::full;
    const Network full = mlp_network(kShape, 8, Precision::fp64, sharding);
    for (std::size_t i = 0; i < full.layers.size(); ++i) {
      const Layer &a = none.layers[i], &b = full.layers[i];
      const bool halved = split_kind == LinearSplit::pairs && i % 2 == 1;
      CHECK(b.activations().value == 8.0 * 8 * kShape.widths[i] / (halved ? 2 : 1));
      CHECK(b.backward_flops() == a.forward_flops() + a.backward_flops());
      CHECK(b.recomputed_exchanges == static_cast<int>(a.forward_exchanges.size()));
    }
  }
  Sharding selective;
  selective.recompute = Recompute::selective;
  CHECK_THROWS_WITH(mlp_network(kShape, 8, Precision::fp64, selective), Catch::Matchers::Contains("none or full"));
}

}  // namespace models_test_split_products
