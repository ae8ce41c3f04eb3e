#pragma once
#include <compare>
#include <string>

namespace trainyard {

/// A release of NCCL, and what its tuner has to choose from (NVIDIA/nccl: the release notes in the messages of its tags,
/// and src/graph/tuning.cc of each).
struct NcclVersion {
  int major = 2, minor = 29;  ///< the newest that the catalog's fits are of
  auto operator<=>(const NcclVersion&) const = default;

  bool trees() const { return *this >= NcclVersion{2, 4}; }           ///< of all-reduce between nodes
  bool ll128() const { return *this >= NcclVersion{2, 5}; }           ///< the protocol, and the tuner's model of times
  bool collnet_chain() const;                                         ///< sums in the network, by chains in the nodes
  bool collnet_direct() const { return *this >= NcclVersion{2, 9}; }  ///< the same by NVSwitch, all GPUs with all
  bool pxn() const { return *this >= NcclVersion{2, 12}; }            ///< messages by the GPU on the receiver's rail
  bool nvls() const { return *this >= NcclVersion{2, 17}; }           ///< sums in the NVSwitch of one node
  bool nvls_between() const { return *this >= NcclVersion{2, 18}; }   ///< NVLS trees, and NVLS with sums in the network
  bool pat() const { return *this >= NcclVersion{2, 23}; }            ///< all-gather and reduce-scatter by trees
  /// What the tuner gives PAT of a ring's rate (busBw *= …).
  double pat_share() const { return *this >= NcclVersion{2, 24} ? 0.75 : 0.85; }

  std::string text() const;
};

/// "2.18", "2.18.3", "2.18.3-1"; a newer one than is known is as the newest. Throws UserError.
NcclVersion parse_nccl_version(const std::string&);

/// Whether a call waits for the host: not where training queues its kernels ahead or a CUDA graph launches them. Where
/// calls follow each other and nothing else runs, as in nccl-tests, a process for each GPU launches for that one, or a
/// thread for all GPUs of the node in turn (-g N).
enum class NcclLaunch { ahead, by_process, by_thread };

/// "process", "thread"; "graph" for `ahead`. Throws UserError.
NcclLaunch parse_nccl_launch(const std::string&);

/// Which NCCL runs, and what its environment says.
struct NcclChoice {
  NcclVersion version;
  bool pxn = true;  ///< false: as with NCCL_PXN_DISABLE=1
  NcclLaunch launch = NcclLaunch::ahead;
};

}  // namespace trainyard
