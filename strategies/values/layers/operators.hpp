#pragma once
#include <functional>
#include <string>
#include <vector>

#include "strategies/values/layers/graph.hpp"
#include "strategies/values/layers/layer_shard.hpp"

/// Nodes of the operators that layers consist of. An operator called NAME computes NAME from its input, and NAME.d, the
/// gradient by its input, from the gradient by its output. Node `gradient T` is the gradient of tensor T for one
/// micro-batch. Columns of matrices are tokens. The layer's shard must outlive the graph.
namespace trainyard::numeric {

std::string gradient_of(const std::string& tensor);

/// y = weight ∘ normalized(x) (+ bias) for each column, or for each piece of a column that is as long as the weight.
struct NormNodes {
  std::string name, in, out_gradient;
  Norm kind = Norm::layer_norm;
};
void norm(Graph&, const LayerShard&, const NormNodes&);

/// y = W·x (+ b). With several groups there is one matrix W for each: matrix g multiplies the columns
/// [starts[g], starts[g + 1]).
struct LinearNodes {
  std::string name, in;
  std::string in_for_weights;  ///< the input that the gradient of the weight uses
  std::string out_gradient;
  bool bias = false;
  Index groups = 1;
  std::function<std::vector<Index>()> starts = {};
};
void linear(Graph&, const LayerShard&, const LinearNodes&);

/// Adds x + b.
void add_bias(Graph&, const LayerShard&, const std::string& tensor, const std::string& name, const std::string& in,
              const std::string& out_gradient);

/// Adds a + b.
void sum(Graph&, const std::string& name, const std::string& a, const std::string& b);

struct Activation {
  double (*value)(double);
  double (*slope)(double);
};
/// The elementwise function gelu (with tanh, Hendrycks & Gimpel 2016), silu, relu or tanh by its name in Hugging Face.
/// Throws InternalError for other names.
Activation find_activation(const std::string& name);

/// A feed-forward part: two linear layers with an activation between them, or three with a gate. The linear layers are
/// `prefix`fc1 and fc2, or gate, up and down. Node `prefix`ffn.out is the output without the bias of the last one, and
/// `prefix`ffn.in.d the gradient by the input.
struct FeedForwardNodes {
  std::string prefix, in, in_for_weights, out_gradient;
  std::string activation;
  bool gated = false, bias = false;
  Index groups = 1;
  std::function<std::vector<Index>()> starts = {};
};
void feed_forward(Graph&, const LayerShard&, const FeedForwardNodes&);

// Columns are samples. Targets are probability distributions over the rows.

/// Softmax of each column. Logits are shifted by the maximum so that no exponential overflows.
Matrix softmax(const Matrix& logits);
/// Σ −target·log softmax(logits).
double softmax_loss(const Matrix& logits, const Matrix& targets);
/// Gradient of `softmax_loss` by the logits.
Matrix softmax_loss_gradient(const Matrix& logits, const Matrix& targets);

}  // namespace trainyard::numeric
