#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/observers/path_sums.hpp"

namespace trainyard {

struct NodeType;
class StepRun;
struct SimulateOptions;

/// What a modelled collective takes before its first byte moves, by the fitted model of the library.
constexpr const char* kLibraryStart = "NCCL's start-up";

/// What kernels take on the GPU before their work begins and after it ends, however fast the chip is.
constexpr const char* kKernelStart = "kernel start-up";

/// The resources that the pieces of a step's operations are spent on: "GPU compute", "GPU memory", "host memory",
/// "decoding", a kind of link, "latency", kKernelStart, kLibraryStart, or "framework" where software sets the time (host
/// work, kernels that end before the next can be issued, launches of collectives, the network stack).
class PathNaming : public PathSums::Naming {
 public:
  explicit PathNaming(const StepRun& run) : run_(run) {}
  void name(const OpRecord&, double begin, double end, std::string_view piece, Book) const override;

 private:
  /// Of one operation: what bounds each kernel, and its seconds alone.
  struct Kernels {
    std::vector<std::pair<std::string_view, double>> of;
    double seconds = 0;
    void add(std::string_view resource, double alone);
  };
  const StepRun& run_;
  mutable std::map<const NodeType*, std::vector<Kernels>> fused_;  // by number

  void name_fused(const OpRecord&, double seconds, Book) const;
};

/// Watches the critical path of a run by resource, of whose operations none is kept. Must outlive the run.
class PathWatch {
 public:
  void watch(SimulateOptions&);
  /// Seconds of all steps; empty where the run keeps its operations, ranks do not step together, or steps before those that
  /// are looked at would count too.
  std::map<std::string, double> by_resource() const {
    return path_ ? path_->by_resource() : std::map<std::string, double>{};
  }

 private:
  std::optional<PathNaming> naming_;
  std::optional<PathSums> path_;
};

/// The critical path of the steps that are looked at, each piece under its resource. Empty where ranks do not step
/// together, or the operations were not kept.
std::vector<PathStep> named_path(const StepRun&);

}  // namespace trainyard
