// Synchronous updates: gradients are summed over all replicas in every step, and all replicas update alike.
#include "strategies/step/rank_updates.hpp"

namespace trainyard {
namespace {

class AllReduce : public UpdatePolicy {
 public:
  std::unique_ptr<RankUpdates> of_rank(const StepParts& parts) const override {
    return std::make_unique<RankUpdates>(parts);
  }
};

std::shared_ptr<const UpdatePolicy> all_reduce(const ReplicaUpdates&) { return std::make_shared<AllReduce>(); }

TRAINYARD_UPDATE_POLICY("all-reduce", all_reduce);

}  // namespace
}  // namespace trainyard
