#include "strategies/collectives/library_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/fitted/nccl_model.hpp"
#include "models/hardware/nvlinks.hpp"
#include "sim/error.hpp"
#include "topologies/nodes/pcie_lanes.hpp"

namespace trainyard {
namespace {

NcclOperation nccl_operation(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
    case Operation::barrier:  // PyTorch's is an all-reduce of one element
      return NcclOperation::all_reduce;
    case Operation::all_gather:
      return NcclOperation::all_gather;
    case Operation::reduce_scatter:
      return NcclOperation::reduce_scatter;
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      return NcclOperation::alltoall;
    case Operation::broadcast:
      return NcclOperation::broadcast;
    case Operation::reduce:
      return NcclOperation::reduce;
    case Operation::send_recv:
      return NcclOperation::sendrecv;
    case Operation::gather:
      return NcclOperation::gather;
    case Operation::scatter:
      return NcclOperation::scatter;
  }
  throw InternalError("unknown collective operation");
}

/// A GPU with the links that its node gives it: NCCL's rates follow these.
Gpu wired_gpu(const NodeType& node) {
  Gpu gpu = node.gpu;
  gpu.nvlink = least_nvlink(node);
  if (node.pcie_rate.value <= 0) return gpu;
  int lanes = kFullWidth;
  if (has_lane_plan(node))
    for (const PcieSlot& slot : plan_lanes(node).slots)
      if (slot.kind == DeviceKind::gpu) lanes = std::min(lanes, slot.lanes);
  gpu.pcie = lane_rate(node, DeviceKind::gpu, lanes);
  return gpu;
}

/// NCCL on one type of node.
struct NcclOnNode {
  NcclModel model;
  BytesPerSecond network;  ///< of all its HCAs
  Seconds wires;           ///< from host to host, one way
};

/// NCCL in a cluster, or in a part of it. Where nodes differ, all wait for the slowest: NCCL agrees on the least of what
/// its nodes can (NVIDIA/nccl src/init.cc, initTransportsRank: minima of channels, speeds and types over all ranks).
class Nccl : public CollectiveModel, public std::enable_shared_from_this<Nccl> {
 public:
  /// `type_of_node`: of each node, a number among the types.
  Nccl(std::vector<NcclOnNode> types, std::vector<std::size_t> type_of_node)
      : types_(std::move(types)), type_of_node_(std::move(type_of_node)) {}

  ModelledCost cost(Operation operation, Bytes size, NodeSpread spread) const override {
    NcclCall call;
    call.operation = nccl_operation(operation);
    call.size = operation == Operation::barrier ? Bytes{4} : size;
    call.gpus = spread.ranks;
    call.nodes = spread.nodes;
    call.local = spread.fewest;
    NcclCost slowest;
    for (const NcclOnNode& on : types_) {
      call.network = on.network;
      call.hop = on.model.between.hop - on.model.between.wires + on.wires;
      const NcclCost cost = nccl_cost(on.model, call);
      if (&on == &types_.front() || cost.time > slowest.time) slowest = cost;
    }
    return {slowest.latency, slowest.wire, slowest.rate, slowest.protocol, slowest.limited_by};
  }

  std::shared_ptr<const CollectiveModel> on(const std::vector<int>& nodes) const override {
    if (types_.size() == 1) return shared_from_this();
    std::vector<bool> used(types_.size());
    for (const int node : nodes) used[type_of_node_.at(static_cast<std::size_t>(node))] = true;
    std::shared_ptr<const CollectiveModel>& known = parts_[used];
    if (known) return known;
    std::vector<NcclOnNode> part;
    for (std::size_t i = 0; i < types_.size(); ++i)
      if (used[i]) part.push_back(types_[i]);
    return known = std::make_shared<Nccl>(std::move(part), std::vector<std::size_t>{});
  }

 private:
  std::vector<NcclOnNode> types_;
  std::vector<std::size_t> type_of_node_;
  mutable std::map<std::vector<bool>, std::shared_ptr<const CollectiveModel>> parts_;  // by the types of their nodes
};

/// Adds what is not there yet.
void add_sources(Sources& all, const Sources& more) {
  for (const FigureSource& source : more)
    if (std::none_of(all.begin(), all.end(), [&](const FigureSource& known) { return known.figure == source.figure; }))
      all.push_back(source);
}

}  // namespace

LibraryModel library_model(const ClusterSpec& cluster) {
  const Catalog catalog;
  LibraryModel library;
  std::vector<NcclOnNode> types;
  bool assumed = false;  // what is said of the network
  for (const NodeType* type : cluster.types()) {
    NcclModel model = nccl_model_for(wired_gpu(*type), catalog);
    if (!model.scaled.empty() && library.scaled.find(model.scaled) == std::string::npos)
      library.scaled += (library.scaled.empty() ? "" : "; ") + model.scaled;
    add_sources(library.sources, model.sources);
    if (cluster.nodes > 1) add_sources(library.sources, model.between.sources);
    assumed |= std::ranges::any_of(model.between.sources, &FigureSource::unverified);
    const Picoseconds wires = type->hca_latency + type->hca_latency + cluster.switch_latency + cluster.distance;
    types.push_back({std::move(model), type->hca_rate * type->hcas, wires.seconds()});
  }
  std::vector<std::size_t> type_of_node(static_cast<std::size_t>(cluster.nodes), 0);
  auto first = type_of_node.end();
  for (std::size_t i = cluster.others.size(); i > 0; --i) {
    const auto end = first;
    first -= cluster.others[i - 1].count;
    std::fill(first, end, i);
  }
  if (cluster.nodes > 1 && assumed)
    library.scaled +=
        (library.scaled.empty() ? "" : "; ") + std::string("between nodes by NCCL's own cost model, no fit");
  library.model = std::make_shared<Nccl>(std::move(types), std::move(type_of_node));
  return library;
}

}  // namespace trainyard
