#pragma once
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// What each of the first `gpus` GPUs of a node of the cluster's first type sends at most while all of them do what
/// modelled_flow says, where that goes by PCIe, through host memory or between sockets: the links that carry most of it
/// by what NCCL gets of them. 0: it goes by NVLink and the like alone, or there is one GPU.
BytesPerSecond machine_rate(const ClusterSpec&, int gpus, Operation);

/// Absolute errors of a kind of machine by `validate collectives`: all sizes, and from 64 MiB on.
struct KindErrors {
  double median, p90, large;
};
/// Of such machines, whose medians the shares of the lanes are.
constexpr KindErrors kLanesErrors{0.12, 0.28, 0.08};
/// Of three systems of A100 and 2020 to 2022 whose network's switches add (SHARP), which are in no fit.
constexpr KindErrors kSharpErrors{0.31, 0.46, 0.42};

}  // namespace trainyard
