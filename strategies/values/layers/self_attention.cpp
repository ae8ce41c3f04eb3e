// Projections, rotary embedding and attention of the heads that a rank has, and what the ranks of the context axis tell
// each other for it.
#include "strategies/values/layers/attention.hpp"
#include "strategies/values/layers/layers.hpp"
#include "strategies/values/layers/operators.hpp"

namespace trainyard::numeric {
namespace {

AttentionHeads heads_of(const RankPlace& p, int of) {
  const TransformerConfig& c = p.config();
  return {c.num_attention_heads / of, c.num_key_value_heads / of, c.head_dim, c.causal, c.sliding_window};
}

Matrix stacked(const std::vector<Matrix>& parts) {
  Index rows = 0, at = 0;
  for (const Matrix& part : parts) rows += part.rows();
  Matrix all(rows, parts.front().cols());
  for (const Matrix& part : parts) {
    all.middleRows(at, part.rows()) = part;
    at += part.rows();
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

/// Blocks of an all-to-all, one a column: of block j the j-th of `of` equal runs of rows of each part.
Matrix heads_apart(const std::vector<Matrix>& parts, int of) {
  Matrix blocks;
  for (int j = 0; j < of; ++j) {
    std::vector<Matrix> cut;
    for (const Matrix& m : parts) cut.emplace_back(m.middleRows(m.rows() / of * j, m.rows() / of));
    append(blocks, flat(stacked(cut)));
  }
  return blocks;
}

/// The other way: part number `which` of `rows`, whose runs of rows came in one block each.
Matrix heads_together(const Matrix& blocks, const std::vector<Index>& rows, std::size_t which) {
  const Index of = blocks.cols();
  Index all = 0, first = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i < which) first += rows[i] / of;
    all += rows[i] / of;
  }
  std::vector<Matrix> runs;
  for (Index j = 0; j < of; ++j) {
    const Eigen::Map<const Matrix> block(blocks.col(j).data(), all, blocks.rows() / all);
    runs.emplace_back(block.middleRows(first, rows[which] / of));
  }
  return stacked(runs);
}

/// Blocks of equal runs of columns, and the other way.
Matrix tokens_apart(const Matrix& m, int of) { return Eigen::Map<const Matrix>(m.data(), m.size() / of, of); }
Matrix tokens_together(const Matrix& blocks, Index rows) {
  return Eigen::Map<const Matrix>(blocks.data(), rows, blocks.size() / rows);
}

/// Projections, from `in` to q, k, v, and back from q.d, k.d, v.d to qkv.in.d.
void projections(Graph& g, const RankPlace& p, const LayerShard& s, const std::string& in,
                 const std::string& weights_in) {
  const TransformerConfig& c = p.config();
  const AttentionHeads h = heads_of(p, p.sharding.tensor);
  const bool rotary = c.position_embedding == PositionEmbedding::rotary;
  const auto turned = [&g, rotary, h, tokens = p.tokens()](const std::string& name, double sign) {
    return rotary ? rotated(g[name], h.width, tokens, sign) : g[name];
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
    g.node("qkv.out.d", [&g] { return stacked({g["q.out.d"], g["k.out.d"], g["v.out.d"]}); });
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
    const std::string normed = c.head_norms == HeadNorms::each ? name + "_norm" : name + ".out";
    if (c.head_norms == HeadNorms::each) {
      norm(g, s, {normed, name + ".out", normed + ".out.d", c.norm});
      g.node(normed + ".out.d", [turned, name] { return turned(name + ".rotated.d", -1); });
      g.node(name + ".out.d", [&g, normed] { return g[normed + ".d"]; });
    } else {
      g.node(name + ".out.d", [turned, name] { return turned(name + ".rotated.d", -1); });
    }
    g.node(name + ".rotated", [turned, normed] { return turned(normed, 1); });
  }
}

std::string numbered(const char* before, int i, const char* after = "") { return before + std::to_string(i) + after; }

/// Blocks of keys and values go round: in step i a rank has that of the rank i places before it. Nodes attended, q.core.d
/// and kv.core.d from q.core, kv.core and attended.d.
void ring(Graph& g, const RankPlace& p, const AttentionHeads& h) {
  const int c = p.ring() ? p.sharding.context : 1;
  const Tokens own = p.all_to_all() ? Tokens{} : p.tokens();
  std::vector<Tokens> tokens;
  for (int i = 0; i < c; ++i) tokens.push_back(p.tokens((p.context - i + c) % c));
  if (p.all_to_all()) {  // one step, of all tokens
    tokens = {Tokens{}};
    for (int i = 0; i < p.sharding.context; ++i) append(tokens[0], p.tokens(i));
  } else if (c == 1) {
    tokens = {own};
  }
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
  for (int i = 0; i < c; ++i) {  // gradients of a block go round with it, and end where it is at home
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
  const int of = p.all_to_all() ? p.sharding.context : 1;
  const AttentionHeads h = heads_of(p, p.sharding.tensor), core = heads_of(p, p.sharding.tensor * of);
  const Index core_rows = core.query_rows() + 2 * core.key_rows();
  g.node("heads.blocks", [&g, of] { return heads_apart({g["q.rotated"], g["k.rotated"], g["v.out"]}, of); });
  g.exchange("attention.heads", "heads.blocks");
  const auto all = [&g, core_rows] { return tokens_together(g["attention.heads"], core_rows); };
  g.node("q.core", [all, core] { return Matrix(all().topRows(core.query_rows())); });
  g.node("kv.core", [all, core] { return Matrix(all().bottomRows(2 * core.key_rows())); });
  ring(g, p, core);
  g.node("tokens.blocks", [&g, core, of] { return tokens_apart(g["attended"].topRows(core.query_rows()), of); });
  g.exchange("attention.tokens", "tokens.blocks");
  g.node("attention.heads.out", [&g, h] { return heads_together(g["attention.tokens"], {h.query_rows()}, 0); });

  g.node("tokens.blocks.d", [&g, out_gradient, of] { return heads_apart({g[out_gradient]}, of); });
  g.exchange("attention.tokens.backward", "tokens.blocks.d");
  g.node("attended.d", [&g, core] { return tokens_together(g["attention.tokens.backward"], core.query_rows()); });
  g.node("heads.blocks.d", [&g, of] { return tokens_apart(stacked({g["q.core.d"], g["kv.core.d"]}), of); });
  g.exchange("attention.heads.backward", "heads.blocks.d");
  const std::vector<Index> rows{h.query_rows(), h.key_rows(), h.key_rows()};
  std::size_t which = 0;
  for (const char* name : {"q.rotated.d", "k.rotated.d", "v.rotated.d"}) {
    g.node(name, [&g, rows, which] { return heads_together(g["attention.heads.backward"], rows, which); });
    ++which;
  }
}

}  // namespace trainyard::numeric
