#pragma once
#include <compare>
#include <string>

namespace trainyard {

/// A release of NCCL, and the algorithms from which its tuner chooses (NVIDIA/nccl: the release notes in the messages
/// of its tags, and src/graph/tuning.cc of each).
struct NcclVersion {
  int major = 2, minor = 29;  ///< default: the newest version in the catalog's fits
  auto operator<=>(const NcclVersion&) const = default;

  bool trees() const { return *this >= NcclVersion{2, 4}; }  ///< trees for all-reduce between nodes
  bool ll128() const { return *this >= NcclVersion{2, 5}; }  ///< protocol LL128, and the tuner's model of times
  bool collnet_chain() const;                                ///< sums in the network, with chains in the nodes
  /// CollNet direct: GPUs of a node exchange by NVSwitch.
  bool collnet_direct() const { return *this >= NcclVersion{2, 9}; }
  bool pxn() const { return *this >= NcclVersion{2, 12}; }   ///< messages through the GPU on the receiver's rail
  bool nvls() const { return *this >= NcclVersion{2, 17}; }  ///< sums in the NVSwitch of one node
  bool nvls_between() const { return *this >= NcclVersion{2, 18}; }  ///< NVLS trees, and NVLS with sums in the network
  bool pat() const { return *this >= NcclVersion{2, 23}; }           ///< all-gather and reduce-scatter by trees
  /// Returns the rate of PAT relative to a ring's in the tuner (busBw *= …).
  double pat_share() const { return *this >= NcclVersion{2, 24} ? 0.75 : 0.85; }

  std::string text() const;
};

/// Reads "2.18", "2.18.3" or "2.18.3-1". A version newer than all known ones behaves like the newest. Throws UserError.
NcclVersion parse_nccl_version(const std::string&);

/// Launch of collectives by the host. ahead: no call waits for the host, because training queues its kernels ahead or a
/// CUDA graph launches them. by_process and by_thread: calls follow each other and nothing else runs, as in nccl-tests;
/// a process for each GPU launches its calls, or one thread launches those of all GPUs of the node in turn (-g N).
enum class NcclLaunch { ahead, by_process, by_thread };

/// Reads "process", "thread", or "graph" for `ahead`. Throws UserError.
NcclLaunch parse_nccl_launch(const std::string&);

/// The version of NCCL that runs, and the settings of its environment.
struct NcclChoice {
  NcclVersion version;
  bool pxn = true;  ///< false: as with NCCL_PXN_DISABLE=1
  NcclLaunch launch = NcclLaunch::ahead;
};

}  // namespace trainyard
