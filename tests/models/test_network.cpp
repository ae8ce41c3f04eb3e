#include <catch2/catch.hpp>

#include "models/networks/layers/layer_builder.hpp"
#include "sim/error.hpp"

namespace models_test_network {

using namespace trainyard;

TEST_CASE("a matrix product counts a multiply-add as two and moves each matrix once") {
  const Work work = gemm("g", 3, 5, 7, Precision::bf16).work;
  CHECK(work.flops.value == 2 * 3 * 5 * 7);
  CHECK(work.bytes.value == 2 * (3 * 7 + 7 * 5 + 3 * 5));
  CHECK(kind_of(work.kernel) == Kernel::gemm);
  CHECK(shape_of(work.kernel) == GemmShape{3, 5, 7, 1});
  CHECK(work.precision == static_cast<std::uint8_t>(Precision::bf16));
  CHECK(gemm("g", 3, 5, 7, Precision::fp32, 4).work.bytes.value == 16 * (3 * 7 + 7 * 5 + 3 * 5));
}

TEST_CASE("a linear layer has two products backward, each final gradient marked") {
  LayerBuilder b("l", 10, Precision::fp32);
  b.linear({.name = "a", .in = 3, .out = 4, .bias = true});
  const Layer layer = std::move(b).build(Bytes{160});
  REQUIRE(layer.parameters.size() == 2);
  CHECK(layer.parameters[0].name == "a.weight");
  CHECK(layer.parameter_elements() == 16);
  REQUIRE(layer.backward.size() == 3);
  CHECK(layer.backward_flops().value == 2 * layer.forward_flops().value);
  CHECK(layer.backward[0].name == "a.dgrad");
  CHECK(layer.backward[0].gradients_ready.empty());
  CHECK(layer.backward[1].gradients_ready == std::vector<int>{0});
  CHECK(layer.backward[2].gradients_ready == std::vector<int>{1});
  CHECK(layer.backward[2].work.bytes.value == 4 * (10 * 4 + 4));
  CHECK(layer.activations().value == 4 * 10 * 3);
  CHECK(layer.forward_transient.value == 4 * 10 * 4);
  CHECK(layer.backward_transient.value == 4 * (10 * 4 + 10 * 3));
}

TEST_CASE("tensors of a later operator are freed before an earlier one needs memory") {
  LayerBuilder b("l", 1, Precision::fp64);
  Operator small, large;
  small.saved_tensors = {{"s", Bytes{10}}};
  small.backward_live = Bytes{70};
  large.saved_tensors = {{"l", Bytes{100}}};
  large.forward_live = large.backward_live = Bytes{5};
  b.add(small);
  b.add(large);
  const Layer layer = std::move(b).build({});
  CHECK(layer.activations().value == 110);
  CHECK(layer.forward_transient.value == 5);
  CHECK(layer.backward_transient.value == 5);  // 70 fit into the 100 that are free then
}

TEST_CASE("in the backward pass the gradients of two uses of an input are added, and one is held until then") {
  LayerBuilder b("l", 10, Precision::fp32);
  b.fork("f", 3);
  b.linear({.name = "a", .in = 3, .out = 3, .shares_fork_gradient = true});
  b.join("add");
  const Layer layer = std::move(b).build({});
  REQUIRE(layer.forward.size() == 2);
  REQUIRE(layer.backward.size() == 3);
  CHECK(layer.backward.back().name == "f.gradient_sum");
  CHECK(layer.backward.back().work.bytes.value == 3 * 120);
  CHECK(layer.backward_transient.value ==
        2 * 120);  // at the products; the third tensor of the sum takes the place of the input
}

TEST_CASE("a grouped product spreads its rows over the experts' weights", "[network]") {
  LayerBuilder b("l", 12, Precision::fp32);
  b.set_active_share(0.5);
  b.linear({.name = "a", .in = 3, .out = 5, .bias = true, .experts = 4, .active_share = 0.25});
  const Layer layer = std::move(b).build({});
  CHECK(layer.parameter_elements() == 4 * (3 * 5 + 5));
  CHECK(layer.parameters[0].active_share == 0.125);
  CHECK(layer.forward_flops().value == 2 * 12 * 3 * 5);
  CHECK(layer.forward[0].work.bytes.value == 4 * 4 * (3 * 3 + 3 * 5 + 3 * 5));
  CHECK(layer.backward_flops().value == 4 * 12 * 3 * 5);
  Network network;
  network.layers.push_back(layer);
  CHECK(network.active_parameters() == 10);
  CHECK(network.model_flops_per_token().value == 60);
}

TEST_CASE("a gradient of a later layer is held until it is released", "[network]") {
  LayerBuilder b("l", 10, Precision::fp32);
  b.hold(Bytes{1000});
  b.mover("a", Bytes{8}, Bytes{8});
  b.release();
  b.mover("b", Bytes{8}, Bytes{8});
  CHECK_THROWS_AS(b.release(), InternalError);
  CHECK(std::move(b).build({}).backward_transient.value == 1016);
}

TEST_CASE("a tensor of another branch is held in the forward pass", "[network]") {
  LayerBuilder b("l", 10, Precision::fp32);
  b.hold(Bytes{10}, Bytes{500});
  b.mover("a", Bytes{8}, Bytes{8});
  b.release();
  const Layer layer = std::move(b).build({});
  CHECK(layer.forward_transient.value == 516);
  CHECK(layer.backward_transient.value == 26);
  LayerBuilder open("l", 10, Precision::fp32);
  open.hold(Bytes{10});
  CHECK_THROWS_AS(std::move(open).build({}), InternalError);
}

TEST_CASE("the builder refuses calls without meaning") {
  LayerBuilder open("l", 1, Precision::fp32);
  open.fork("f", 1);
  CHECK_THROWS_AS(std::move(open).build({}), InternalError);
  LayerBuilder b("l", 1, Precision::fp32);
  CHECK_THROWS_AS(b.join("j"), InternalError);
  CHECK_THROWS_AS(LayerBuilder("l", 1, Precision::fp8), UserError);
  CHECK_THROWS_WITH(require_training_precision(Precision::int8), Catch::Contains("int8") && Catch::Contains("bf16"));
}

TEST_CASE("a loss in 16 bits is computed in fp32 unless it is fused") {
  const auto head = [](Precision precision, bool fused) {
    LayerBuilder b("head", 8, precision);
    b.cross_entropy(100, fused);
    return std::move(b).build({});
  };
  const Layer wide = head(Precision::bf16, false);
  CHECK(wide.activations().value == 8 * 100 * (2 + 4) + 8 * 8);
  CHECK(wide.backward_transient.value == 8 * 100 * 8 - 8 * 8);  // two fp32 gradients; the targets are free
  CHECK(head(Precision::fp32, false).activations().value == 8 * 100 * (4 + 4) + 8 * 8);
  CHECK(head(Precision::bf16, true).activations().value == 8 * 100 * 2 + 8 * 8);
  CHECK(head(Precision::bf16, true).backward_transient.value == 0);
}

}  // namespace models_test_network
