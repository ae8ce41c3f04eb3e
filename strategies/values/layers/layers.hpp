#pragma once
#include <vector>

#include "strategies/values/layers/graph.hpp"
#include "strategies/values/layers/layer_shard.hpp"
#include "strategies/values/layers/place.hpp"

/// Layers of the networks whose values can be computed. A layer defines the nodes `out`, `dx` and the gradients of its
/// tensors. It uses the nodes `x` and `dout`, which the caller provides, and exchanges by their names. The first layer
/// has neither `x` nor `dx`. The last layer has no `dout`; in place of `out` it defines `output`, `loss` (the rank's
/// part of the loss) and `output.d` (the gradient of the loss by `output`).
namespace trainyard::numeric {

/// A layer of one rank.
struct RankLayer {
  int number = 0;  ///< number of the layer in the network
  bool last = false;
  const LayerShard* shard = nullptr;
  const LayerShard* tied = nullptr;  ///< shard of the layer whose weight this one also uses; null: there is none
};

/// Returns the rank's shards of layer `number` of the network. `own_tied`: the head has its own copy of a tied weight.
TensorShards layer_tensors(const RankPlace&, int number, const Network&, bool own_tied);
/// Returns the number of rows of the layer's input on a rank.
Index input_rows(const RankPlace&, int number);
/// Defines the nodes of a layer in a graph that lists the layer's exchanges. The arguments must outlive the graph.
void define_layer(Graph&, const RankPlace&, const RankLayer&, const Batch&);
/// Returns the nodes that a rank discards after the forward pass. The backward pass computes or exchanges them again.
std::vector<std::string> dropped_after_forward(const Graph&, const RankPlace&);

// Transformers.
TensorShards embedding_tensors(const RankPlace&);
TensorShards block_tensors(const RankPlace&, int number, const Layer&);
TensorShards head_tensors(const RankPlace&, bool own_tied);
void embedding(Graph&, const RankPlace&, const RankLayer&, const Batch&);
/// Adds the weight of a norm, and its bias if it has one.
void add_norm(TensorShards&, Norm, const std::string& name, Index width);
void block(Graph&, const RankPlace&, const RankLayer&);
void head(Graph&, const RankPlace&, const RankLayer&, const Batch&);
/// Defines attention. Forward: from `in` (with `in_for_weights` as in LinearNodes) to the heads' outputs, node
/// "attention.heads.out". Backward: from their gradient `out_gradient` to "qkv.in.d".
void self_attention(Graph&, const RankPlace&, const LayerShard&, const std::string& in,
                    const std::string& in_for_weights, const std::string& out_gradient);
/// Defines a router and its experts. Forward: from `in` to "experts.sum". Backward: from `out_gradient` to
/// "experts.sum.d".
void experts(Graph&, const RankPlace&, const LayerShard&, const std::string& in, const std::string& in_for_weights,
             const std::string& out_gradient);

// MLPs, split in the same way as by `mlp_network`.
TensorShards mlp_tensors(const RankPlace&, const MlpShape&, int number);
Index mlp_input_rows(const RankPlace&, const MlpShape&, int number);
void mlp_layer(Graph&, const RankPlace&, const MlpShape&, const RankLayer&, const Batch&);

}  // namespace trainyard::numeric
