#include "strategies/collectives/library_model.hpp"

#include <fmt/format.h>

#include "models/fitted/nccl_model.hpp"
#include "sim/error.hpp"

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

class Nccl : public CollectiveModel {
 public:
  Nccl(NcclModel model, BytesPerSecond network) : model_(std::move(model)), network_(network) {}

  ModelledCost cost(Operation operation, Bytes size, int ranks, int per_node) const override {
    NcclCall call;
    call.operation = nccl_operation(operation);
    call.size = operation == Operation::barrier ? Bytes{4} : size;
    call.gpus = ranks;
    // Groups that do not fill whole nodes lie on one node more: a step between nodes is what counts there.
    call.nodes = ranks % per_node == 0 ? ranks / per_node : 1;
    call.network = network_;
    const NcclCost cost = nccl_cost(model_, call);
    return {cost.latency, cost.wire, cost.rate, cost.protocol};
  }

 private:
  NcclModel model_;
  BytesPerSecond network_;
};

}  // namespace

LibraryModel library_model(const ClusterSpec& cluster) {
  if (!cluster.others.empty())
    fail(cluster.place, "collectives as modelled: the cluster has several types of nodes, and the model is of one");
  const Catalog catalog;
  NcclModel model = nccl_model_for(cluster.node.gpu, catalog);
  // Links other than the catalog's (a what-if): on NVLink, rates follow them.
  const BytesPerSecond own = cluster.node.nvlink_rate.value > 0 ? cluster.node.nvlink_rate : cluster.node.gpu.nvlink;
  if (model.scaled.empty() && own.value > 0 && own.value != model.link.value) {
    Gpu gpu = cluster.node.gpu;
    gpu.nvlink = own;
    model = nccl_scaled(model, gpu);
  }
  LibraryModel library;
  library.scaled = model.scaled;
  library.sources = model.sources;
  const Sources& between = model.between.sources;
  library.sources.insert(library.sources.end(), between.begin(), between.end());
  library.model = std::make_shared<Nccl>(std::move(model), cluster.node.hca_rate * cluster.node.hcas);
  return library;
}

}  // namespace trainyard
