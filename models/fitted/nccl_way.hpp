#pragma once
#include <array>
#include <vector>

#include "models/fitted/nccl_model.hpp"

namespace trainyard {

constexpr int kNcclLl128 = 1, kNcclSimple = 2;  ///< of the protocols LL, LL128, Simple

/// What an operation between nodes needs to know of their inside.
struct NcclInside {
  /// By LL, LL128, Simple; of one GPU a node without rates.
  std::array<NcclProtocol, 3> protocols;
  std::array<Seconds, 3> steps;  ///< what one more GPU of a node adds to the start-up
  NcclInSwitch in_switch;        ///< from_gpus 0: the switch does not add here
  LinkKind link_kind = LinkKind::nvlink;
  bool from_hopper = false;  ///< its switches could add, of more GPUs perhaps
};

/// One way of doing it: how often the network is crossed one after the other, what leaves a node, how long the node's own
/// links take for their part.
struct NcclWay {
  std::array<const char*, 3> names;  ///< by protocol
  std::array<Seconds, 3> startup;    ///< without the network
  double hops = 0;
  Bytes leaving;                         ///< a node, or where `rate` is a GPU's, that GPU
  BytesPerSecond network;                ///< by which they leave
  std::array<Seconds, 3> stay;           ///< of all bytes, on the node's own links
  double NcclNetwork::*share = nullptr;  ///< of Simple; null: `of_share` alone
  Bytes wire;                            ///< that a GPU sends by rings that carry as much out of each node
  bool in_switch = false;
  double of_share = 1;  ///< of `share`, or of the adapters, so much
};

/// Bytes by the node's own links at each protocol's rate.
std::array<Seconds, 3> staying_times(const NcclInside&, Bytes);

/// All-reduces whose sums the network's switches make (CollNet: InfiniBand SHARP). Simple alone; none where the call's
/// network does not add.
std::vector<NcclWay> collnet_ways(const NcclInside&, const NcclCall&);

/// The protocols of an operation among that many GPUs of one node: between the measured numbers of GPUs and beyond them.
/// An operation without rows takes those of one that is made alike. `machine`: at most so much a GPU sends by the node's
/// own links, where these set the rate; 0: as the model has it.
NcclCurve nccl_curve(const NcclModel&, NcclOperation, int gpus, BytesPerSecond machine = {});

/// What one more GPU of a node adds to the start-up.
Seconds nccl_step(const NcclModel&, NcclOperation, int gpus, NcclProtocol NcclCurve::*);

NcclInside nccl_inside(const NcclModel&, const NcclCall&);

/// The fastest of what NCCL does between nodes (NVIDIA/nccl src/graph/tuning.cc): rings, double binary trees over the
/// nodes with a chain inside each (all-reduce), the same with the sum inside a node made in its switch (NVLS tree), sums
/// in the network (CollNet), PAT (all-gather and reduce-scatter of one GPU a node), and messages from rank to rank: of
/// these what the call's version has.
NcclCost nccl_cost_between(const NcclInside&, const NcclNetwork&, const NcclCall&);

}  // namespace trainyard
