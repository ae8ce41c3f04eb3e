// Projections, rotary embedding and attention of a rank's heads, and the exchanges of the context axis.
#include <cmath>
#include <limits>

#include "sim/error.hpp"
#include "strategies/values/layers/graph.hpp"
#include "strategies/values/layers/layers.hpp"
#include "strategies/values/layers/operators.hpp"
#include "strategies/values/layers/place.hpp"
#include "strategies/values/layers/product.hpp"

namespace trainyard::numeric {
namespace {

/// Heads and widths of one attention. Columns of matrices are tokens; rows are the heads one after another. If there
/// are fewer heads of keys and values, several consecutive query heads share one (Ainslie et al. 2023, GQA).
struct AttentionHeads {
  Index heads = 1, key_value_heads = 1, width = 1;
  bool causal = true;
  Index window = 0;  ///< number of positions that a token attends to, including its own; 0: all

  Index query_rows() const { return heads * width; }
  Index key_rows() const { return key_value_heads * width; }
};

struct AttentionGradient {
  Matrix q, kv;
};

constexpr double kRotaryBase = 10000;

bool attends(const AttentionHeads& h, const Tokens& queries, std::size_t q, const Tokens& keys, std::size_t k) {
  if (queries.sample[q] != keys.sample[k]) return false;
  const Index back = queries.position[q] - keys.position[k];
  return (!h.causal || back >= 0) && (h.window == 0 || back < h.window);
}

/// Scores of one head: queries × keys, −∞ for keys that a query does not attend to.
Matrix scores(const AttentionHeads& h, const Eigen::Ref<const Matrix>& q, const Eigen::Ref<const Matrix>& k,
              const Tokens& queries, const Tokens& keys) {
  Matrix s = times(q.transpose(), k, "scores") / std::sqrt(static_cast<double>(h.width));
  for (Index i = 0; i < s.rows(); ++i)
    for (Index j = 0; j < s.cols(); ++j)
      if (!attends(h, queries, static_cast<std::size_t>(i), keys, static_cast<std::size_t>(j)))
        s(i, j) = -std::numeric_limits<double>::infinity();
  return s;
}

void check(const AttentionHeads& h, const Matrix& q, const Matrix& kv, const Tokens& queries, const Tokens& keys) {
  if (q.rows() != h.query_rows() || kv.rows() != 2 * h.key_rows() || q.cols() != queries.size() ||
      kv.cols() != keys.size())
    throw InternalError("attention: queries, keys and their tokens do not fit");
}

/// softmax(qᵀk / √width)·v over the keys that a query attends to. Below the output, the result has one row for each
/// head: the logarithm of the sum of exponentials of each query, which the gradients of all blocks of keys need. kv:
/// keys above values.
Matrix attend(const AttentionHeads& h, const Matrix& q, const Matrix& kv, const Tokens& queries, const Tokens& keys) {
  check(h, q, kv, queries, keys);
  Matrix out(h.query_rows() + h.heads, q.cols());
  for (Index head = 0; head < h.heads; ++head) {
    const Index shared = head * h.key_value_heads / h.heads * h.width;
    Matrix p = scores(h, q.middleRows(head * h.width, h.width), kv.middleRows(shared, h.width), queries, keys);
    const Eigen::VectorXd largest = p.rowwise().maxCoeff();
    p = (p.colwise() - largest).array().exp();
    const Eigen::VectorXd sums = p.rowwise().sum();
    out.middleRows(head * h.width, h.width) =
        times(kv.middleRows(h.key_rows() + shared, h.width), p.transpose(), "attended");
    out.middleRows(head * h.width, h.width).array().rowwise() /= sums.transpose().array();
    out.row(h.query_rows() + head) = (largest.array() + sums.array().log()).transpose();
  }
  return out;
}

/// Gradients by queries, and by keys above values, from one block of keys and values. `attended`: the result of
/// `attend` for all blocks.
AttentionGradient attend_gradient(const AttentionHeads& h, const Matrix& q, const Matrix& kv, const Tokens& queries,
                                  const Tokens& keys, const Matrix& attended, const Matrix& out_gradient) {
  check(h, q, kv, queries, keys);
  if (out_gradient.rows() != h.query_rows() || out_gradient.cols() != q.cols())
    throw InternalError("attention: output and gradient differ in size");
  AttentionGradient d{Matrix::Zero(q.rows(), q.cols()), Matrix::Zero(kv.rows(), kv.cols())};
  const double scale = 1 / std::sqrt(static_cast<double>(h.width));
  for (Index head = 0; head < h.heads; ++head) {
    const Index first = head * h.width, key = head * h.key_value_heads / h.heads * h.width, value = h.key_rows() + key;
    const auto dout = out_gradient.middleRows(first, h.width);
    Matrix p = scores(h, q.middleRows(first, h.width), kv.middleRows(key, h.width), queries, keys);
    p = (p.colwise() - attended.row(h.query_rows() + head).transpose()).array().exp();
    const Eigen::VectorXd along = dout.cwiseProduct(attended.middleRows(first, h.width)).colwise().sum().transpose();
    Matrix ds = times(dout.transpose(), kv.middleRows(value, h.width), "gradient of scores");
    ds.colwise() -= along;
    ds = scale * ds.cwiseProduct(p);
    d.q.middleRows(first, h.width) += times(kv.middleRows(key, h.width), ds.transpose(), "gradient of queries");
    d.kv.middleRows(key, h.width) += times(q.middleRows(first, h.width), ds, "gradient of keys");
    d.kv.middleRows(value, h.width) += times(dout, p, "gradient of values");
  }
  return d;
}

/// Rotary embedding: rotates each pair (i, i + width / 2) of a head by the angle `sign` · position · 10000^(−2i /
/// width) (Su et al. 2021).
Matrix apply_rotary(const Matrix& x, Index width, const Tokens& tokens, double sign) {
  if (x.cols() != tokens.size() || x.rows() % width != 0) throw InternalError("rotary: rows or tokens do not fit");
  Matrix y = x;
  const Index half = width / 2;
  for (Index column = 0; column < x.cols(); ++column)
    for (Index i = 0; i < half; ++i) {
      const double position = static_cast<double>(tokens.position[column]);
      const double exponent = -2 * static_cast<double>(i) / static_cast<double>(width);
      const double angle = sign * position * std::pow(kRotaryBase, exponent);
      for (Index head = 0; head < x.rows(); head += width) {
        const double a = x(head + i, column), b = x(head + i + half, column);
        y(head + i, column) = a * std::cos(angle) - b * std::sin(angle);
        y(head + i + half, column) = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  return y;
}

AttentionHeads heads_of(const RankPlace& p, int parts) {
  const TransformerConfig& c = p.config();
  return {c.num_attention_heads / parts, c.num_key_value_heads / parts, c.head_dim, c.causal, c.sliding_window};
}

Matrix stack(const std::vector<Matrix>& parts) {
  Index rows = 0, position = 0;
  for (const Matrix& part : parts) rows += part.rows();
  Matrix all(rows, parts.front().cols());
  for (const Matrix& part : parts) {
    all.middleRows(position, part.rows()) = part;
    position += part.rows();
  }
  return all;
}

void append(Matrix& to, const Matrix& columns) {
  Matrix both(columns.rows(), to.cols() + columns.cols());
  if (to.cols() > 0) both.leftCols(to.cols()) = to;
  both.rightCols(columns.cols()) = columns;
  to = both;
}

void append(Tokens& to, const Tokens& more) {
  to.sample.insert(to.sample.end(), more.sample.begin(), more.sample.end());
  to.position.insert(to.position.end(), more.position.begin(), more.position.end());
}

Matrix flat(const Matrix& m) { return Eigen::Map<const Matrix>(m.data(), m.size(), 1); }

/// Blocks of an all-to-all, one in each column. Each part is cut into `count` equal runs of rows; block j consists of
/// run j of each part.
Matrix heads_apart(const std::vector<Matrix>& parts, int count) {
  Matrix blocks;
  for (int j = 0; j < count; ++j) {
    std::vector<Matrix> cut;
    for (const Matrix& m : parts) cut.emplace_back(m.middleRows(m.rows() / count * j, m.rows() / count));
    append(blocks, flat(stack(cut)));
  }
  return blocks;
}

/// The inverse of `heads_apart` for one part: joins the runs of part `which`. `rows`: number of rows of each part.
Matrix heads_together(const Matrix& blocks, const std::vector<Index>& rows, std::size_t which) {
  const Index count = blocks.cols();
  Index all = 0, first = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i < which) first += rows[i] / count;
    all += rows[i] / count;
  }
  std::vector<Matrix> runs;
  for (Index j = 0; j < count; ++j) {
    const Eigen::Map<const Matrix> block(blocks.col(j).data(), all, blocks.rows() / all);
    runs.emplace_back(block.middleRows(first, rows[which] / count));
  }
  return stack(runs);
}

/// Cuts a matrix into blocks of equal runs of columns, one block in each column.
Matrix tokens_apart(const Matrix& m, int count) { return Eigen::Map<const Matrix>(m.data(), m.size() / count, count); }
/// The inverse of `tokens_apart`.
Matrix tokens_together(const Matrix& blocks, Index rows) {
  return Eigen::Map<const Matrix>(blocks.data(), rows, blocks.size() / rows);
}

/// Defines the projections. Forward: from `in` to q, k and v. Backward: from q.d, k.d and v.d to qkv.in.d.
void projections(Graph& g, const RankPlace& p, const LayerShard& s, const std::string& in,
                 const std::string& weights_in) {
  const TransformerConfig& c = p.config();
  const AttentionHeads h = heads_of(p, p.sharding.tensor);
  const bool rotary = c.position_embedding == PositionEmbedding::rotary;
  const auto rotate = [&g, rotary, h, tokens = p.tokens()](const std::string& name, double sign) {
    return rotary ? apply_rotary(g[name], h.width, tokens, sign) : g[name];
  };
  const auto linear_from = [&](const std::string& name) {
    linear(g, s,
           {.name = name, .in = in, .in_for_weights = weights_in, .out_gradient = name + ".out.d", .bias = c.qkv_bias});
  };
  if (s.has("qkv.weight")) {
    linear_from("qkv");
    g.node("q.out", [&g, h] { return Matrix(g["qkv"].topRows(h.query_rows())); });
    g.node("k.out", [&g, h] { return Matrix(g["qkv"].middleRows(h.query_rows(), h.key_rows())); });
    g.node("v.out", [&g, h] { return Matrix(g["qkv"].bottomRows(h.key_rows())); });
    g.node("qkv.out.d", [&g] { return stack({g["q.out.d"], g["k.out.d"], g["v.out.d"]}); });
    g.node("v.out.d", [&g] { return g["v.rotated.d"]; });
    g.node("qkv.in.d", [&g] { return g["qkv.d"]; });
  } else {
    for (const char* name : {"q", "k", "v"}) {
      linear_from(name);
      g.node(std::string(name) + ".out", [&g, name] { return g[name]; });
    }
    g.node("v.out.d", [&g] { return g["v.rotated.d"]; });
    sum(g, "qk.in.d", "q.d", "k.d");
    sum(g, "qkv.in.d", "qk.in.d", "v.d");
  }
  for (const std::string name : {"q", "k"}) {
    const std::string normed = c.head_norms == HeadNorms::one_a_head ? name + "_norm" : name + ".out";
    if (c.head_norms == HeadNorms::one_a_head) {
      norm(g, s, {normed, name + ".out", normed + ".out.d", c.norm});
      g.node(normed + ".out.d", [rotate, name] { return rotate(name + ".rotated.d", -1); });
      g.node(name + ".out.d", [&g, normed] { return g[normed + ".d"]; });
    } else {
      g.node(name + ".out.d", [rotate, name] { return rotate(name + ".rotated.d", -1); });
    }
    g.node(name + ".rotated", [rotate, normed] { return rotate(normed, 1); });
  }
}

std::string numbered(const char* before, int i, const char* after = "") { return before + std::to_string(i) + after; }

/// Ring attention: blocks of keys and values circulate, so that in step i a rank has the block of the rank i places
/// before it. Computes nodes attended, q.core.d and kv.core.d from q.core, kv.core and attended.d.
void ring(Graph& g, const RankPlace& p, const AttentionHeads& h) {
  const int c = p.sharding.ring_ranks(), heads = p.sharding.head_ranks(), index = p.context / heads;
  std::vector<Tokens> tokens(static_cast<std::size_t>(c));  // for each step, those of all ranks that exchange heads
  for (int i = 0; i < c; ++i)
    for (int j = 0; j < heads; ++j) append(tokens[i], p.tokens((index - i + c) % c * heads + j));
  const auto block = [](int i, const char* back) {
    return i == 0 ? std::string("kv.core") : numbered("attention.keys.", i - 1, back);
  };
  for (int i = 0; i + 1 < c; ++i) {
    g.exchange(block(i + 1, ""), block(i, ""));
    g.exchange(block(i + 1, ".backward"), block(i, ".backward"));
  }
  g.node("attended", [&g, h, c, tokens, block] {
    Matrix kv;
    Tokens keys;
    for (int i = 0; i < c; ++i) {
      append(kv, g[block(i, "")]);
      append(keys, tokens[i]);
    }
    return attend(h, g["q.core"], kv, tokens[0], keys);
  });
  const auto step = [&g, h, tokens, block](int i) {
    return attend_gradient(h, g["q.core"], g[block(i, ".backward")], tokens[0], tokens[i], g["attended"],
                           g["attended.d"]);
  };
  g.node("q.core.d", [step, c] {
    Matrix d = step(0).q;
    for (int i = 1; i < c; ++i) d += step(i).q;
    return d;
  });
  for (int i = 0; i < c; ++i) {  // the gradients of a block circulate with it and end on its own rank
    const std::string from_others = numbered("attention.key_gradients.", i - 1);
    g.node(numbered("kv.step.", i), [&g, step, i, from_others] {
      return i == 0 ? step(i).kv : plus(step(i).kv, g[from_others], "gradients of keys");
    });
    g.exchange(numbered("attention.key_gradients.", i), numbered("kv.step.", i));
  }
  g.node("kv.core.d", [&g, c] { return g[numbered("attention.key_gradients.", c - 1)]; });
}

}  // namespace

void self_attention(Graph& g, const RankPlace& p, const LayerShard& s, const std::string& in,
                    const std::string& weights_in, const std::string& out_gradient) {
  projections(g, p, s, in, weights_in);
  const int parts = p.sharding.head_ranks();
  const AttentionHeads h = heads_of(p, p.sharding.tensor), core = heads_of(p, p.sharding.tensor * parts);
  const Index core_rows = core.query_rows() + 2 * core.key_rows();
  g.node("heads.blocks", [&g, parts] { return heads_apart({g["q.rotated"], g["k.rotated"], g["v.out"]}, parts); });
  g.exchange("attention.heads", "heads.blocks");
  const auto all = [&g, core_rows] { return tokens_together(g["attention.heads"], core_rows); };
  g.node("q.core", [all, core] { return Matrix(all().topRows(core.query_rows())); });
  g.node("kv.core", [all, core] { return Matrix(all().bottomRows(2 * core.key_rows())); });
  ring(g, p, core);
  g.node("tokens.blocks", [&g, core, parts] { return tokens_apart(g["attended"].topRows(core.query_rows()), parts); });
  g.exchange("attention.tokens", "tokens.blocks");
  g.node("attention.heads.out", [&g, h] { return heads_together(g["attention.tokens"], {h.query_rows()}, 0); });

  g.node("tokens.blocks.d", [&g, out_gradient, parts] { return heads_apart({g[out_gradient]}, parts); });
  g.exchange("attention.tokens.backward", "tokens.blocks.d");
  g.node("attended.d", [&g, core] { return tokens_together(g["attention.tokens.backward"], core.query_rows()); });
  g.node("heads.blocks.d", [&g, parts] { return tokens_apart(stack({g["q.core.d"], g["kv.core.d"]}), parts); });
  g.exchange("attention.heads.backward", "heads.blocks.d");
  const std::vector<Index> rows{h.query_rows(), h.key_rows(), h.key_rows()};
  std::size_t which = 0;
  for (const char* name : {"q.rotated.d", "k.rotated.d", "v.rotated.d"}) {
    g.node(name, [&g, rows, which] { return heads_together(g["attention.heads.backward"], rows, which); });
    ++which;
  }
}

}  // namespace trainyard::numeric
