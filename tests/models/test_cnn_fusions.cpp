// Batch norms that cuDNN fuses with the operators around them.
#include <catch2/catch.hpp>

#include "models/networks/network_entry.hpp"
#include "models/reading/catalog.hpp"
#include "tests/models/transformer_configs.hpp"

namespace models_test_cnn_fusions {

using namespace trainyard;

namespace {

/// A convolution, and a residual block of two convolutions.
constexpr const char* kBlock =
    "cnn:\n  input: [4, 8, 8]\n  layers:\n"
    "    - conv: {out: 4, kernel: 1, bias: false}\n"
    "    - residual: [conv: {out: 4, kernel: 1, bias: false}, batch_norm, relu, conv: {out: 4, kernel: 1, bias: "
    "false}, "
    "batch_norm]\n"
    "    - relu\n    - global_pool\n    - flatten\n    - softmax_cross_entropy\n";

Network fused(const std::string& text, BatchNormFusion fusion) {
  Fusions fusions;
  fusions.batch_norm = fusion;
  return cnn_network(*read_network_entry(parse_document(text, "x.yaml")).cnn(), 3, Precision::fp16, fusions);
}

constexpr double kMap = 2.0 * 3 * 4 * 8 * 8, kBits = 3 * 4 * 8 * 8 / 8.0, kStatistics = 4 * 2 * 4;

}  // namespace

TEST_CASE("a norm with its ReLU, and with a residual's sum, is one kernel", "[cnn]") {
  const Layer block = fused(kBlock, BatchNormFusion::activation).layers.at(1);
  CHECK(work_of(block.forward, "batch_norm1").bytes.value == 3 * kMap + kBits + kStatistics);
  CHECK(work_of(block.backward, "batch_norm1.backward").bytes.value == 5 * kMap + 2 * kBits + kStatistics);
  // First the statistics of the second norm; then the sum reads both branches and writes the output.
  CHECK(work_of(block.forward, "batch_norm2").bytes.value == kMap + 2 * kStatistics);
  CHECK(work_of(block.forward, "residual1").bytes.value == 3 * kMap + kBits);
  CHECK(work_of(block.backward, "residual1.backward").bytes.value == 6 * kMap + 2 * kBits);
  CHECK_THROWS(work_of(block.forward, "relu1"));
  CHECK_THROWS(work_of(block.backward, "batch_norm2.backward"));
}

TEST_CASE("a norm reads its input once if the convolution before it sums the statistics", "[cnn]") {
  const Layer block = fused(kBlock, BatchNormFusion::statistics).layers.at(1);
  CHECK(work_of(block.forward, "batch_norm1").bytes.value == 2 * kMap + kBits + kStatistics);
  CHECK(work_of(block.backward, "batch_norm1.backward").bytes.value == 5 * kMap + 2 * kBits + kStatistics);
  CHECK(work_of(block.forward, "batch_norm2").bytes.value == 2 * kStatistics);
  CHECK(work_of(block.forward, "residual1").bytes.value == 3 * kMap + kBits);
}

TEST_CASE("a norm that the next convolution applies moves no tensor forward, and keeps only its input", "[cnn]") {
  const Layer block = fused(kBlock, BatchNormFusion::convolution).layers.at(1);
  CHECK(work_of(block.forward, "batch_norm1").bytes.value == 2 * kStatistics);
  CHECK(work_of(block.backward, "batch_norm1.backward").bytes.value == 5 * kMap + kStatistics);
  // Inputs of the block, of both norms; the bits of the last ReLU; statistics; and the loss.
  double norms = 0;
  for (const KeptTensor& tensor : block.saved_tensors)
    if (!tensor.name.starts_with("log") && tensor.name != "targets") norms += tensor.bytes.value;
  CHECK(norms == 3 * kMap + kBits + 2 * kStatistics);
}

TEST_CASE("fused norms do not change the products and the parameters of ResNet-50", "[cnn]") {
  const NetworkEntry entry = read_network_entry(Catalog().resolve("network", parse_document("resnet50", "x.yaml")));
  const Network eager = cnn_network(*entry.cnn(), 2, Precision::fp16);
  double moved = 1e300;
  for (const BatchNormFusion fusion : {BatchNormFusion::none, BatchNormFusion::activation, BatchNormFusion::statistics,
                                       BatchNormFusion::convolution}) {
    Fusions fusions;
    fusions.batch_norm = fusion;
    const Network network = cnn_network(*entry.cnn(), 2, Precision::fp16, fusions);
    CHECK(network.parameters() == eager.parameters());
    CHECK(network.forward_flops() == eager.forward_flops());
    CHECK(network.backward_flops() == eager.backward_flops());
    CHECK(gradients_are_ready_once(network));
    double bytes = 0;
    for (const Layer& layer : network.layers) {
      for (const KernelCall& kernel : layer.forward) bytes += kernel.work.bytes.value;
      for (const BackwardKernel& kernel : layer.backward) bytes += kernel.work.bytes.value;
    }
    CHECK(bytes < moved);
    moved = bytes;
  }
}

}  // namespace models_test_cnn_fusions
