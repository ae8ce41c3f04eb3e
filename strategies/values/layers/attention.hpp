#pragma once
#include <vector>

#include "strategies/values/layers/graph.hpp"
#include "strategies/values/layers/place.hpp"

namespace trainyard::numeric {

/// Heads and widths of one attention. Columns of matrices are tokens; rows are the heads one after another. If there
/// are fewer heads of keys and values, several consecutive query heads share one (Ainslie et al. 2023, GQA).
struct AttentionHeads {
  Index heads = 1, key_value_heads = 1, width = 1;
  bool causal = true;
  Index window = 0;  ///< number of positions that a token attends to, including its own; 0: all

  Index query_rows() const { return heads * width; }
  Index key_rows() const { return key_value_heads * width; }
};

/// softmax(qᵀk / √width)·v over the keys that a query attends to. Below the output, the result has one row for each
/// head: the logarithm of the sum of exponentials of each query, which the gradients of all blocks of keys need. kv:
/// keys above values.
Matrix attend(const AttentionHeads&, const Matrix& q, const Matrix& kv, const Tokens& queries, const Tokens& keys);

struct AttentionGradient {
  Matrix q, kv;
};
/// Gradients by queries, and by keys above values, from one block of keys and values. `attended`: the result of
/// `attend` for all blocks.
AttentionGradient attend_gradient(const AttentionHeads&, const Matrix& q, const Matrix& kv, const Tokens& queries,
                                  const Tokens& keys, const Matrix& attended, const Matrix& out_gradient);

/// Rotary embedding: rotates each pair (i, i + width / 2) of a head by the angle `sign` · position · 10000^(−2i /
/// width) (Su et al. 2021).
Matrix apply_rotary(const Matrix&, Index width, const Tokens&, double sign);

}  // namespace trainyard::numeric
