// A transformer block: attention, then a feed-forward part or experts. Each has a norm before it and is added to its
// input.
// The embedding and the head of a transformer. Both are split by the vocabulary.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "sim/error.hpp"
#include "strategies/values/layers/layers.hpp"
#include "strategies/values/layers/operators.hpp"
#include "strategies/values/layers/product.hpp"

namespace trainyard::numeric {
namespace {

constexpr double kNormSpread = 0.2, kBiasSpread = 0.1;

/// Adds a matrix of `out` × `in`, of which the rank has `rows` and `columns`. Initial values are proportional to 1 /
/// √in, so that activations are of order 1.
void add_linear(TensorShards& shards, const std::string& name, Index out, const std::vector<Index>& rows, Index in,
                const std::vector<Index>& columns, bool bias) {
  TensorShard& weight = shards[name + ".weight"] = TensorShard::cut(out, rows, columns);
  weight.spread = 1.5 / std::sqrt(static_cast<double>(in));
  if (!bias) return;
  TensorShard& b = shards[name + ".bias"] = TensorShard::cut(out, rows, {0});
  b.spread = kBiasSpread;
}

void append(std::vector<Index>& to, const std::vector<Index>& numbers, Index shift) {
  for (const Index number : numbers) to.push_back(shift + number);
}

void attention_tensors(TensorShards& shards, const RankPlace& p, bool fused) {
  const TransformerConfig& c = p.config();
  const int t = p.sharding.tensor;
  const Index hidden = c.hidden_size, query = c.num_attention_heads * c.head_dim;
  const Index key = c.num_key_value_heads * c.head_dim;
  const std::vector<Index> all = span(0, hidden), queries = part(query, p.tensor, t), keys = part(key, p.tensor, t);
  add_norm(shards, c.norm, "attention_norm", hidden);
  if (fused) {
    std::vector<Index> rows = queries;
    append(rows, keys, query);
    append(rows, keys, query + key);
    add_linear(shards, "qkv", query + 2 * key, rows, hidden, all, c.qkv_bias);
  } else {
    add_linear(shards, "q", query, queries, hidden, all, c.qkv_bias);
    for (const char* name : {"k", "v"}) add_linear(shards, name, key, keys, hidden, all, c.qkv_bias);
  }
  if (c.head_norms == HeadNorms::one_a_head)
    for (const char* name : {"q_norm", "k_norm"}) add_norm(shards, c.norm, name, c.head_dim);
  add_linear(shards, "projection", hidden, all, query, queries, c.attention_output_bias);
}

/// Adds the tensors of a feed-forward part or of one expert. `inner`: the hidden columns that the rank has. `fused`:
/// gate and up are one matrix.
void feed_forward_tensors(TensorShards& shards, const RankPlace& p, const std::string& prefix, Index width,
                          const std::vector<Index>& inner, bool fused) {
  const TransformerConfig& c = p.config();
  const Index hidden = c.hidden_size;
  const std::vector<Index> all = span(0, hidden);
  if (c.gated_mlp && fused) {
    std::vector<Index> both = inner;
    append(both, inner, width);
    add_linear(shards, prefix + "gate_up", 2 * width, both, hidden, all, c.mlp_bias);
  } else {
    std::vector<std::string> names{"fc1"};
    if (c.gated_mlp) names = {"gate", "up"};
    for (const std::string& name : names) add_linear(shards, prefix + name, width, inner, hidden, all, c.mlp_bias);
  }
  add_linear(shards, prefix + (c.gated_mlp ? "down" : "fc2"), hidden, all, width, inner, c.mlp_bias);
}

void expert_tensors(TensorShards& shards, const RankPlace& p, bool fused) {
  const TransformerConfig& c = p.config();
  add_linear(shards, "router", c.experts.count, span(0, c.experts.count), c.hidden_size, span(0, c.hidden_size), false);
  TensorShards expert_shards;
  const Index width = c.experts.intermediate_size, parts = p.sharding.expert_shards();
  feed_forward_tensors(expert_shards, p, "experts.", width, part(width, p.expert_tensor, p.sharding.expert_shards()),
                       fused);
  for (const auto& [name, matrix] : expert_shards) {
    TensorShard& shard = shards[name];
    const Index elements = static_cast<Index>(matrix.numbers.size()) * parts;
    for (const Index expert : part(c.experts.count, p.expert, p.sharding.expert)) shard.add(matrix, expert, elements);
    shard.spread = matrix.spread;
    shard.expert = true;
  }
}

bool has_experts(const TransformerConfig& c, int number) {
  return c.experts.count > 0 && number - 1 >= c.experts.first_layer;  // layer 0 is the embedding
}

/// Adds exchange `name`, which repeats exchange `first` for a result that a sequence-parallel rank has discarded. If
/// `name` is not listed, its value is that of `first`.
void repeat_exchange(Graph& g, const std::string& name, const std::string& first, const std::string& source) {
  g.exchange(name, g.is_listed(name) ? source : first);
}

/// Adds the exchanges at both ends of a branch. Forward: `source` to `branch`.gather, and `branch`.out to
/// `branch`.scatter. Backward: `dout` to `branch`.scatter.backward, and `branch`.in.d to `branch`.gather.backward.
void branch_exchanges(Graph& g, const std::string& branch, const std::string& source, const std::string& dout) {
  g.exchange(branch + ".gather", source);
  repeat_exchange(g, branch + ".regather", branch + ".gather", source);
  g.exchange(branch + ".reduce.backward", branch + ".in.d");
  g.exchange(branch + ".gather.backward", branch + ".reduce.backward");
  g.exchange(branch + ".reduce", branch + ".out");
  g.exchange(branch + ".scatter", branch + ".reduce");
  g.exchange(branch + ".scatter.backward", dout);
}

constexpr double kEmbeddingSpread = 0.5, kPositionSpread = 0.3;

/// A rank's rows of the vocabulary, which is padded so that all ranks have the same number of rows.
std::vector<Index> vocabulary(const RankPlace& p) { return part(p.vocabulary, p.tensor, p.sharding.tensor); }

TensorShard vocabulary_shard(const RankPlace& p) {
  TensorShard shard = TensorShard::cut(p.config().vocab_size, vocabulary(p), span(0, p.config().hidden_size));
  shard.spread = kEmbeddingSpread;
  return shard;
}

/// Returns for each token the word that is `ahead` positions later; 1 is the word to predict.
std::vector<Index> words(const RankPlace& p, const Batch& batch, const Tokens& tokens, Index ahead) {
  std::vector<Index> result;
  for (std::size_t i = 0; i < tokens.sample.size(); ++i) {
    if (const Sentences* sentences = p.task.sentences.get()) {
      const Index sample = (batch.first_sample + tokens.sample[i]) % sentences->cols();
      result.push_back((*sentences)(tokens.position[i] + ahead, sample));
      continue;
    }
    Draw draw(p.task.seed);
    draw << "words" << static_cast<std::uint64_t>(batch.first_sample + tokens.sample[i])
         << static_cast<std::uint64_t>(tokens.position[i] + ahead);
    result.push_back(static_cast<Index>(draw.integer_below(static_cast<std::uint64_t>(p.config().vocab_size))));
  }
  return result;
}

/// Rows of words in the rank's part of the table; −1 for a word that another rank has.
std::vector<Index> local_rows(const RankPlace& p, const std::vector<Index>& table_words) {
  const std::vector<Index> own_words = vocabulary(p);
  std::vector<Index> rows;
  for (const Index word : table_words)
    rows.push_back(word >= own_words.front() && word <= own_words.back() ? word - own_words.front() : -1);
  return rows;
}

/// Column i of the result is row rows[i] of the table, or 0 if that is −1.
Matrix look_up(const Eigen::Ref<const Matrix>& table, const std::vector<Index>& rows) {
  Matrix result = Matrix::Zero(table.cols(), static_cast<Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] >= 0) result.col(static_cast<Index>(i)) = table.row(rows[i]).transpose();
  return result;
}

Matrix scatter(const Matrix& columns, const std::vector<Index>& rows, Index table_rows) {
  if (columns.cols() != static_cast<Index>(rows.size())) throw InternalError("embedding: gradient of other tokens");
  Matrix table = Matrix::Zero(table_rows, columns.rows());
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] >= 0) table.row(rows[i]) += columns.col(static_cast<Index>(i)).transpose();
  return table;
}

using Table = std::function<Eigen::Map<const Matrix>()>;

/// Defines the loss. Forward: from "head.gather" to "loss". Backward: to "output.d". The rank has the logits of
/// `own_words` words; row targets[i] is the target of token i (−1: another rank has it).
void vocabulary_loss(Graph& g, const Table& table, const std::vector<Index>& targets, Index own_words, double scale) {
  g.node("output", [&g, table, own_words] {
    Matrix logits = times(table(), g["head.gather"], "output");
    logits.bottomRows(logits.rows() - own_words).setConstant(-std::numeric_limits<double>::infinity());
    return logits;
  });
  // Exponents are shifted by the largest logit. Any number would do that is the same on all ranks.
  g.node("largest", [&g, own_words] {
    return own_words > 0 ? Matrix(g["output"].colwise().maxCoeff()) : Matrix::Zero(1, g["output"].cols());
  });
  g.exchange("head.maximum", "largest");
  g.node("sums", [&g, targets] {  // the sum of exponentials, and the target's logit if this rank has it
    const Matrix& logits = g["output"];
    const Matrix& shift = g["head.maximum"];
    Matrix sums = Matrix::Zero(2, logits.cols());
    for (Index i = 0; i < logits.cols(); ++i) {
      sums(0, i) = (logits.col(i).array() - shift(0, i)).exp().sum();
      const Index target = targets[i];
      if (target >= 0) sums(1, i) = logits(target, i) - shift(0, i);
    }
    return sums;
  });
  g.exchange("head.sums", "sums");
  g.node("loss", [&g, scale] {
    const Matrix& sums = g["head.sums"];
    return Matrix::Constant(1, 1, (sums.row(0).array().log() - sums.row(1).array()).sum() * scale);
  });
  g.node("output.d", [&g, targets, scale] {
    const Matrix &shift = g["head.maximum"], &sums = g["head.sums"];
    Matrix d = g["output"];
    for (Index i = 0; i < d.cols(); ++i) {
      d.col(i) = (d.col(i).array() - shift(0, i)).exp() / sums(0, i);
      const Index target = targets[i];
      if (target >= 0) d(target, i) -= 1;
    }
    return Matrix(d * scale);
  });
}

}  // namespace

void add_norm(TensorShards& shards, Norm kind, const std::string& name, Index width) {
  TensorShard shard = TensorShard::cut(width, span(0, width), {0});
  shard.spread = kNormSpread;
  if (kind == Norm::layer_norm) shards[name + ".bias"] = shard;
  shard.mean = 1;
  shards[name + ".weight"] = shard;
}

TensorShards block_tensors(const RankPlace& p, int number, const Layer& layer) {
  const auto has = [&layer](const char* name) {
    return std::ranges::find(layer.parameters, name, &ParameterTensor::name) != layer.parameters.end();
  };
  TensorShards shards;
  attention_tensors(shards, p, has("qkv.weight"));
  add_norm(shards, p.config().norm, "mlp_norm", p.config().hidden_size);
  if (has_experts(p.config(), number))
    expert_tensors(shards, p, has("experts.gate_up.weight"));
  else
    feed_forward_tensors(shards, p, "", p.config().intermediate_size,
                         part(p.config().intermediate_size, p.tensor, p.sharding.tensor), has("gate_up.weight"));
  return shards;
}

void block(Graph& g, const RankPlace& p, const RankLayer& layer) {
  const TransformerConfig& c = p.config();
  const LayerShard& s = *layer.shard;
  norm(g, s, {"attention_norm", "x", "attention.gather.backward", c.norm});
  branch_exchanges(g, "attention", "attention_norm", "residual.d");
  self_attention(g, p, s, "attention.gather", "attention.regather", "projection.d");
  linear(g, s,
         {.name = "projection",
          .in = "attention.heads.out",
          .in_for_weights = "attention.heads.out",
          .out_gradient = "attention.scatter.backward"});
  g.node("attention.out", [&g] { return g["projection"]; });
  g.node("attention.in.d", [&g] { return g["qkv.in.d"]; });
  if (c.attention_output_bias) add_bias(g, s, "projection.bias", "attention.biased", "attention.scatter", "residual.d");
  sum(g, "residual", "x", c.attention_output_bias ? "attention.biased" : "attention.scatter");

  norm(g, s, {"mlp_norm", "residual", "mlp.gather.backward", c.norm});
  branch_exchanges(g, "mlp", "mlp_norm", "dout");
  const bool moe = has_experts(c, layer.number);
  if (moe)
    experts(g, p, s, "mlp.gather", "mlp.regather", "mlp.scatter.backward");
  else
    feed_forward(g, s,
                 {.prefix = "",
                  .in = "mlp.gather",
                  .in_for_weights = "mlp.regather",
                  .out_gradient = "mlp.scatter.backward",
                  .activation = c.activation,
                  .gated = c.gated_mlp,
                  .bias = c.mlp_bias});
  g.node("mlp.out", [&g, moe] { return g[moe ? "experts.sum" : "ffn.out"]; });
  g.node("mlp.in.d", [&g, moe] { return g[moe ? "experts.sum.d" : "ffn.in.d"]; });
  const bool bias = c.mlp_bias && !moe;
  if (bias) add_bias(g, s, c.gated_mlp ? "down.bias" : "fc2.bias", "mlp.biased", "mlp.scatter", "dout");
  sum(g, "out", "residual", bias ? "mlp.biased" : "mlp.scatter");
  sum(g, "residual.d", "dout", "mlp_norm.d");
  sum(g, "dx", "residual.d", "attention_norm.d");
}

TensorShards embedding_tensors(const RankPlace& p) {
  const TransformerConfig& c = p.config();
  TensorShards shards;
  shards["token_embedding.weight"] = vocabulary_shard(p);
  if (c.position_embedding == PositionEmbedding::learned) {
    const Index positions = c.max_position_embeddings, hidden = c.hidden_size;
    TensorShard& shard = shards["position_embedding.weight"];
    shard = TensorShard::cut(positions, span(0, positions), span(0, hidden));
    shard.spread = kPositionSpread;
  }
  return shards;
}

TensorShards head_tensors(const RankPlace& p, bool own_tied) {
  const TransformerConfig& c = p.config();
  TensorShards shards;
  add_norm(shards, c.norm, "final_norm", c.hidden_size);
  if (!c.tie_word_embeddings || own_tied) shards["output.weight"] = vocabulary_shard(p);
  return shards;
}

void embedding(Graph& g, const RankPlace& p, const RankLayer& layer, const Batch& batch) {
  const LayerShard& s = *layer.shard;
  const std::vector<Index> rows = local_rows(p, words(p, batch, p.tokens(), 0));
  const bool positions = p.config().position_embedding == PositionEmbedding::learned;
  const std::string tokens = "token_embedding.weight", position_table = "position_embedding.weight";
  g.node("token_embedding", [&s, rows, tokens] { return look_up(s.matrix(tokens), rows); });
  g.exchange("embedding.reduce", "token_embedding");
  g.exchange("embedding.scatter", "embedding.reduce");
  g.node("out", [&g, &s, positions, own_positions = p.own_tokens().position, position_table] {
    const Matrix& sum = g["embedding.scatter"];
    return positions ? plus(sum, look_up(s.matrix(position_table), own_positions), "positions") : sum;
  });
  g.exchange("embedding.gather", "dout");
  g.node(gradient_of(tokens),
         [&g, &s, rows, tokens] { return scatter(g["embedding.gather"], rows, s.matrix(tokens).rows()); });
  if (positions)
    g.node(gradient_of(position_table), [&g, &s, own_positions = p.own_tokens().position, position_table] {
      return scatter(g["dout"], own_positions, s.matrix(position_table).rows());
    });
}

void head(Graph& g, const RankPlace& p, const RankLayer& layer, const Batch& batch) {
  const LayerShard& s = *layer.shard;
  const LayerShard& owner = layer.tied ? *layer.tied : s;
  const std::string weight = layer.tied ? "token_embedding.weight" : "output.weight";
  const Table table = [&owner, weight] { return owner.matrix(weight); };
  const std::vector<Index> targets = local_rows(p, words(p, batch, p.tokens(), 1));
  const std::vector<Index> rows = vocabulary(p);
  const Index own_words = std::max<Index>(0, std::min<Index>(rows.back() + 1, p.config().vocab_size) - rows.front());

  norm(g, s, {"final_norm", "x", "head.gather.backward", p.config().norm});
  g.exchange("head.gather", "final_norm");
  g.exchange("head.regather", g.is_listed("head.regather") ? "final_norm" : "head.gather");
  vocabulary_loss(g, table, targets, own_words, batch.scale);
  g.node("head.in.d", [&g, table] { return times(table().transpose(), g["output.d"], "head.in.d"); });
  g.node(gradient_of(weight), [&g] { return times(g["output.d"], g["head.regather"].transpose(), "output gradient"); });
  g.exchange("head.reduce.backward", "head.in.d");
  g.exchange("head.gather.backward", "head.reduce.backward");
  g.node("dx", [&g] { return g["final_norm.d"]; });
}

}  // namespace trainyard::numeric
