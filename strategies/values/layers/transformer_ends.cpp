// The embedding and the head of a transformer. Both are split by the vocabulary.
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
