#pragma once
#include <string>

#include "sim/units.hpp"

namespace trainyard {

/// How long a thread of the host takes to launch a collective on one GPU, call after call as nccl-tests does: NCCL's, or
/// RCCL's on AMD's architectures ("cdna3"). Fitted by `trainyard fit nccl --launch`.
Seconds nccl_launch_time(const std::string& architecture);

/// Does RCCL run there?
bool speaks_rccl(const std::string& architecture);

}  // namespace trainyard
