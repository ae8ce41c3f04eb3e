#pragma once
#include <string>

#include "sim/units.hpp"

namespace trainyard {

/// Returns the time in which a host thread launches a collective of NCCL on one GPU, call after call as in nccl-tests;
/// on AMD's architectures ("cdna3") that of RCCL. Fitted by `trainyard fit nccl --launch`.
Seconds nccl_launch_time(const std::string& architecture);

/// Returns true if RCCL, not NCCL, runs on this architecture.
bool speaks_rccl(const std::string& architecture);

}  // namespace trainyard
