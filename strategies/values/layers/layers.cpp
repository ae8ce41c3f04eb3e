#include "strategies/values/layers/layers.hpp"

#include <cmath>

#include "sim/error.hpp"
#include "strategies/values/layers/operators.hpp"

namespace trainyard::numeric {
namespace {

/// Throws InternalError for networks whose values cannot be computed.
void check(const TransformerConfig& c, const Sharding& sharding) {
  const auto refuse = [](bool bad, const char* what) {
    if (bad) throw InternalError(std::string("values know no ") + what);
  };
  refuse(c.num_decoder_layers > 0, "decoders beside encoders");
  refuse(c.norm_place != NormPlace::before, "norms but before a branch");
  refuse(c.one_norm, "branches with one norm");
  refuse(c.head_bias, "biases of output projections");
  refuse(c.head_norms == HeadNorms::all, "norms over all heads");
  refuse(c.full_attention_every > 0 || c.chunked_attention, "windows in some layers");
  refuse(c.attention_sinks, "attention sinks");
  refuse(c.latent.key_value_rank > 0, "latent attention");
  refuse(!c.pattern.empty() || c.attention_gate, "layers of state-space models or linear attention");
  refuse(c.position_embedding == PositionEmbedding::none, "attention without positions");
  refuse(c.position_embedding == PositionEmbedding::relative, "relative positions");
  refuse(c.experts.shared_intermediate_size > 0, "shared experts");
  refuse(c.experts.correction_bias || c.experts.router_bias, "biases of routers");
  refuse(c.experts.layer_interval > 1, "experts in some layers");
  refuse(c.experts.count > 0 && c.mlp_bias, "biases of experts");
  refuse(c.patch_size > 0 || c.type_vocab_size > 0, "images and segments");
  refuse(sharding.expert_capacity > 0, "dropped tokens");
}

// A layer of an MLP. All layers but the last end with tanh. The loss compares the output of the last with a target.

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
  const bool gathers = linear_sharding(shape, layer.number, p.sharding) == LinearSharding::gathered_columns,
             last = layer.last;
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

TensorShards layer_tensors(const RankPlace& p, int number, const Network& network, bool own_tied) {
  const int layers = static_cast<int>(network.layers.size());
  TensorShards shards;
  if (const MlpShape* shape = std::get_if<MlpShape>(&p.task.model)) {
    shards = mlp_tensors(p, *shape, number);
  } else {
    check(p.config(), p.sharding);
    shards = number == 0            ? embedding_tensors(p)
             : number + 1 == layers ? head_tensors(p, own_tied)
                                    : block_tensors(p, number, network.layers[number]);
  }
  for (auto& [name, shard] : shards) shard.drawn_as = std::to_string(number) + " " + name;
  if (own_tied && number + 1 == layers && shards.contains("output.weight"))
    shards["output.weight"].drawn_as = "0 token_embedding.weight";
  return shards;
}

Index input_rows(const RankPlace& p, int number) {
  if (const MlpShape* shape = std::get_if<MlpShape>(&p.task.model)) return mlp_input_rows(p, *shape, number);
  return p.config().hidden_size;
}

void define_layer(Graph& g, const RankPlace& p, const RankLayer& layer, const Batch& batch) {
  if (const MlpShape* shape = std::get_if<MlpShape>(&p.task.model))
    mlp_layer(g, p, *shape, layer, batch);
  else if (layer.number == 0)
    embedding(g, p, layer, batch);
  else if (layer.last)
    head(g, p, layer, batch);
  else
    block(g, p, layer);
}

std::vector<std::string> dropped_after_forward(const Graph& g, const RankPlace& p) {
  std::vector<std::string> names;
  for (const char* part : {"attention", "mlp", "head"})
    if (g.is_listed(std::string(part) + ".regather")) names.push_back(std::string(part) + ".gather");
  for (int i = 0; i + 1 < p.sharding.context; ++i) {
    const std::string keys = "attention.keys." + std::to_string(i);
    if (g.is_listed(keys + ".backward")) names.push_back(keys);
  }
  if (p.sharding.recompute == Recompute::selective) names.push_back("attended");
  return names;
}

TensorShards mlp_tensors(const RankPlace& p, const MlpShape& shape, int number) {
  const Index in = shape.widths.at(number), out = shape.widths.at(number + 1);
  const LinearSharding split = linear_sharding(shape, number, p.sharding);
  std::vector<Index> rows = span(0, out), columns = span(0, in);
  if (by_rows(split))
    columns = part(in, p.tensor, p.sharding.tensor);
  else if (split != LinearSharding::replicated)
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
  return linear_sharding(shape, number, p.sharding) == LinearSharding::rows ? width / p.sharding.tensor : width;
}

void mlp_layer(Graph& g, const RankPlace& p, const MlpShape& shape, const RankLayer& layer, const Batch& batch) {
  const LayerShard& s = *layer.shard;
  const LinearSharding split = linear_sharding(shape, layer.number, p.sharding);
  const bool first = layer.number == 0, sums = by_rows(split);
  if (first) g.node("x", [p, batch, shape] { return inputs_of(p, shape, batch); });
  g.node("inputs", [&g, p, split] { return split == LinearSharding::spread_rows ? own_rows(g["x"], p) : g["x"]; });
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
