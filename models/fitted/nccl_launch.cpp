#include "models/fitted/nccl_launch.hpp"

namespace trainyard {
namespace {

// Fitted by `trainyard fit nccl --launch` to scenarios/measured/tables/nccl_sweeps.csv. NCCL's time is between the 4.2
// us a GPU of a DGX A100 (NVIDIA/nccl-tests issue 123: 16.9, 20.8, 25.2, 29.5 and 33.7 us with -g 4 to 8) and 6.1 us in
// a virtual machine with V100.
constexpr Seconds kNccl{4.6e-6};
constexpr Seconds kRccl{14.9e-6};

}  // namespace

bool speaks_rccl(const std::string& architecture) {
  return architecture.starts_with("cdna") || architecture.starts_with("rdna");
}

Seconds nccl_launch_time(const std::string& architecture) { return speaks_rccl(architecture) ? kRccl : kNccl; }

}  // namespace trainyard
