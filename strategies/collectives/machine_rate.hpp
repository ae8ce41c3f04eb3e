#pragma once
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// Returns the highest rate at which each of the first `gpus` GPUs of a node of the cluster's first type can send,
/// while all of them send along the edges of modelled_flow. Counts PCIe, host memory and links between sockets, at the
/// fraction of their rate that NCCL reaches. 0: the edges use only NVLink or similar links, or there is one GPU.
BytesPerSecond machine_rate(const ClusterSpec&, int gpus, Operation);

/// Absolute relative errors for one kind of machine, from `validate collectives`. median and p90: over all sizes;
/// large: from 64 MiB on.
struct KindErrors {
  double median, p90, large;
};
/// Errors on machines without NVLink, whose shares of the PCIe lanes are medians over these same machines.
constexpr KindErrors kLanesErrors{0.12, 0.28, 0.08};
/// Errors on three A100 systems of 2020 to 2022 whose network switches add (SHARP). They are in no fit.
constexpr KindErrors kSharpErrors{0.31, 0.46, 0.42};

}  // namespace trainyard
