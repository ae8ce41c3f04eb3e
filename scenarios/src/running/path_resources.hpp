#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/observers/path_sums.hpp"

namespace trainyard {

struct Gpu;
struct NodeType;
class StepRun;
struct SimulateOptions;

/// Time of a modelled collective before its first byte moves, by the fitted model of the library, without the launch and
/// the latency of the network.
constexpr const char* kLibraryStart = "NCCL's start-up";

/// Time of kernels on the GPU before their work begins and after it ends, which does not depend on the speed of the
/// chip.
constexpr const char* kKernelStart = "kernel start-up";

/// Time that software sets, and the latency of messages.
constexpr const char *kFrameworkName = "framework", *kLatencyName = "latency";

/// Time that exchanges beside a kernel add to it: they take a part of its GPU.
constexpr const char* kSlowdownName = "slow-down by exchanges";

constexpr const char* kComputeName = "GPU compute";
constexpr const char* kMemoryName = "GPU memory";

/// Shares of a kernel's time.
struct KernelShares {
  double start = 0;   ///< its start-up
  double memory = 0;  ///< share that its traffic adds. Its arithmetic has the rest

  /// Calls add(begin, end, resource) for each part of [begin, end).
  template <class Add>
  void split(double begin, double end, Add add) const {
    const double started = begin + start * (end - begin), counted = end - memory * (end - begin);
    add(begin, started, std::string_view(kKernelStart));
    add(started, counted, std::string_view(kComputeName));
    add(counted, end, std::string_view(kMemoryName));
  }
};
KernelShares shares_of(const Gpu&, const Work&);

/// Names the resource that bounds each piece of an operation: "GPU compute", "GPU memory" (what traffic adds to a kernel),
/// "host memory", "decoding", a kind of link ("PCIe" for an HCA whose slot is slower), "latency", kStorageLatency,
/// kKernelStart, kLibraryStart, kSlowdownName, or "framework" if software sets the time (host work, launches of a late
/// host, kernels that end before the next can be issued, launches of collectives, the network stack).
class PathNaming : public PathSums::Naming {
 public:
  explicit PathNaming(const StepRun& run) : run_(run) {}
  void name(const OpRecord&, double begin, double end, std::string_view piece, Book) const override;

 private:
  /// The kernels of one fused operation: seconds alone, by the resource that bounds them.
  struct Kernels {
    std::vector<std::pair<std::string_view, double>> by_resource;
    double seconds = 0;
    void add(std::string_view resource, double alone);
  };
  /// Kernels whose shares were computed last: a step runs the same few kernels many times.
  struct KnownKernel {
    const Gpu* gpu = nullptr;
    Work work;
    KernelShares shares;
  };
  const StepRun& run_;
  mutable std::map<const NodeType*, std::vector<Kernels>> fused_;  // indexed by number of the fused operation
  mutable std::array<KnownKernel, 1024> known_;                    // indexed by a hash of the work

  KernelShares known_shares(const Gpu&, Work) const;
  void name_fused(const OpRecord&, double seconds, Book) const;
};

/// Sums the critical path of a run by resource without keeping operations. Must outlive the run.
class PathWatch {
 public:
  void watch(SimulateOptions&);
  /// Returns seconds over all steps, by resource. Empty if the run keeps its operations, if ranks are not in step, or
  /// if the run has warm-up steps, which would count.
  std::map<std::string, double> by_resource() const {
    return path_ ? path_->by_resource() : std::map<std::string, double>{};
  }

 private:
  std::optional<PathNaming> naming_;
  std::optional<PathSums> path_;
};

/// Returns the critical path of the averaged steps, each piece with its resource. Empty if ranks are not in step, or if
/// the operations were not kept.
std::vector<PathStep> named_path(const StepRun&);

}  // namespace trainyard
