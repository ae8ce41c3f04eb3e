#include "strategies/collectives/dispatcher_model.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "models/hardware/adapter_rate.hpp"
#include "sim/shared_results.hpp"

namespace trainyard {
namespace {

class DispatcherModel : public CollectiveModel, public std::enable_shared_from_this<DispatcherModel> {
 public:
  DispatcherModel(const ExpertRouting& routing, BytesPerSecond hca, BytesPerSecond nvlink,
                  std::shared_ptr<const CollectiveModel> library)
      : routing_(routing), hca_(hca), nvlink_(nvlink), library_(std::move(library)) {}

  ModelledCost cost(Operation operation, Bytes size, NodeSpread spread) const override {
    ModelledCost cost = library_->cost(operation, Bytes{0}, spread);
    const double nodes = spread.nodes, local = spread.fewest;
    const Seconds inside = size * ((local - 1) / local) / nvlink_;
    const Seconds between = size * (rows_between_nodes(spread) * (nodes - 1) / nodes) / hca_;
    cost.wire = size;
    cost.rate = size / std::max(Seconds{1e-12}, std::max(inside, between));
    cost.limited_by = between > inside ? LinkKind::hca : LinkKind::nvlink;
    cost.detail = "";
    return cost;
  }
  double rows_between_nodes(NodeSpread spread) const override {
    return spread.nodes > 1 ? parts_of_token(routing_, spread.nodes) / parts_of_token(routing_, spread.ranks) : 0;
  }
  std::shared_ptr<const CollectiveModel> model_for(const std::vector<int>& nodes) const override {
    const std::shared_ptr<const CollectiveModel> part = library_->model_for(nodes);
    if (part == library_) return shared_from_this();
    return parts_.find(part, [&] { return std::make_shared<DispatcherModel>(routing_, hca_, nvlink_, part); });
  }

 private:
  ExpertRouting routing_;
  BytesPerSecond hca_, nvlink_;  // rates that a rank reaches
  std::shared_ptr<const CollectiveModel> library_;
  SharedResults<std::shared_ptr<const CollectiveModel>, std::shared_ptr<const CollectiveModel>> parts_;
};

}  // namespace

std::shared_ptr<const CollectiveModel> dispatcher_model(const ExpertDispatcher& dispatcher,
                                                        const ExpertRouting& routing, const ClusterSpec& cluster,
                                                        std::shared_ptr<const CollectiveModel> library,
                                                        const Place& where) {
  BytesPerSecond hca{}, nvlink{};
  for (const NodeType* type : cluster.types()) {
    const BytesPerSecond links = least_nvlink(*type);
    if (links.value <= 0)
      fail(where,
           fmt::format(
               "plan.expert_parallel.dispatcher: {} sends rows on by NVLink, which {} has none of; expected all-to-all",
               dispatcher.name, type->name));
    const BytesPerSecond adapter = adapter_rate(*type) * (static_cast<double>(type->hcas) / std::max(1, type->gpus));
    const bool first = nvlink.value <= 0;
    hca = first ? adapter : std::min(hca, adapter);
    nvlink = first ? links : std::min(nvlink, links);
  }
  // Kernels on the SMs copy the rows, so the rate of the SMs is a limit as well.
  const BytesPerSecond inside = std::min(nvlink * dispatcher.nvlink_share, dispatcher.rate_per_sm * dispatcher.sms);
  return std::make_shared<DispatcherModel>(routing, hca * dispatcher.hca_share, inside, std::move(library));
}

}  // namespace trainyard
