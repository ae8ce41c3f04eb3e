// Mixtures of experts: the routing of tokens, the blocks that are dispatched and returned, and the experts.

#include <algorithm>
#include <cmath>

#include "sim/error.hpp"
#include "strategies/values/layers/layers.hpp"
#include "strategies/values/layers/operators.hpp"

namespace trainyard::numeric {
namespace {

/// Sizes of the blocks that the ranks of the expert axis exchange. A rank's block contains the number of rows for each
/// of its experts, followed by the rows, expert by expert and token by token. A block has room for the worst case.
struct ExpertBlocks {
  int ranks = 1;
  Index experts = 1;  ///< number of experts of one rank
  Index per_token = 1, tokens = 0, width = 0;

  Index most_rows() const { return tokens * std::min(per_token, experts); }
  Index block() const { return experts + most_rows() * width; }
};

ExpertBlocks expert_blocks(const RankPlace& p) {
  const ExpertsConfig& e = p.config().experts;
  const int ranks = p.sharding.expert;
  const Index tokens = (p.sharding.folds_experts() ? p.own_tokens() : p.tokens()).size();
  return {ranks, static_cast<Index>(part(e.count, 0, ranks).size()), e.per_token, tokens, p.config().hidden_size};
}

/// Routes of the tokens, one token in each column. Rows 0 … k − 1: the chosen experts, best first. Rows k … 2k − 1:
/// their weights, a softmax over the chosen experts (Jiang et al. 2024, Mixtral, §2.1).
Matrix routes(const Matrix& logits, Index k) {
  Matrix r(2 * k, logits.cols());
  for (Index token = 0; token < logits.cols(); ++token) {
    std::vector<Index> order = span(0, logits.rows());
    const auto better = [&logits, token](Index a, Index b) { return logits(a, token) > logits(b, token); };
    std::ranges::stable_sort(order, better);
    for (Index i = 0; i < k; ++i) {
      r(i, token) = static_cast<double>(order[i]);
      r(k + i, token) = std::exp(logits(order[i], token) - logits(order[0], token));
    }
    r.col(token).tail(k) /= r.col(token).tail(k).sum();
  }
  return r;
}

/// Calls visit(rank, expert of the rank, token, choice, row of the rank's block) in the order of the blocks.
template <class Visit>
void visit_routes(const Matrix& routes, const ExpertBlocks& b, const Visit& visit) {
  for (int rank = 0; rank < b.ranks; ++rank) {
    Index row = 0;
    for (Index expert = 0; expert < b.experts; ++expert)
      for (Index token = 0; token < routes.cols(); ++token)
        for (Index choice = 0; choice < b.per_token; ++choice)
          if (static_cast<Index>(routes(choice, token)) == rank * b.experts + expert)
            visit(rank, expert, token, choice, row++);
  }
}

/// Blocks with the values of the tokens, one block in each column. `weighted`: values are multiplied by their weights.
Matrix dispatch(const Matrix& tokens, const Matrix& routes, const ExpertBlocks& b, bool weighted) {
  Matrix blocks = Matrix::Zero(b.block(), b.ranks);
  visit_routes(routes, b, [&](int rank, Index expert, Index token, Index choice, Index row) {
    blocks(expert, rank) += 1;
    blocks.col(rank).segment(b.experts + row * b.width, b.width) =
        tokens.col(token) * (weighted ? routes(b.per_token + choice, token) : 1);
  });
  return blocks;
}

Index rows_of(const Matrix& blocks, const ExpertBlocks& b, Index expert, Index source) {
  const double count = blocks(expert, source);
  if (!(count >= 0 && count <= static_cast<double>(b.most_rows()) && count == std::floor(count)))
    throw InternalError("experts: a block has not arrived, or is another one");
  return static_cast<Index>(count);
}

/// First column of each expert in the result of `gather_rows`, followed by the number of all columns.
std::vector<Index> expert_starts(const Matrix& blocks, const ExpertBlocks& b) {
  std::vector<Index> starts{0};
  for (Index expert = 0; expert < b.experts; ++expert) {
    Index rows = 0;
    for (Index source = 0; source < blocks.cols(); ++source) rows += rows_of(blocks, b, expert, source);
    starts.push_back(starts.back() + rows);
  }
  return starts;
}

/// Calls visit(source, row of its block, column) for all rows that arrived, expert by expert and source by source.
template <class Visit>
void visit_rows(const Matrix& blocks, const ExpertBlocks& b, const Visit& visit) {
  std::vector<Index> next(static_cast<std::size_t>(blocks.cols()), 0);
  Index column = 0;
  for (Index expert = 0; expert < b.experts; ++expert)
    for (Index source = 0; source < blocks.cols(); ++source)
      for (Index i = 0; i < rows_of(blocks, b, expert, source); ++i) {
        Index& row = next[source];
        if (row >= b.most_rows()) throw InternalError("experts: a block has more rows than fit");
        visit(source, row++, column++);
      }
}

Matrix gather_rows(const Matrix& blocks, const ExpertBlocks& b) {
  Matrix rows(b.width, expert_starts(blocks, b).back());
  visit_rows(blocks, b, [&](Index source, Index row, Index column) {
    rows.col(column) = blocks.col(source).segment(b.experts + row * b.width, b.width);
  });
  return rows;
}

/// Blocks that return rows to their sources, with the layout of `arrived`.
Matrix return_rows(const Matrix& rows, const Matrix& arrived, const ExpertBlocks& b) {
  Matrix blocks = Matrix::Zero(arrived.rows(), arrived.cols());
  visit_rows(arrived, b, [&](Index source, Index row, Index column) {
    blocks.col(source).segment(b.experts + row * b.width, b.width) = rows.col(column);
  });
  return blocks;
}

/// Sum of the experts' outputs for each token. `weighted`: outputs are multiplied by their weights.
Matrix combine(const Matrix& blocks, const Matrix& routes, const ExpertBlocks& b, bool weighted) {
  Matrix sum = Matrix::Zero(b.width, routes.cols());
  visit_routes(routes, b, [&](int rank, Index, Index token, Index choice, Index row) {
    sum.col(token) += blocks.col(rank).segment(b.experts + row * b.width, b.width) *
                      (weighted ? routes(b.per_token + choice, token) : 1);
  });
  return sum;
}

/// Gradient by the router's logits.
Matrix router_gradient(const Matrix& out_gradient, const Matrix& blocks, const Matrix& routes, const ExpertBlocks& b,
                       Index experts) {
  Matrix by_weight = Matrix::Zero(b.per_token, routes.cols());
  visit_routes(routes, b, [&](int rank, Index, Index token, Index choice, Index row) {
    by_weight(choice, token) =
        out_gradient.col(token).dot(blocks.col(rank).segment(b.experts + row * b.width, b.width));
  });
  Matrix d = Matrix::Zero(experts, routes.cols());
  for (Index token = 0; token < routes.cols(); ++token) {
    const double mean = by_weight.col(token).dot(routes.col(token).tail(b.per_token));
    for (Index i = 0; i < b.per_token; ++i)
      d(static_cast<Index>(routes(i, token)), token) = routes(b.per_token + i, token) * (by_weight(i, token) - mean);
  }
  return d;
}

}  // namespace

void experts(Graph& g, const RankPlace& p, const LayerShard& s, const std::string& in, const std::string& weights_in,
             const std::string& out_gradient) {
  const TransformerConfig& c = p.config();
  const ExpertBlocks b = expert_blocks(p);
  linear(g, s, {.name = "router", .in = in, .in_for_weights = weights_in, .out_gradient = "router.out.d"});
  g.node("routes", [&g, b] { return routes(g["router"], b.per_token); });
  g.node("dispatch.blocks", [&g, b, in] { return dispatch(g[in], g["routes"], b, false); });
  g.exchange("experts.dispatch", "dispatch.blocks");
  g.exchange("experts.gather", "experts.dispatch");  // among expert-tensor ranks, if there are any
  g.node("experts.in", [&g, b] { return gather_rows(g["experts.gather"], b); });
  feed_forward(g, s,
               {.prefix = "experts.",
                .in = "experts.in",
                .in_for_weights = "experts.in",
                .out_gradient = "experts.out.d",
                .activation = c.activation,
                .gated = c.gated_mlp,
                .groups = b.experts,
                .starts = [&g, b] { return expert_starts(g["experts.gather"], b); }});
  g.node("return.blocks", [&g, b] { return return_rows(g["experts.ffn.out"], g["experts.gather"], b); });
  g.exchange("experts.scatter", "return.blocks");
  g.exchange("experts.return", "experts.scatter");
  g.node("experts.sum", [&g, b] { return combine(g["experts.return"], g["routes"], b, true); });

  g.node("return.blocks.d", [&g, b, out_gradient] { return dispatch(g[out_gradient], g["routes"], b, true); });
  g.exchange("experts.return.backward", "return.blocks.d");
  g.exchange("experts.scatter.backward", "experts.return.backward");
  g.node("experts.out.d", [&g, b] { return gather_rows(g["experts.scatter.backward"], b); });
  g.node("dispatch.blocks.d", [&g, b] { return return_rows(g["experts.ffn.in.d"], g["experts.gather"], b); });
  g.exchange("experts.gather.backward", "dispatch.blocks.d");
  g.exchange("experts.dispatch.backward", "experts.gather.backward");
  g.node("router.out.d", [&g, b, out_gradient, count = static_cast<Index>(c.experts.count)] {
    return router_gradient(g[out_gradient], g["experts.return"], g["routes"], b, count);
  });
  g.node("experts.sum.d", [&g, b] {
    return plus(combine(g["experts.dispatch.backward"], g["routes"], b, false), g["router.d"], "experts");
  });
}

}  // namespace trainyard::numeric
