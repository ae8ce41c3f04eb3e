#pragma once
#include <functional>
#include <string>
#include <vector>

#include "strategies/values/layers/graph.hpp"
#include "strategies/values/layers/layer_shard.hpp"

/// Nodes of what layers are put together from. An operator called NAME computes NAME from its input and NAME.d, the
/// gradient by the input, from the gradient by its output; `gradient T` is that of the tensor T, of one micro-batch.
/// Matrices hold a token a column. The layer's shard must outlive the graph.
namespace trainyard::numeric {

std::string gradient_of(const std::string& tensor);

/// y = weight ∘ normed(x) (+ bias), column by column, or of each piece of a column as long as the weight.
struct NormNodes {
  std::string name, in, out_gradient;
  Norm kind = Norm::layer_norm;
};
void norm(Graph&, const LayerShard&, const NormNodes&);

/// y = W·x (+ b). With `groups`, so many matrices: the g-th takes the columns from starts[g] to starts[g + 1].
struct LinearNodes {
  std::string name, in;
  std::string in_for_weights;  ///< the input again, for the gradient of the weight
  std::string out_gradient;
  bool bias = false;
  Index groups = 1;
  std::function<std::vector<Index>()> starts = {};
};
void linear(Graph&, const LayerShard&, const LinearNodes&);

/// x + b.
void add_bias(Graph&, const LayerShard&, const std::string& tensor, const std::string& name, const std::string& in,
              const std::string& out_gradient);

/// a + b.
void sum(Graph&, const std::string& name, const std::string& a, const std::string& b);

/// gelu (with tanh, Hendrycks & Gimpel 2016), silu, relu or tanh by their names of Hugging Face, element by element.
/// Throws InternalError for others.
struct Activation {
  double (*value)(double);
  double (*slope)(double);
};
Activation find_activation(const std::string& name);

/// Two linear layers with an activation between them, or three of which one gates another. `prefix`fc1, gate, up, fc2,
/// down are linear layers; `prefix`ffn.out is the output, without the bias of the last one, `prefix`ffn.in.d the gradient by the input.
struct FeedForwardNodes {
  std::string prefix, in, in_for_weights, out_gradient;
  std::string activation;
  bool gated = false, bias = false;
  Index groups = 1;
  std::function<std::vector<Index>()> starts = {};
};
void feed_forward(Graph&, const LayerShard&, const FeedForwardNodes&);

}  // namespace trainyard::numeric
