// A layer of an MLP: tanh after all but the last, whose output the loss compares with a target.
#include <cmath>

#include "sim/error.hpp"
#include "strategies/numeric/layers.hpp"
#include "strategies/numeric/operators.hpp"

namespace trainyard::numeric {
namespace {

Index width_of(const MlpShape& shape, int index) { return shape.widths.at(static_cast<std::size_t>(index)); }

/// Uniform numbers, one sample a column.
Matrix drawn(const RankPlace& p, const Batch& batch, const char* what, Index rows) {
  Matrix values(rows, p.task.micro_batch_size);
  for (Index sample = 0; sample < values.cols(); ++sample)
    for (Index row = 0; row < rows; ++row) {
      Draw draw(p.task.seed);
      draw << what << static_cast<std::uint64_t>(batch.first_sample + sample) << static_cast<std::uint64_t>(row);
      values(row, sample) = draw.uniform();
    }
  return values;
}

Matrix softmax(const Matrix& logits) {
  Matrix p = (logits.rowwise() - logits.colwise().maxCoeff()).array().exp();
  return p * p.colwise().sum().cwiseInverse().asDiagonal();
}

Matrix targets_of(const RankPlace& p, const MlpShape& shape, const Batch& batch) {
  const Matrix values = drawn(p, batch, "targets", shape.widths.back());
  return shape.loss == MlpLoss::mean_squared_error ? values : softmax(values);
}

void loss_nodes(Graph& g, const RankPlace& p, const MlpShape& shape, const Batch& batch) {
  const Matrix target = targets_of(p, shape, batch);
  const bool squares = shape.loss == MlpLoss::mean_squared_error;
  g.node("loss", [&g, target, squares, scale = batch.scale] {
    const Matrix& y = g["y"];
    const double sum =
        squares ? (y - target).squaredNorm() / 2 : -target.cwiseProduct(Matrix(softmax(y).array().log())).sum();
    return Matrix::Constant(1, 1, sum * scale);
  });
  g.node("y.d", [&g, target, squares, scale = batch.scale] {
    return Matrix(((squares ? g["y"] : softmax(g["y"])) - target) * scale);
  });
}

}  // namespace

TensorShards mlp_tensors(const RankPlace&, const MlpShape& shape, int number) {
  const Index in = width_of(shape, number), out = width_of(shape, number + 1);
  TensorShards shards;
  TensorShard& weight = shards["linear.weight"] = TensorShard::cut(out, span(0, out), span(0, in));
  weight.spread = std::sqrt(6.0 / static_cast<double>(in + out));
  TensorShard& bias = shards["linear.bias"] = TensorShard::cut(out, span(0, out), {0});
  bias.spread = 0.1;
  return shards;
}

Index mlp_input_rows(const RankPlace&, const MlpShape& shape, int number) { return width_of(shape, number); }

void mlp_layer(Graph& g, const RankPlace& p, const MlpShape& shape, const RankLayer& layer, const Batch& batch) {
  const LayerShard& s = *layer.shard;
  const std::string in = layer.number == 0 ? "samples" : "x";
  if (layer.number == 0) g.node(in, [p, batch, rows = width_of(shape, 0)] { return drawn(p, batch, "inputs", rows); });
  linear(g, s, {.name = "linear", .in = in, .in_for_weights = in, .out_gradient = "y.d", .bias = true});
  g.node("y", [&g] { return g["linear"]; });
  if (layer.last) {
    loss_nodes(g, p, shape, batch);
  } else {
    g.node("out", [&g] { return Matrix(g["y"].array().tanh()); });
    g.node("y.d", [&g] { return Matrix(g["dout"].array() * (1 - g["out"].array().square())); });
  }
  if (layer.number > 0) g.node("dx", [&g] { return g["linear.d"]; });
}

}  // namespace trainyard::numeric
