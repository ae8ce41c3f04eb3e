#pragma once
#include <vector>

#include "strategies/values/layers/graph.hpp"
#include "strategies/values/layers/place.hpp"

namespace trainyard::numeric {

/// Heads and widths of one attention; columns are tokens, rows are head by head. Several query heads in a row share a
/// head of keys and values where there are fewer of these (Ainslie et al. 2023, GQA).
struct AttentionHeads {
  Index heads = 1, key_value_heads = 1, width = 1;
  bool causal = true;
  Index window = 0;  ///< positions a token attends to, itself included; 0: all

  Index query_rows() const { return heads * width; }
  Index key_rows() const { return key_value_heads * width; }
};

/// softmax(qᵀk / √width)·v over the keys that a query attends to; below the output the logarithm of the sum of
/// exponentials of each head and query, which is what blocks of keys share. kv: keys above values.
Matrix attend(const AttentionHeads&, const Matrix& q, const Matrix& kv, const Tokens& queries, const Tokens& keys);

/// Gradients by queries, and by keys above values, that come of one block of keys and values. `attended` is what
/// `attend` gave for all blocks.
struct AttentionGradient {
  Matrix q, kv;
};
AttentionGradient attend_gradient(const AttentionHeads&, const Matrix& q, const Matrix& kv, const Tokens& queries,
                                  const Tokens& keys, const Matrix& attended, const Matrix& out_gradient);

/// Turns each pair (i, i + width / 2) of a head by position · 10000^(−2i / width) (Su et al. 2021), times `sign`.
Matrix rotated(const Matrix&, Index width, const Tokens&, double sign);

}  // namespace trainyard::numeric
