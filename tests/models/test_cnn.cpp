// Shapes and costs of CNNs, by hand and against published figures.
#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "models/networks/network_entry.hpp"
#include "models/reading/catalog.hpp"

namespace models_test_cnn {

using namespace trainyard;

namespace {

NetworkEntry entry_of(const std::string& name) {
  return read_network_entry(Catalog().resolve("network", parse_document(name, "x.yaml")));
}
Cnn cnn_of(const std::string& text) { return *read_network_entry(parse_document("cnn:\n" + text, "x.yaml")).cnn(); }

/// Returns a CNN of these layers on an input of this shape. A loss is appended.
Cnn cnn_with_loss(const std::string& input, const std::string& layers, const std::string& blocks = "{}") {
  return cnn_of("  input: " + input + "\n  blocks: " + blocks + "\n  layers: [" + layers +
                ", flatten, softmax_cross_entropy]\n");
}

const CnnLayer& layer_of(const Cnn& cnn, const std::string& name) {
  for (const CnnLayer& layer : cnn.layers)
    if (layer.name == name) return layer;
  throw std::runtime_error("no layer " + name);
}

Bytes kept_bytes(const Layer& layer, const std::string& name) {
  for (const KeptTensor& tensor : layer.saved_tensors)
    if (tensor.name == name) return tensor.bytes;
  return {};
}

}  // namespace

TEST_CASE("published CNNs have their published parameters and multiply-adds", "[cnn]") {
  struct Published {
    const char* name;
    double parameters, gmac;  // figures of torchvision's weights; 0: no GMAC published
  };
  // Inception's 5.71 GMAC do not include the auxiliary classifier, which adds 0.006.
  for (const Published& p : {Published{"resnet50", 25'557'032, 4.09}, Published{"resnet101", 44'549'160, 7.80},
                             Published{"resnet152", 60'192'808, 11.51}, Published{"vgg16", 138'357'544, 15.47},
                             Published{"vgg19", 143'667'240, 19.63}, Published{"alexnet", 61'100'840, 0.714},
                             Published{"inception-v3", 27'161'264, 5.713}, Published{"mnist-cnn", 1'199'882, 0}}) {
    INFO(p.name);
    const NetworkEntry entry = entry_of(p.name);
    const Network network = make_network(entry, 2, 1, Precision::fp32);
    CHECK(network.name == p.name);
    CHECK(network.source.size() > 40);
    CHECK(network.parameters() == p.parameters);
    if (p.gmac > 0) CHECK(network.forward_flops().value / 2 / 2e9 == Approx(p.gmac).epsilon(0.003));
    // Only the first product has no gradient of its input.
    const double first = network.layers[0].forward[0].work.flops.value;
    CHECK(network.backward_flops().value == 2 * network.forward_flops().value - first);
    CHECK(network.model_flops_per_token().value == Approx(3 * network.forward_flops().value / 2).epsilon(1e-12));
  }
}

TEST_CASE("every gradient of a CNN is final once", "[cnn]") {
  for (const char* name : {"resnet50", "inception-v3", "alexnet", "mnist-cnn"}) {
    const Network network = make_network(entry_of(name), 1, 1, Precision::fp32);
    for (const Layer& layer : network.layers) {
      std::vector<int> times(layer.parameters.size());
      for (const BackwardKernel& kernel : layer.backward)
        for (const int i : kernel.gradients_ready) ++times.at(static_cast<std::size_t>(i));
      CHECK(times == std::vector<int>(layer.parameters.size(), 1));
    }
  }
}

TEST_CASE("the catalog's CNNs have the sizes of their papers", "[cnn]") {
  const NetworkEntry resnet_entry = entry_of("resnet50"), inception_entry = entry_of("inception-v3"),
                     vgg_entry = entry_of("vgg16");
  const Cnn &resnet = *resnet_entry.cnn(), &inception = *inception_entry.cnn(), &vgg = *vgg_entry.cnn();
  CHECK(resnet.layers.size() == 18);  // stem, 16 blocks, classifier
  CHECK(layer_of(resnet, "conv_bn 1").operators[0].output == FeatureShape{64, 112, 112});
  CHECK(layer_of(resnet, "bottleneck 2").operators.back().output == FeatureShape{256, 56, 56});
  CHECK(layer_of(resnet, "bottleneck 5").operators.back().output == FeatureShape{512, 28, 28});
  CHECK(layer_of(resnet, "bottleneck 10").operators.back().output == FeatureShape{1024, 14, 14});
  CHECK(layer_of(resnet, "projection 4").operators.back().output == FeatureShape{2048, 7, 7});
  CHECK(layer_of(resnet, "linear 1").operators[0].in == FeatureShape{2048, 1, 1, true});
  CHECK(layer_of(inception, "mixed_35 1").operators.back().output == FeatureShape{256, 35, 35});
  CHECK(layer_of(inception, "mixed_35 3").operators.back().output == FeatureShape{288, 35, 35});
  CHECK(layer_of(inception, "reduce_17 1").operators.back().output == FeatureShape{768, 17, 17});
  CHECK(layer_of(inception, "reduce_8 1").operators.back().output == FeatureShape{1280, 8, 8});
  CHECK(layer_of(inception, "mixed_8 1").operators.back().output == FeatureShape{2048, 8, 8});
  const std::int64_t sizes[] = {224, 224, 112, 112, 56, 56, 56, 28, 28, 28, 14, 14, 14};
  for (std::size_t i = 0; i < 13; ++i) {
    CHECK(vgg.layers[i].operators[0].output.height == sizes[i]);
    CHECK(vgg.layers[i].operators[0].output.width == sizes[i]);
  }
  CHECK(vgg.layers[12].operators.back().output == FeatureShape{25088, 1, 1, true});  // 512 x 7 x 7
  CHECK(entry_of("alexnet").cnn()->layers[0].operators[0].output == FeatureShape{64, 55, 55});
}

TEST_CASE("Inception-v3 without its auxiliary classifier has fewer parameters and the published multiply-adds",
          "[cnn]") {
  Node reference = parse_document("model: inception-v3", "x.yaml");
  set_field(reference, "model.cnn.auxiliary", "false");
  const NetworkEntry entry = read_network_entry(Catalog().resolve("network", *reference.find("model")));
  const Network network = make_network(entry, 1, 1, Precision::fp32);
  CHECK(network.parameters() == 23'834'568);
  CHECK(network.forward_flops().value / 2e9 == Approx(5.713).epsilon(1e-4));
}

TEST_CASE("ResNet-50 keeps 2.75 GB of 32 images in fp32", "[cnn]") {
  // Counted by hand, for a sample: every convolution's output (the input of its batch norm), every relu's output (the
  // input of what follows), the image, and the int64 indices of max pooling with its output, which both first
  // convolutions read.
  double elements = 3 * 224 * 224 + 64 * 112 * 112 * 2 + 64 * 56 * 56, indices = 64 * 56 * 56, channels = 64;
  const int blocks[] = {3, 4, 6, 3};
  double width = 64, size = 56;
  for (int stage = 0; stage < 4; ++stage, width *= 2) {
    for (int block = 0; block < blocks[stage]; ++block) {
      const bool strided = stage > 0 && block == 0;  // in the second convolution
      const double in_pixels = size * size;
      if (strided) size /= 2;
      const double pixels = size * size;
      elements += 2 * width * in_pixels + 2 * width * pixels;  // the first two: convolution and relu
      elements += 2 * 4 * width * pixels;                      // the third: convolution, and relu of the sum
      channels += 6 * width;
      if (block == 0) elements += 4 * width * pixels, channels += 4 * width;  // the projection's convolution
    }
  }
  elements += 2048 + 1000 * 2;  // the classifier's input, logits and log-probabilities
  const double bytes = 32 * (4 * elements + 8 * indices + 8) + 8 * channels;  // 8: a target; statistics of a channel
  CHECK(bytes == 2'749'572'864);
  CHECK(make_network(entry_of("resnet50"), 32, 1, Precision::fp32).activations().value == bytes);
}

TEST_CASE("a convolution has the kernels, gradients and bytes that are counted by hand", "[cnn]") {
  const Cnn cnn = cnn_with_loss(
      "[6, 9, 7]",
      "conv: {out: 4, kernel: 1}, conv: {out: 8, kernel: [3, 2], stride: [2, 1], padding: [1, 0], groups: 2}");
  const Network network = cnn_network(cnn, 5, Precision::fp16);
  REQUIRE(network.layers.size() == 2);
  CHECK(network.layers[0].backward.size() == 2);  // no gradient of the image: weight, bias
  CHECK(network.layers[0].output.value == 2 * 5 * 4 * 9 * 7);
  const Layer& layer = network.layers[1];
  CHECK(layer.parameter_elements() == 8 * 2 * 3 * 2 + 8);
  const double in = 5 * 4 * 9 * 7, out = 5 * 8 * 5 * 6;
  CHECK(layer.forward[0].work.flops.value == 2 * out * 2 * 3 * 2);
  CHECK(layer.forward[0].work.bytes.value == 2 * (in + out + 96));
  CHECK(layer.forward[0].work.kernel == static_cast<std::uint16_t>(Kernel::convolution));
  CHECK(layer.forward[1].name == "conv1.bias");
  CHECK(kept_bytes(layer, "conv1.input").value == 2 * in);
  const auto find_backward = [&](const char* name) {
    return std::ranges::find_if(layer.backward, [&](const auto& k) { return k.name == name; });
  };
  CHECK(find_backward("conv1.dgrad")->work.flops.value == layer.forward[0].work.flops.value);
  CHECK(find_backward("conv1.wgrad")->gradients_ready == std::vector<int>{0});
  CHECK(find_backward("conv1.bias_grad")->gradients_ready == std::vector<int>{1});
  const Network depthwise =
      cnn_network(cnn_with_loss("[6, 9, 7]", "conv: {out: 12, kernel: 3, groups: 6}"), 1, Precision::fp16);
  CHECK(depthwise.layers[0].forward[0].work.kernel == static_cast<std::uint16_t>(Kernel::elementwise));
  CHECK(depthwise.layers[0].forward[0].work.flops.value == 2 * 12 * 7 * 5 * 9);
}

TEST_CASE("each memory is kept once, and operators in place need none", "[cnn]") {
  const Cnn cnn = cnn_with_loss(
      "[4, 8, 8]",
      "conv: {out: 4, kernel: 3, padding: same, bias: false}, batch_norm, relu, max_pool: {kernel: 2}, tanh");
  const Layer layer = cnn_network(cnn, 2, Precision::fp32).layers.at(0);
  const double map = 4 * 2 * 4 * 8 * 8;
  CHECK(kept_bytes(layer, "conv1.input").value == map);
  CHECK(kept_bytes(layer, "batch_norm1.input").value == map);
  CHECK(kept_bytes(layer, "batch_norm1.statistics").value == 4 * 2 * 4);
  CHECK(kept_bytes(layer, "relu1.output").value == map);
  CHECK(kept_bytes(layer, "max_pool1.input").value == 0);  // relu's output
  CHECK(kept_bytes(layer, "max_pool1.indices").value == map / 4 * 2);
  CHECK(kept_bytes(layer, "tanh1.output").value == map / 4);

  const Cnn residual = cnn_with_loss(
      "[4, 8, 8]", "conv: {out: 4, kernel: 1}, residual: [batch_norm, relu, conv: {out: 4, kernel: 1}], relu");
  const Layer block = cnn_network(residual, 2, Precision::fp32).layers.at(1);
  CHECK(block.activations().value == 3 * map + 32 + (4 * 4 * 64 * 2) * 2 + 8 * 2);  // and the loss
  CHECK(block.backward[block.backward.size() - 1].name == "residual1.gradient_sum");
}

TEST_CASE("no operator works in place on a tensor that another branch reads", "[cnn]") {
  const Cnn cnn = cnn_with_loss("[4, 8, 8]", "conv: {out: 4, kernel: 1}, concat: [[relu], [batch_norm]]");
  const Layer block = cnn_network(cnn, 1, Precision::fp32).layers.at(1);
  const double map = 4 * 4 * 8 * 8;
  CHECK(kept_bytes(block, "relu1.output").value == map);
  CHECK(kept_bytes(block, "batch_norm1.input").value == map);
}

TEST_CASE("branches run backward from the last one, and the gradients of their input are added", "[cnn]") {
  const Cnn cnn =
      cnn_with_loss("[4, 8, 8]",
                    "conv: {out: 4, kernel: 1}, concat: [[conv: {out: 2, kernel: 1, bias: false}], [conv: {out: 3, "
                    "kernel: 1, bias: false}], []]");
  CHECK(cnn.layers[1].operators[0].output == FeatureShape{9, 8, 8});
  const Layer layer = cnn_network(cnn, 1, Precision::fp32).layers.at(1);
  std::vector<std::string> names;
  for (const BackwardKernel& kernel : layer.backward) names.push_back(kernel.name);
  CHECK(names == std::vector<std::string>{"nll_loss.backward", "log_softmax.backward", "conv2.dgrad", "conv2.wgrad",
                                          "conv1.dgrad", "conv1.wgrad", "concat1.gradient_sum",
                                          "concat1.gradient_sum"});
  CHECK(kept_bytes(layer, "conv1.input").value == 4 * 4 * 64);
  CHECK(kept_bytes(layer, "conv2.input").value == 0);
}

TEST_CASE("blocks stand for layers, can have arguments, be nested and be repeated", "[cnn]") {
  const Cnn cnn =
      cnn_with_loss("[4, 8, 8]", "outer: {out: 6, tail: [relu], repeat: 2}, global_pool",
                    "{inner: {arguments: {out, act: relu}, layers: [conv: {out: $out, kernel: 1}, $act]}, outer: "
                    "{arguments: {out, tail}, layers: [inner: {out: $out, act: tanh, repeat: 2}, residual: $tail]}}");
  REQUIRE(cnn.layers.size() == 2);
  CHECK(cnn.layers[1].name == "outer 2");
  REQUIRE(cnn.layers[0].operators.size() == 5);
  CHECK(cnn.layers[0].operators[1].word == "tanh");
  CHECK(cnn.layers[0].operators[4].branches[0][0].word == "relu");
}

TEST_CASE("a faulty CNN is refused at the place of the fault", "[cnn]") {
  const auto refused = [](const std::string& text, const std::string& what) {
    INFO(text);
    CHECK_THROWS_WITH(cnn_of(text), Catch::Contains(what));
  };
  const std::string input = "  input: [4, 8, 8]\n", end = "\n  - flatten\n  - softmax_cross_entropy\n";
  const auto layer = [&](const std::string& text) { return input + "  layers:\n  - " + text + end; };
  refused(layer("cnv: {out: 4, kernel: 1}"), "x.yaml:4:5: cnn: unknown layer \"cnv\"; did you mean \"conv\"?");
  refused(layer("conv: {out: 4, kernl: 1}"),
          "x.yaml:4:20: unknown key \"kernl\" in cnn.conv; did you mean \"kernel\"?");
  refused(layer("conv"), "x.yaml:4:5: cnn.conv: missing key \"out\"");
  refused(layer("conv: {out: -4, kernel: 1}"), "x.yaml:4:17: cnn.conv.out: -4 is too small; the least is 1");
  refused(layer("conv: {out: 4, kernel: [1, 2, 3]}"), "x.yaml:4:28: cnn.conv.kernel: expected one number, or [height");
  refused(layer("conv: {out: 4, kernel: 0}"), "x.yaml:4:28: cnn.conv.kernel: 0, expected 1 to");
  refused(layer("conv: {out: 4, kernel: 9}"), "x.yaml:4:5: cnn.conv: a kernel of 9 x 9 does not fit into 4 x 8 x 8");
  refused(layer("conv: {out: 6, kernel: 1, groups: 4}"),
          "cnn.conv: 4 groups do not divide 6 output channels (in layer \"conv 1\")");
  refused(layer("linear: {out: 6}"), "cnn.linear: expected flat features, got 4 x 8 x 8; flatten comes before");
  refused(layer("max_pool: {kernel: 2, padding: 2}"), "padding 2 is more than half the kernel of 2");
  refused(layer("concat: [[max_pool: {kernel: 2}], []]"), "cnn.concat: branch 1 gives 4 x 4 x 4, branch 2 4 x 8 x 8");
  refused(layer("residual: [conv: {out: 5, kernel: 1}]"), "the layers give 5 x 8 x 8, the shortcut 4 x 8 x 8");
  refused(layer("residual: {layers: [relu], shortct: []}"), "did you mean \"shortcut\"?");
  refused(layer("auxiliary: [flatten]"), "cnn.auxiliary: expected softmax_cross_entropy, its loss, as its last layer");
  refused(layer("conv: {out: $n, kernel: 1}"), "x.yaml:4:17: no argument \"n\" here");
  refused(layer("flatten\n  - softmax_cross_entropy"), "cnn.softmax_cross_entropy: the loss comes last");
  refused(layer("{relu: {}, tanh: {}}"), "cnn: expected a layer, such as relu or conv");
  refused(layer("relu: {slope: 1}"), "unknown key \"slope\" in cnn.relu");
  refused(input + "  layers: [flatten]\n", "x.yaml:3:11: cnn.layers: expected softmax_cross_entropy, the loss");
  refused("  input: [4, 8]\n  layers: []\n", "x.yaml:2:10: cnn.input: expected [channels, height, width]");
  const auto block = [&](const std::string& text, const std::string& use) {
    return input + "  blocks: {" + text + "}\n  layers:\n  - " + use + end;
  };
  refused(block("a: {layers: [a]}", "a"), "x.yaml:3:25: cnn: block a is used in itself");
  refused(block("relu: {layers: []}", "relu"), "cnn.blocks: \"relu\" is the name of a layer");
  refused(block("a: {arguments: {n}, layers: [$n]}", "a"), "x.yaml:5:5: cnn.a: missing argument \"n\"");
  refused(block("a: {arguments: {n: tanh}, layers: [$n]}", "a: {m: 1}"), "unknown key \"m\" in cnn.a");
  refused(block("a: {arguments: {n: 1}, layers: [tanh]}", "a"), "cnn.blocks.a: nothing uses the argument \"n\"");
  refused(block("a: {layers: [tanh]}", "a: {repeat: 1000000}"), "with its blocks laid out it has over 100000 layers");
  CHECK_THROWS_WITH(read_network_entry(parse_document("{cnn: {}, mlp: {}}", "x.yaml")), Catch::Contains("\"mlp\""));
  CHECK_THROWS_AS(make_network(entry_of("mnist-cnn"), 0, 1, Precision::fp32), UserError);
  CHECK_THROWS_AS(make_network(entry_of("mnist-cnn"), 1, 1, Precision::fp8), UserError);
}

TEST_CASE("only 3 x 3 convolutions of stride 1 in fp32 may execute fewer multiplications than are counted", "[cnn]") {
  const auto kinds = [](Precision precision) {
    std::map<std::uint16_t, int> count;
    for (const Layer& layer : make_network(entry_of("resnet50"), 1, 1, precision).layers)
      for (const KernelCall& call : layer.forward) ++count[call.work.kernel];
    return count;
  };
  const auto number_of = [](Kernel kernel) { return static_cast<std::uint16_t>(kernel); };
  CHECK(kinds(Precision::fp32)[number_of(Kernel::convolution_3x3)] == 13);  // three of 16 have stride 2
  CHECK(kinds(Precision::fp32)[number_of(Kernel::convolution)] == 40);
  CHECK(kinds(Precision::fp16)[number_of(Kernel::convolution_3x3)] == 0);
  CHECK(kinds(Precision::fp16)[number_of(Kernel::convolution)] == 53);
}

}  // namespace models_test_cnn
