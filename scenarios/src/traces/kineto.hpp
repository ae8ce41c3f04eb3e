#pragma once
#include <filesystem>
#include <map>
#include <string>

namespace trainyard {

/// How long kernels of one kind took together.
struct KernelSum {
  double seconds = 0, count = 0;
  KernelSum& operator+=(const KernelSum& o) {
    seconds += o.seconds;
    count += o.count;
    return *this;
  }
};

/// What a GPU did, as PyTorch's profiler (Kineto) recorded it.
struct KinetoTrace {
  double steps = 0;          ///< ProfilerStep#… that are whole; 0: none are marked
  double step_time = 0;      ///< s, their mean
  double span = 0;           ///< s, from the first kernel to the end of the last
  std::string gpu;           ///< the device of most kernels, as the driver calls it; "": the trace does not say
  double gpu_memory = 0;     ///< bytes; 0: it does not say
  double product_flops = 0;  ///< of PyTorch's products of matrices; 0: shapes were not recorded, or there are none
  /// By family, then by name: see family_of_kernel. Of the device of most kernels.
  std::map<std::string, std::map<std::string, KernelSum>> families;
};

/// Reads a Chrome trace of torch.profiler, .json or .json.gz, event by event. Throws UserError naming file and byte, and
/// where no kernel is in it.
KinetoTrace read_kineto(const std::filesystem::path&);

/// "matrix products", "attention", "normalization", "convolution", "embedding", "optimizer", "elementwise", "copies", or of
/// NCCL the operation: "all-reduce". `collective`: as PyTorch calls it, where the trace says; else "".
std::string family_of_kernel(const std::string& name, const std::string& collective);

}  // namespace trainyard
