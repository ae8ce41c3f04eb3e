// Computes the shapes of a CNN, and checks that its operators fit.
// Builds the layers of a CNN as kernels.
#include <fmt/format.h>

#include "models/networks/cnn/cnn.hpp"
#include "models/networks/cnn/cnn_layer.hpp"
#include "models/networks/layers/sharding.hpp"

namespace trainyard {
namespace {

class ShapeInference {
 public:
  explicit ShapeInference(const std::string& layer) : layer_(layer) {}

  /// Infers the shapes of a list of operators. `loss`: the list may end with a loss.
  FeatureShape run(std::vector<CnnOperator>& operators, FeatureShape shape, bool loss = false) {
    for (CnnOperator& op : operators) {
      if (op.kind == CnnKind::softmax_cross_entropy && !(loss && &op == &operators.back()))
        refuse(op, "the loss comes last, in the network or an auxiliary");
      op.in = shape;
      op.output = shape = output(op);
      if (shape.elements() > kMostCnnElements) refuse(op, fmt::format("{} elements are too many", shape.text()));
    }
    return shape;
  }

 private:
  [[noreturn]] void refuse(const CnnOperator& op, const std::string& what) const {
    fail(op.place, fmt::format("cnn.{}: {} (in layer \"{}\")", op.word, what, layer_));
  }
  void need_map(const CnnOperator& op) const {
    if (op.in.flat) refuse(op, fmt::format("expected channels x height x width, got {} flat features", op.in.channels));
  }
  void need_flat(const CnnOperator& op) const {
    if (!op.in.flat) refuse(op, fmt::format("expected flat features, got {}; flatten comes before", op.in.text()));
  }
  /// Returns the number of positions of a window along one dimension.
  std::int64_t window_positions(const CnnOperator& op, std::size_t axis, std::int64_t size) const {
    const std::int64_t padded = size + 2 * op.pad[axis];
    if (op.kernel[axis] > padded)
      refuse(op, fmt::format("a kernel of {} x {} does not fit into {} (padding {} x {})", op.kernel[0], op.kernel[1],
                             op.in.text(), op.pad[0], op.pad[1]));
    return (padded - op.kernel[axis]) / op.stride[axis] + 1;
  }
  FeatureShape windows(const CnnOperator& op, std::int64_t channels) const {
    need_map(op);
    return {channels, window_positions(op, 0, op.in.height), window_positions(op, 1, op.in.width), false};
  }

  FeatureShape convolved(const CnnOperator& op) const {
    need_map(op);
    for (const std::int64_t channels : {op.in.channels, op.out})
      if (channels % op.groups != 0)
        refuse(op, fmt::format("{} groups do not divide {} {} channels", op.groups, channels,
                               channels == op.in.channels ? "input" : "output"));
    return windows(op, op.out);
  }

  FeatureShape pooled(const CnnOperator& op) const {
    for (const std::size_t axis : {0U, 1U})  // with more, a window could see only padding
      if (op.pad[axis] > op.kernel[axis] / 2)
        refuse(op, fmt::format("padding {} is more than half the kernel of {}", op.pad[axis], op.kernel[axis]));
    return windows(op, op.in.channels);
  }

  FeatureShape summed(CnnOperator& op) {
    const FeatureShape main = run(op.branches[0], op.in), shortcut = run(op.branches[1], op.in);
    if (main != shortcut)
      refuse(op, fmt::format("the layers give {}, the shortcut {}; they are added, so they must be equal", main.text(),
                             shortcut.text()));
    return main;
  }

  FeatureShape concatenated(CnnOperator& op) {
    FeatureShape result;
    for (std::size_t i = 0; i < op.branches.size(); ++i) {
      const FeatureShape part = run(op.branches[i], op.in);
      if (i == 0) {
        result = part;
        continue;
      }
      if (part.flat != result.flat || part.height != result.height || part.width != result.width)
        refuse(op, fmt::format("branch 1 gives {}, branch {} {}; only the channels may differ",
                               op.branches[0].empty() ? op.in.text() : op.branches[0].back().output.text(), i + 1,
                               part.text()));
      result.channels += part.channels;
    }
    return result;
  }

  FeatureShape output(CnnOperator& op) {
    switch (op.kind) {
      case CnnKind::conv:
        return convolved(op);
      case CnnKind::max_pool:
      case CnnKind::avg_pool:
        return pooled(op);
      case CnnKind::adaptive_pool:
        need_map(op);
        return {op.in.channels, op.kernel[0], op.kernel[1], false};
      case CnnKind::global_pool:
        need_map(op);
        return {op.in.channels, 1, 1, false};
      case CnnKind::flatten:
        return {op.in.channels * op.in.height * op.in.width, 1, 1, true};
      case CnnKind::linear:
        need_flat(op);
        return {op.out, 1, 1, true};
      case CnnKind::batch_norm:
      case CnnKind::local_response_norm:
        need_map(op);
        return op.in;
      case CnnKind::softmax_cross_entropy:
        need_flat(op);
        return op.in;
      case CnnKind::residual:
        return summed(op);
      case CnnKind::concat:
        return concatenated(op);
      case CnnKind::auxiliary:
        run(op.branches[0], op.in, true);
        if (op.branches[0].back().kind != CnnKind::softmax_cross_entropy)
          refuse(op, "expected softmax_cross_entropy, its loss, as its last layer");
        return op.in;
      case CnnKind::activation:
      case CnnKind::dropout:
        return op.in;
    }
    throw InternalError("an operator of a CNN without a shape");
  }

  const std::string& layer_;
};

}  // namespace

double FeatureShape::elements() const {
  return static_cast<double>(channels) * static_cast<double>(height) * static_cast<double>(width);
}

std::string FeatureShape::text() const {
  return flat ? fmt::format("{}", channels) : fmt::format("{} x {} x {}", channels, height, width);
}

void infer_shapes(Cnn& cnn) {
  FeatureShape shape = cnn.input;
  for (CnnLayer& layer : cnn.layers)
    shape = ShapeInference(layer.name).run(layer.operators, shape, &layer == &cnn.layers.back());
}

Network cnn_network(const Cnn& cnn, std::int64_t micro_batch_size, Precision precision, const Fusions& fusions,
                    const Sharding& sharding) {
  require_tensor_alone(sharding, "a convolutional network");
  check_micro_batch_size(micro_batch_size);
  Network network;
  network.name = cnn.name;
  network.source = cnn.source;
  network.precision = precision;
  network.samples = micro_batch_size;
  network.weights_reused = true;
  std::vector<bool> kept{false};
  CnnFeature feature{cnn.input.elements(), 0, false, false};
  for (const CnnLayer& layer : cnn.layers) {
    CnnLayerBuilder builder(layer.name, static_cast<double>(micro_batch_size), precision, fusions, sharding, kept);
    const Bytes input = builder.bytes(feature.width);
    feature = builder.run(layer.operators, feature);
    const bool last = &layer == &cnn.layers.back();
    const Bytes output = last ? Bytes{} : builder.bytes(feature.width);
    network.layers.push_back(std::move(builder).build(output, input));
  }
  return network;
}

}  // namespace trainyard
