#pragma once
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

inline bool is_tpu(const NodeType& node) { return node.gpu.kind == ChipKind::tpu; }

/// Moves a scenario to TPUs. It removes the strategy and the stack, because those of the catalog are for GPUs. The
/// catalog has no library model for chips in a torus: rings are simulated as flows. These agree with single
/// messages within 0.1 %, and their simulation takes a third of the time.
void put_on_tpus(Node& document);

/// Sets the checkpoint times of a step on TPUs in `faults`, if it names a store. Hosts reach the store by their own
/// adapters, not over the chips' links, so the times are computed instead of simulated. The state is written at the
/// rate of the store or of all adapters, whichever is less. The snapshot copies each chip's share at PCIe's rate.
/// Nothing changes if `faults` names no store.
void tell_checkpoint_times(Node& faults, const Scenario& step);

}  // namespace trainyard
