#pragma once
#include <vector>

#include "strategies/values/layers/graph.hpp"
#include "strategies/values/layers/layer_shard.hpp"
#include "strategies/values/layers/place.hpp"

/// Layers of the networks that values know. Each has the nodes `out` (of the last one: `output`, `output.d`, which is the
/// gradient by it, and `loss`, its part of it), `dx` (but of the first one) and the gradients of its tensors; it asks for `x` (but of the first one) and `dout` (but of the last
/// one), which whoever runs it provides, and for the exchanges by their names.
namespace trainyard::numeric {

/// A layer of one rank.
struct RankLayer {
  int number = 0;  ///< in the network
  bool last = false;
  const LayerShard* shard = nullptr;
  const LayerShard* tied = nullptr;  ///< has the weight that this one uses too; null: its own, or none
};

/// What the rank holds of layer `number` of the network. `own_tied`: the head has its own copy of a tied weight.
TensorShards layer_tensors(const RankPlace&, int number, const Network&, bool own_tied);
/// Rows of the layer's input: of a rank's columns.
Index input_rows(const RankPlace&, int number);
/// After `Graph::list`. What it refers to must outlive the graph.
void define_layer(Graph&, const RankPlace&, const RankLayer&, const Batch&);
/// Nodes that a rank does not keep after the forward pass, though it has them for itself alone: they come again.
std::vector<std::string> dropped_after_forward(const Graph&, const RankPlace&);

// Transformers.
TensorShards embedding_tensors(const RankPlace&);
TensorShards block_tensors(const RankPlace&, int number, const Layer&);
TensorShards head_tensors(const RankPlace&, bool own_tied);
void embedding(Graph&, const RankPlace&, const RankLayer&, const Batch&);
void block(Graph&, const RankPlace&, const RankLayer&);
void head(Graph&, const RankPlace&, const RankLayer&, const Batch&);
/// Queries, keys and values of `in` (with `in_for_weights` as in LinearNodes) to the heads' outputs, node
/// "attention.heads.out", and back from their gradient `out_gradient` to "qkv.in.d".
void self_attention(Graph&, const RankPlace&, const LayerShard&, const std::string& in,
                    const std::string& in_for_weights, const std::string& out_gradient);
/// Router and routed experts of `in` to "experts.sum", and back from `out_gradient` to "experts.sum.d".
void experts(Graph&, const RankPlace&, const LayerShard&, const std::string& in, const std::string& in_for_weights,
             const std::string& out_gradient);

// MLPs, split as `mlp_network` says.
TensorShards mlp_tensors(const RankPlace&, const MlpShape&, int number);
Index mlp_input_rows(const RankPlace&, const MlpShape&, int number);
void mlp_layer(Graph&, const RankPlace&, const MlpShape&, const RankLayer&, const Batch&);

}  // namespace trainyard::numeric
