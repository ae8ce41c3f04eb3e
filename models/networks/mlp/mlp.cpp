// The work of an MLP, of the whole network or of one rank of the tensor axis.
#include "models/networks/mlp/mlp.hpp"

#include "models/networks/layers/layer_builder.hpp"
#include "models/networks/layers/sharding.hpp"
#include "models/reading/nearest.hpp"
#include "sim/error.hpp"

namespace trainyard {
namespace {

/// The split of one layer: columns, rows or replicated.
LinearSplit split_of(int layer, const Sharding& s) {
  if (!s.linear_splits.empty()) return s.linear_splits[static_cast<std::size_t>(layer)];
  if (s.linear_split != LinearSplit::pairs) return s.linear_split;
  return layer % 2 == 1 ? LinearSplit::rows : LinearSplit::columns;
}

/// One layer: its widths, those of a rank's share, and its neighbours.
struct MlpLayer {
  double in = 0, out = 0, rank_in = 0, rank_out = 0;
  LinearSharding split = LinearSharding::replicated;
  bool first = false, last = false;
  bool next_spreads = false;  ///< the next layer keeps only its part of this layer's output
};

MlpLayer layer_of(const MlpShape& shape, int layer, const Sharding& s) {
  const auto width = [&shape](int i) { return shape.widths[i]; };
  MlpLayer l;
  l.split = linear_sharding(shape, layer, s);
  l.first = layer == 0;
  l.last = layer + 1 == shape.layers();
  l.next_spreads = !l.last && linear_sharding(shape, layer + 1, s) == LinearSharding::spread_rows;
  l.in = l.rank_in = width(layer);
  l.out = l.rank_out = width(layer + 1);
  if (l.split == LinearSharding::replicated) return l;
  const int split_width = by_rows(l.split) ? layer : layer + 1;
  if (width(split_width) % s.tensor != 0)
    throw ShardingError("tensor", "mlp: tensor parallelism over " + std::to_string(s.tensor) +
                                      " ranks: they must divide width " + std::to_string(split_width) + ", which is " +
                                      std::to_string(width(split_width)) +
                                      "; nearest: " + nearest_divisors(width(split_width), s.tensor));
  (by_rows(l.split) ? l.rank_in : l.rank_out) /= s.tensor;
  return l;
}

/// Adds tanh, or the loss after the last layer.
void add_output(LayerBuilder& b, const MlpShape& shape, const MlpLayer& l, double out, Precision precision) {
  const Bytes tensor = b.row_bytes(out);
  Operator op;
  if (!l.last) {  // the gradient of tanh needs the output, which the next layer keeps as its input
    op.forward.push_back(elementwise("tanh", tensor * 2, precision));
    op.backward.push_back({elementwise("tanh.backward", tensor * 3, precision), {}});
    op.forward_live = op.backward_live = tensor * 2;
    if (l.next_spreads) {
      op.saved_tensors = {{"tanh.output", tensor}};
      op.forward_live = tensor;
    }
  } else if (shape.loss == MlpLoss::mean_squared_error) {
    op.forward.push_back(elementwise("mean_squared_error", tensor * 2, precision));
    op.backward.push_back({elementwise("mean_squared_error.backward", tensor * 3, precision), {}});
    op.saved_tensors = {{"output", tensor}, {"targets", tensor}};
    op.backward_live = tensor;
  } else {
    return b.cross_entropy(out, false);
  }
  b.add(std::move(op));
}

/// Adds the exchange of the gradient of the input. Ranks sum it if each has all inputs, and gather it if each has a
/// part.
void exchange_input(LayerBuilder& b, const MlpLayer& l) {
  if (l.first || l.split == LinearSharding::replicated || l.split == LinearSharding::rows) return;
  const Bytes in = b.row_bytes(l.in);
  const bool gathers = l.split == LinearSharding::spread_rows;
  b.cross({.backward = {gathers ? "linear.gather.backward" : "linear.reduce.backward", Axis::tensor,
                        gathers ? ExchangeKind::all_gather : ExchangeKind::all_reduce, in},
           .in = in,
           .out = b.row_bytes(l.rank_in),
           .beside_weights = true});
}

void sum_output(LayerBuilder& b, const MlpLayer& l) {
  if (!by_rows(l.split)) return;
  const Bytes out = b.row_bytes(l.out);
  b.cross({.forward = {"linear.reduce", Axis::tensor, ExchangeKind::all_reduce, out}, .in = out, .out = out});
  b.bias("linear.bias", l.out, false);
}

void gather_output(LayerBuilder& b, const MlpLayer& l) {
  const Bytes out = b.row_bytes(l.out);
  b.cross({.forward = {"linear.gather", Axis::tensor, ExchangeKind::all_gather, out},
           .in = b.row_bytes(l.rank_out),
           .out = out});
}

Layer lay_out(const MlpShape& shape, int layer, double samples, Precision precision, const Sharding& sharding) {
  const MlpLayer l = layer_of(shape, layer, sharding);
  LayerBuilder b("layer " + std::to_string(layer), samples, precision);
  b.set_overlap(sharding.overlap);
  exchange_input(b, l);
  // The layer before keeps the input as the output of tanh.
  const bool is_kept_before = l.split == LinearSharding::spread_rows && !l.first;
  b.linear({.name = "linear",
            .in = l.rank_in,
            .out = l.rank_out,
            .bias = !by_rows(l.split),
            .keeps_input = !is_kept_before,
            .input_gradient = !l.first,
            .holds_input = is_kept_before});
  sum_output(b, l);
  const bool gathers = l.split == LinearSharding::gathered_columns;
  if (gathers && l.last) gather_output(b, l);
  add_output(b, shape, l, l.last ? l.out : l.rank_out, precision);
  if (gathers && !l.last) gather_output(b, l);
  const double out = l.split == LinearSharding::columns ? l.rank_out : l.out;
  const double in = l.split == LinearSharding::rows ? l.rank_in : l.in;
  const Bytes output = l.last ? Bytes{} : b.row_bytes(out), input = b.row_bytes(in);
  Layer result = std::move(b).build(output, sharding.recompute, input);
  result.output_in_parts = l.split == LinearSharding::columns;
  return result;
}

}  // namespace

LinearSharding linear_sharding(const MlpShape& shape, int layer, const Sharding& s) {
  if (s.tensor == 1) return LinearSharding::replicated;
  if (!s.linear_splits.empty() && static_cast<int>(s.linear_splits.size()) != shape.layers())
    throw ShardingError("linear_split", "mlp: splits of " + std::to_string(s.linear_splits.size()) +
                                            " layers, but there are " + std::to_string(shape.layers()));
  const LinearSplit split = split_of(layer, s);
  if (split == LinearSplit::replicated) return LinearSharding::replicated;
  // If all layers have the same split, there are no pairs.
  const bool pairs = !s.linear_splits.empty() || s.linear_split == LinearSplit::pairs;
  if (split == LinearSplit::columns) {
    const bool next = pairs && layer + 1 < shape.layers() && split_of(layer + 1, s) == LinearSplit::rows;
    return next ? LinearSharding::columns : LinearSharding::gathered_columns;
  }
  return pairs && layer > 0 && split_of(layer - 1, s) == LinearSplit::columns ? LinearSharding::rows
                                                                              : LinearSharding::spread_rows;
}

void MlpShape::check() const {
  if (widths.size() < 2)
    throw UserError("mlp: " + std::to_string(widths.size()) + " widths; expected at least 2 (input and output)");
  for (const int width : widths)
    if (width < 1) throw UserError("mlp: a width is " + std::to_string(width) + "; expected at least 1");
}

Network mlp_network(const MlpShape& shape, std::int64_t micro_batch_size, Precision precision,
                    const Sharding& sharding) {
  shape.check();
  require_tensor_alone(sharding, "an mlp");
  check_micro_batch_size(micro_batch_size);
  Network network;
  network.name = "mlp";
  network.precision = precision;
  network.samples = micro_batch_size;
  for (int layer = 0; layer < shape.layers(); ++layer)
    network.layers.push_back(lay_out(shape, layer, static_cast<double>(micro_batch_size), precision, sharding));
  return network;
}

}  // namespace trainyard
