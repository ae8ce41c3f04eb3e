// Projections, rotary embedding and attention of a rank's heads, and the exchanges of the context axis.
#include "strategies/values/layers/attention.hpp"
#include "strategies/values/layers/layers.hpp"
#include "strategies/values/layers/operators.hpp"

namespace trainyard::numeric {
namespace {

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
    for (int j = 0; j < heads; ++j)
      append(tokens[static_cast<std::size_t>(i)], p.tokens((index - i + c) % c * heads + j));
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
