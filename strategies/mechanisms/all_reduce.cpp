// Replicas sum their gradients among themselves (PyTorch DistributedDataParallel: Li et al. 2020). With ZeRO they also
// shard their states (Rajbhandari et al. 2020).
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

class AllReduce : public Mechanism {};

const RegisterMechanism register_all_reduce{
    {kAllReduce,
     "replicas sum gradients among themselves; with zero_stage they shard their states",
     {},
     nullptr,
     [](Fields&, const ClusterSpec&) -> std::unique_ptr<Mechanism> { return std::make_unique<AllReduce>(); }}};

}  // namespace
}  // namespace trainyard
