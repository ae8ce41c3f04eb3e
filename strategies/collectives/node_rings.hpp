#pragma once
#include "models/hardware/node.hpp"
#include "sim/shared_results.hpp"
#include "strategies/collectives/numbering.hpp"
#include "topologies/analysis/rings.hpp"

namespace trainyard {

/// The point-to-point NVLinks between the GPUs of a node.
LinkGraph nvlink_graph(const NodeType&);

/// True if each pair of the node's GPUs has point-to-point NVLinks of its own.
bool has_full_mesh(const NodeType&);

/// Returns rings through all GPUs of a node that share no link, for the algorithm multi-ring: heaviest first. Throws
/// UserError if the node has no point-to-point links, or if they form no ring.
std::vector<WeightedRing> node_rings(const NodeType&);

/// Rings through any GPUs of a node by its point-to-point links, as NCCL finds them. Those of each set are found once.
class NodeRings {
 public:
  /// Throws UserError if the node has no point-to-point links.
  explicit NodeRings(const NodeType&);
  /// Rings that share no link and go through all of these GPUs, which are numbered across nodes of this type: heaviest
  /// first, with places in `gpus`. Empty: their links form no ring.
  std::vector<WeightedRing> through(const std::vector<int>& gpus) const;

 private:
  LinkGraph links_;
  SharedResults<std::vector<int>, std::vector<WeightedRing>> found_;
};

}  // namespace trainyard
