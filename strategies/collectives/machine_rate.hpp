#pragma once
#include "strategies/collectives/collective_settings.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// What each of the first `gpus` GPUs of a node of the cluster's first type sends at most while all of them do what
/// modelled_flow says, where that goes by PCIe, through host memory or between sockets: the links that carry most of it
/// by what NCCL gets of them. 0: it goes by NVLink and the like alone, or there is one GPU.
BytesPerSecond machine_rate(const ClusterSpec&, int gpus, Operation);

/// Absolute errors of such machines, whose medians the shares of the lanes are, by `validate collectives`: all sizes, and
/// from 64 MiB on.
struct LanesErrors {
  double median, p90, large;
};
constexpr LanesErrors kLanesErrors{0.13, 0.31, 0.08};

}  // namespace trainyard
