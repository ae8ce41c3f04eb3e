#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/fitted/nccl_model.hpp"
#include "models/reading/figure.hpp"
#include "sim/shared_results.hpp"
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/cluster.hpp"
#include "topologies/fabrics/rails.hpp"

namespace trainyard {

/// The cost model of NCCL on one of the cluster's node types.
class NcclNode {
 public:
  /// `network` names an entry of models/catalog/nccl-networks.
  NcclNode(const ClusterSpec&, const NodeType&, const Catalog&, const std::string& network, const NcclChoice&);

  /// Returns the parameters of one NCCL call, with the rates of the node's own links and adapters.
  NcclCall call(NcclOperation, Bytes, NodeSpread) const;
  /// Returns the model for such a call: that of NVLink and similar links, or that of PCIe if some ranks have no other
  /// links.
  const NcclModel& model(const NcclCall& call) const { return call.machine.value > 0 ? by_lanes_ : linked_; }
  const NcclModel& linked() const { return linked_; }
  /// The most GPUs of a node whose collectives were measured, if this node has more; else 0.
  int measured_gpus() const { return measured_gpus_; }
  /// The error measured on such machines, for the trust lines of the report; "" for one GPU.
  std::string judged_inside() const;
  /// True if leaf switches join adapters of the same place in their nodes.
  bool is_by_rails() const { return trainyard::is_by_rails(*spec_); }

 private:
  std::shared_ptr<ClusterSpec> spec_;
  NcclModel linked_, by_lanes_;
  NcclChoice choice_;
  int measured_gpus_ = 0;
  Seconds wires_;
  /// Results of machine_rate, by number of GPUs and whether every pair of GPUs exchanges data.
  SharedResults<std::pair<int, bool>, BytesPerSecond> machine_;
};
/// Returns one entry for each node type. Throws UserError for chips that do not run NCCL.
std::vector<NcclNode> nccl_nodes(const ClusterSpec&, const NcclChoice& = {});

/// The fitted model of NCCL for the GPUs and the network of a cluster.
struct LibraryModel {
  std::shared_ptr<const CollectiveModel> model;
  std::string scaled;     ///< "scaled from h100-sxm by …" if the GPU itself was not measured, else ""
  int measured_gpus = 0;  ///< the most GPUs of a node that were measured, if a node has more; else 0
  LibraryErrors errors;
  Sources sources;
};

/// Throws UserError for chips that do not run NCCL.
LibraryModel library_model(const ClusterSpec&, const NcclChoice& = {});

/// Returns the highest rate at which each of the first `gpus` GPUs of a node of the cluster's first type can send,
/// while all of them send along the edges of modelled_flow. Counts PCIe, host memory and links between sockets, at the
/// fraction of their rate that NCCL reaches. 0: the edges use only NVLink or similar links, or there is one GPU.
BytesPerSecond machine_rate(const ClusterSpec&, int gpus, Operation);

/// Absolute relative errors for one kind of machine, from `validate collectives`. median and p90: over all sizes;
/// large: from 64 MiB on.
struct KindErrors {
  double median, p90, large;
};
/// Errors on machines without NVLink, whose shares of the PCIe lanes are medians over these same machines.
constexpr KindErrors kLanesErrors{0.12, 0.28, 0.08};
/// Errors on three A100 systems of 2020 to 2022 whose network switches add (SHARP). They are in no fit.
constexpr KindErrors kSharpErrors{0.31, 0.46, 0.42};

}  // namespace trainyard
