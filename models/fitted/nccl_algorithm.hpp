#pragma once
#include <array>
#include <vector>

#include "models/fitted/nccl_model.hpp"

namespace trainyard {

constexpr int kNcclLl128 = 1, kNcclSimple = 2;  ///< indices of protocols; LL has 0

/// Figures of the inside of the nodes that an operation between nodes depends on.
struct NcclInside {
  /// LL, LL128 and Simple. Rates are 0 with one GPU a node.
  std::array<NcclProtocol, 3> protocols;
  std::array<Seconds, 3> steps;  ///< time that one more GPU of a node adds to the start-up
  NcclInSwitch in_switch;        ///< from_gpus 0: the switch does not sum in this call
  LinkKind link_kind = LinkKind::nvlink;
  bool from_hopper = false;  ///< Hopper or later: the switches can sum, perhaps only for more GPUs
  /// Rate of a channel of a tree over two nodes by Simple, up and down together; 0: no limit is known.
  BytesPerSecond tree_channel;
};

/// One algorithm of an operation between nodes: the number of hops over the network in sequence, the bytes that leave a
/// node, and the time of the node's own links.
struct NcclAlgorithm {
  std::array<const char*, 3> names;  ///< for reports, by protocol
  std::array<Seconds, 3> startup;    ///< indexed by protocol, without the network
  double hops = 0;
  Bytes outgoing;                        ///< bytes that leave at the rate `network`
  BytesPerSecond network;                ///< rate of the adapters of a node or of one GPU
  std::array<Seconds, 3> link_times;     ///< time of all bytes on the node's own links, by protocol
  double NcclNetwork::*share = nullptr;  ///< share of `network` that Simple reaches; null: `share_factor` alone
  Bytes wire;                            ///< bytes that a GPU sends in rings with the same traffic out of each node
  bool in_switch = false;
  double share_factor = 1;  ///< factor on `share` for Simple
  bool rings = false;       ///< true: the algorithm is the ring
  Seconds channels_time{};  ///< time in which NCCL's channels move all bytes by Simple
};

/// Names of the ring by protocol. Operations between pairs of ranks have no algorithm, only the protocol.
constexpr std::array<const char*, 3> kRingNames{"ring, LL", "ring, LL128", "ring, Simple"};
constexpr std::array<const char*, 3> kPairNames{"LL", "LL128", "Simple"};
/// True if ranks send to each other directly, without an algorithm such as the ring.
bool sends_by_pairs(NcclOperation);

/// Returns the times of bytes on the node's own links at each protocol's rate.
std::array<Seconds, 3> link_times(const NcclInside&, Bytes);

/// Returns the algorithms for all-reduce in which the network's switches sum (CollNet: InfiniBand SHARP). They use
/// Simple only. The result is empty if the call's network does not sum.
std::vector<NcclAlgorithm> collnet_algorithms(const NcclInside&, const NcclCall&);

}  // namespace trainyard
