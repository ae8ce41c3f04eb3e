// The embedding and the head of a transformer, both split by the vocabulary.
#include <algorithm>
#include <functional>
#include <limits>

#include "sim/error.hpp"
#include "strategies/values/layers/layers.hpp"
#include "strategies/values/layers/operators.hpp"
#include "strategies/values/layers/product.hpp"

namespace trainyard::numeric {
namespace {

constexpr double kEmbeddingSpread = 0.5, kPositionSpread = 0.3;

/// Rows of the vocabulary that a rank has; it is padded, so that all ranks have as many.
std::vector<Index> vocabulary(const RankPlace& p) { return part(p.vocabulary, p.tensor, p.sharding.tensor); }

TensorShard vocabulary_shard(const RankPlace& p) {
  TensorShard shard = TensorShard::cut(p.config().vocab_size, vocabulary(p), span(0, p.config().hidden_size));
  shard.spread = kEmbeddingSpread;
  return shard;
}

/// Of each token its word, `ahead` positions on: 1 for what is to be predicted.
std::vector<Index> words(const RankPlace& p, const Batch& batch, const Tokens& tokens, Index ahead) {
  std::vector<Index> result;
  for (std::size_t i = 0; i < tokens.sample.size(); ++i) {
    if (const Sentences* given = p.task.sentences.get()) {
      const Index sample = (batch.first_sample + tokens.sample[i]) % given->cols();
      result.push_back((*given)(tokens.position[i] + ahead, sample));
      continue;
    }
    Draw draw(p.task.seed);
    draw << "words" << static_cast<std::uint64_t>(batch.first_sample + tokens.sample[i])
         << static_cast<std::uint64_t>(tokens.position[i] + ahead);
    result.push_back(static_cast<Index>(draw.below(static_cast<std::uint64_t>(p.config().vocab_size))));
  }
  return result;
}

/// Column i of what is looked up is row rows[i] of the table, or 0 where another rank has it.
std::vector<Index> local_rows(const RankPlace& p, const std::vector<Index>& of_words) {
  const std::vector<Index> mine = vocabulary(p);
  std::vector<Index> rows;
  for (const Index word : of_words)
    rows.push_back(word >= mine.front() && word <= mine.back() ? word - mine.front() : -1);
  return rows;
}

Matrix looked_up(const Eigen::Ref<const Matrix>& table, const std::vector<Index>& rows) {
  Matrix result = Matrix::Zero(table.cols(), static_cast<Index>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] >= 0) result.col(static_cast<Index>(i)) = table.row(rows[i]).transpose();
  return result;
}

Matrix scattered(const Matrix& columns, const std::vector<Index>& rows, Index table_rows) {
  if (columns.cols() != static_cast<Index>(rows.size())) throw InternalError("embedding: gradient of other tokens");
  Matrix table = Matrix::Zero(table_rows, columns.rows());
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i] >= 0) table.row(rows[i]) += columns.col(static_cast<Index>(i)).transpose();
  return table;
}

using Table = std::function<Eigen::Map<const Matrix>()>;

/// From "head.gather" to "loss", and back to "output.d": each rank has the logits of `words_here` words, and row targets[i]
/// of them is token i's target (−1: another rank has it).
void vocabulary_loss(Graph& g, const Table& table, const std::vector<Index>& targets, Index words_here, double scale) {
  g.node("output", [&g, table, words_here] {
    Matrix logits = times(table(), g["head.gather"], "output");
    logits.bottomRows(logits.rows() - words_here).setConstant(-std::numeric_limits<double>::infinity());
    return logits;
  });
  // Any number that all ranks agree on will do for what exponents are shifted by.
  g.node("largest", [&g, words_here] {
    return words_here > 0 ? Matrix(g["output"].colwise().maxCoeff()) : Matrix::Zero(1, g["output"].cols());
  });
  g.exchange("head.maximum", "largest");
  g.node("sums", [&g, targets] {  // of exponentials; and the target's logit, where it is
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
  for (const char* name : {"final_norm.weight", "final_norm.bias"}) {
    const bool bias = std::string(name) == "final_norm.bias";
    if (bias && c.norm != Norm::layer_norm) continue;
    TensorShard& shard = shards[name] = TensorShard::cut(c.hidden_size, span(0, c.hidden_size), {0});
    shard.mean = bias ? 0 : 1;
    shard.spread = 0.2;
  }
  if (!c.tie_word_embeddings || own_tied) shards["output.weight"] = vocabulary_shard(p);
  return shards;
}

void embedding(Graph& g, const RankPlace& p, const RankLayer& layer, const Batch& batch) {
  const LayerShard& s = *layer.shard;
  const std::vector<Index> rows = local_rows(p, words(p, batch, p.tokens(), 0));
  const bool positions = p.config().position_embedding == PositionEmbedding::learned;
  const std::string tokens = "token_embedding.weight", at = "position_embedding.weight";
  g.node("token_embedding", [&s, rows, tokens] { return looked_up(s.matrix(tokens), rows); });
  g.exchange("embedding.reduce", "token_embedding");
  g.exchange("embedding.scatter", "embedding.reduce");
  g.node("out", [&g, &s, positions, own = p.own_tokens().position, at] {
    const Matrix& sum = g["embedding.scatter"];
    return positions ? plus(sum, looked_up(s.matrix(at), own), "positions") : sum;
  });
  g.exchange("embedding.gather", "dout");
  g.node(gradient_of(tokens),
         [&g, &s, rows, tokens] { return scattered(g["embedding.gather"], rows, s.matrix(tokens).rows()); });
  if (positions)
    g.node(gradient_of(at),
           [&g, &s, own = p.own_tokens().position, at] { return scattered(g["dout"], own, s.matrix(at).rows()); });
}

void head(Graph& g, const RankPlace& p, const RankLayer& layer, const Batch& batch) {
  const LayerShard& s = *layer.shard;
  const LayerShard& owner = layer.tied ? *layer.tied : s;
  const std::string weight = layer.tied ? "token_embedding.weight" : "output.weight";
  const Table table = [&owner, weight] { return owner.matrix(weight); };
  const std::vector<Index> targets = local_rows(p, words(p, batch, p.tokens(), 1));
  const std::vector<Index> mine = vocabulary(p);
  const Index words_here = std::max<Index>(0, std::min<Index>(mine.back() + 1, p.config().vocab_size) - mine.front());

  norm(g, s, {"final_norm", "x", "head.gather.backward", p.config().norm});
  g.exchange("head.gather", "final_norm");
  g.exchange("head.regather", g.listed("head.regather") ? "final_norm" : "head.gather");
  vocabulary_loss(g, table, targets, words_here, batch.scale);
  g.node("head.in.d", [&g, table] { return times(table().transpose(), g["output.d"], "head.in.d"); });
  g.node(gradient_of(weight), [&g] { return times(g["output.d"], g["head.regather"].transpose(), "output gradient"); });
  g.exchange("head.reduce.backward", "head.in.d");
  g.exchange("head.gather.backward", "head.reduce.backward");
  g.node("dx", [&g] { return g["final_norm.d"]; });
}

}  // namespace trainyard::numeric
