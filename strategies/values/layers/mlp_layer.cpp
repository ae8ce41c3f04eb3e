// A layer of an MLP. All layers but the last end with tanh. The loss compares the output of the last with a target.
#include <cmath>

#include "strategies/values/layers/layers.hpp"
#include "strategies/values/layers/operators.hpp"

namespace trainyard::numeric {
namespace {

/// The columns of a batch. After the last column the first one follows.
Matrix columns_of(const Matrix& all, const Batch& batch, Index count) {
  Matrix values(all.rows(), count);
  for (Index sample = 0; sample < count; ++sample)
    values.col(sample) = all.col((batch.first_sample + sample) % all.cols());
  return values;
}

/// Uniform random numbers, one sample in each column.
Matrix draw_values(const RankPlace& p, const Batch& batch, const char* what, Index rows) {
  Matrix values(rows, p.task.micro_batch_size);
  for (Index sample = 0; sample < values.cols(); ++sample)
    for (Index row = 0; row < rows; ++row) {
      Draw draw(p.task.seed);
      draw << what << static_cast<std::uint64_t>(batch.first_sample + sample) << static_cast<std::uint64_t>(row);
      values(row, sample) = draw.uniform();
    }
  return values;
}

Matrix inputs_of(const RankPlace& p, const MlpShape& shape, const Batch& batch) {
  if (p.task.samples) return columns_of(p.task.samples->inputs, batch, p.task.micro_batch_size);
  return draw_values(p, batch, "inputs", shape.widths.front());
}

Matrix targets_of(const RankPlace& p, const MlpShape& shape, const Batch& batch) {
  if (p.task.samples) return columns_of(p.task.samples->targets, batch, p.task.micro_batch_size);
  const Matrix values = draw_values(p, batch, "targets", shape.widths.back());
  return shape.loss == MlpLoss::mean_squared_error ? values : softmax(values);
}

/// Stacks blocks of rows, which an all-gather has put side by side.
Matrix rows_together(const Matrix& blocks, Index columns) {
  const Index count = blocks.cols() / columns;
  Matrix all(blocks.rows() * count, columns);
  for (Index i = 0; i < count; ++i)
    all.middleRows(i * blocks.rows(), blocks.rows()) = blocks.middleCols(i * columns, columns);
  return all;
}

Matrix own_rows(const Matrix& all, const RankPlace& p) {
  const Index rows = all.rows() / p.sharding.tensor;
  return all.middleRows(rows * p.tensor, rows);
}

/// Defines the loss. Forward: from `output` to `loss`. Backward: to output.d.
void loss_nodes(Graph& g, const RankPlace& p, const MlpShape& shape, const Batch& batch) {
  const Matrix target = targets_of(p, shape, batch);
  const bool squares = shape.loss == MlpLoss::mean_squared_error;
  g.node("loss", [&g, target, squares, scale = batch.scale] {
    const Matrix& y = g["output"];
    const double sum = squares ? (y - target).squaredNorm() / 2 : softmax_loss(y, target);
    return Matrix::Constant(1, 1, sum * scale);
  });
  g.node("output.d", [&g, target, squares, scale = batch.scale] {
    if (squares) return Matrix((g["output"] - target) * scale);
    return Matrix(softmax_loss_gradient(g["output"], target) * scale);
  });
}

/// Defines the end of a layer. Forward: from `y` to the input of the next layer or of the loss. Backward: to y.d.
void output_nodes(Graph& g, const RankPlace& p, const MlpShape& shape, const RankLayer& layer, const Batch& batch) {
  const bool gathers = linear_way(shape, layer.number, p.sharding) == LinearWay::gathered_columns, last = layer.last;
  const std::string out = last ? "output" : "out", out_gradient = last ? "output.d" : "dout";
  // tanh is computed from exp, which Eigen vectorizes. The result is exact to 2⁻⁵³ of 1.
  g.node("activated", [&g, last] { return last ? g["y"] : Matrix(1 - 2 / (1 + (2 * g["y"].array()).exp())); });
  g.exchange("linear.gather", "activated");
  g.node(out, [&g, columns = Index{p.task.micro_batch_size}] { return rows_together(g["linear.gather"], columns); });
  g.node("y.d", [&g, p, gathers, last, out_gradient] {
    const Matrix d = gathers ? own_rows(g[out_gradient], p) : g[out_gradient];
    return last ? d : Matrix(d.array() * (1 - g["activated"].array().square()));
  });
  if (last) loss_nodes(g, p, shape, batch);
}

}  // namespace

TensorShards mlp_tensors(const RankPlace& p, const MlpShape& shape, int number) {
  const Index in = shape.widths.at(number), out = shape.widths.at(number + 1);
  const LinearWay split = linear_way(shape, number, p.sharding);
  std::vector<Index> rows = span(0, out), columns = span(0, in);
  if (by_rows(split))
    columns = part(in, p.tensor, p.sharding.tensor);
  else if (split != LinearWay::whole)
    rows = part(out, p.tensor, p.sharding.tensor);
  TensorShards shards;
  TensorShard& weight = shards["linear.weight"] = TensorShard::cut(out, rows, columns);
  weight.spread = std::sqrt(6.0 / static_cast<double>(in + out));
  TensorShard& bias = shards["linear.bias"] = TensorShard::cut(out, rows, {0});
  bias.spread = 0.1;
  return shards;
}

Index mlp_input_rows(const RankPlace& p, const MlpShape& shape, int number) {
  const Index width = shape.widths.at(number);
  return linear_way(shape, number, p.sharding) == LinearWay::rows ? width / p.sharding.tensor : width;
}

void mlp_layer(Graph& g, const RankPlace& p, const MlpShape& shape, const RankLayer& layer, const Batch& batch) {
  const LayerShard& s = *layer.shard;
  const LinearWay split = linear_way(shape, layer.number, p.sharding);
  const bool first = layer.number == 0, sums = by_rows(split);
  if (first) g.node("x", [p, batch, shape] { return inputs_of(p, shape, batch); });
  g.node("inputs", [&g, p, split] { return split == LinearWay::spread_rows ? own_rows(g["x"], p) : g["x"]; });
  linear(g, s, {.name = "linear", .in = "inputs", .in_for_weights = "inputs", .out_gradient = "y.d", .bias = !sums});
  g.exchange("linear.reduce", "linear");
  if (sums)
    add_bias(g, s, "linear.bias", "y", "linear.reduce", "y.d");
  else
    g.node("y", [&g] { return g["linear.reduce"]; });
  output_nodes(g, p, shape, layer, batch);
  if (first) return;
  g.exchange("linear.reduce.backward", "linear.d");
  g.exchange("linear.gather.backward", "linear.reduce.backward");
  g.node("dx", [&g, columns = Index{p.task.micro_batch_size}] {
    return rows_together(g["linear.gather.backward"], columns);
  });
}

}  // namespace trainyard::numeric
