// Replicas sum their gradients among themselves (PyTorch's DistributedDataParallel: Li et al. 2020), or with ZeRO share
// them out (Rajbhandari et al. 2020).
#include "strategies/mechanisms/mechanism.hpp"

namespace trainyard {
namespace {

class AllReduce : public Mechanism {};

const RegisterMechanism register_all_reduce{
    {kAllReduce,
     "replicas sum gradients among themselves; with zero_stage they share states out",
     {},
     nullptr,
     [](Fields&, const ClusterSpec&) -> std::unique_ptr<Mechanism> { return std::make_unique<AllReduce>(); }}};

}  // namespace
}  // namespace trainyard
