#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/fitted/nccl_model.hpp"
#include "models/reading/figure.hpp"
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// NCCL on one type of a cluster's nodes.
class NcclNode {
 public:
  /// `network`: an entry of models/catalog/nccl-networks.
  NcclNode(const ClusterSpec&, const NodeType&, const Catalog&, const std::string& network, const NcclChoice&);

  /// What NCCL is asked there, with the rates of the node's own links and adapters.
  NcclCall call(NcclOperation, Bytes, NodeSpread) const;
  /// The model that such a call goes by: of NVLink and the like, or of PCIe where some of its ranks have nothing else.
  const NcclModel& model(const NcclCall& call) const { return call.machine.value > 0 ? by_lanes_ : linked_; }
  const NcclModel& linked() const { return linked_; }
  /// How far off such machines were where they were measured, for the trust lines; "": one GPU.
  std::string judged_inside() const;

 private:
  std::shared_ptr<ClusterSpec> spec_;
  NcclModel linked_, by_lanes_;
  NcclChoice choice_;
  Seconds wires_;
  mutable std::map<std::pair<int, bool>, BytesPerSecond> machine_;  // by GPUs, and whether between all pairs
};
/// By type of node. Throws UserError for chips that do not speak NCCL.
std::vector<NcclNode> nccl_nodes(const ClusterSpec&, const NcclChoice& = {});

/// NCCL, as it was fitted, on the GPUs and the network of a cluster.
struct LibraryModel {
  std::shared_ptr<const CollectiveModel> model;
  std::string scaled;  ///< "scaled from h100-sxm by …", where the GPU itself was not measured
  std::string judged;  ///< the error to expect, by systems of its class that no fit saw
  Sources sources;
};

/// Throws UserError for chips that do not speak NCCL.
LibraryModel library_model(const ClusterSpec&, const NcclChoice& = {});

}  // namespace trainyard
