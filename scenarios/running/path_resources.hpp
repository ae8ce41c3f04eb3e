#pragma once
#include <vector>

#include "scenarios/running/step_run.hpp"

namespace trainyard {

/// What a modelled collective takes before its first byte moves, by the fitted model of the library.
constexpr const char* kLibraryStart = "NCCL's start-up";

/// The critical path of the steps that are looked at, each piece under the resource that it is spent on: "GPU compute",
/// "GPU memory", "host memory", "decoding", a kind of link, "latency", kLibraryStart, or "framework" where software sets
/// the time (host work, kernels that end before the next can be issued, launches of collectives, the network stack). Empty
/// where ranks do not step together, or the operations were not kept.
std::vector<PathStep> named_path(const StepRun&);

}  // namespace trainyard
