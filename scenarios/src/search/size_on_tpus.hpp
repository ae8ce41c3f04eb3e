#pragma once
#include "models/hardware/node.hpp"
#include "scenarios/src/reading/scenario.hpp"

namespace trainyard {

inline bool is_tpu(const NodeType& node) { return node.gpu.kind == ChipKind::tpu; }

/// Puts a scenario on TPUs. Strategies and stacks of the catalog are those of GPUs, and are left out. Nobody's library is
/// modelled for chips joined by a torus: rings are simulated as flows, which gives the same as message by message within
/// 0.1 % in a third of the time.
void put_on_tpus(Node& document);

/// Checkpoints of a step on TPUs into a store: hosts reach it by adapters of their own, not over the chips' links, so that
/// the times are told instead of simulated. The whole state goes at the rate of the store or of all adapters, whichever is
/// less; the snapshot at PCIe's rate, a chip's share each. Changes nothing without such a store.
void tell_checkpoint_times(Node& faults, const Scenario& step);

}  // namespace trainyard
