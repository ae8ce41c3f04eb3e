#pragma once
#include <filesystem>
#include <map>
#include <string>

namespace trainyard {

/// Total time (s) and number of kernels of one kind.
struct KernelSum {
  double seconds = 0, count = 0;
  KernelSum& operator+=(const KernelSum& o) {
    seconds += o.seconds;
    count += o.count;
    return *this;
  }
};

/// The kernels of one GPU, as PyTorch's profiler (Kineto) recorded them.
struct KinetoTrace {
  double steps = 0;          ///< number of complete ProfilerStep#… ranges; 0: no steps are marked
  double step_time = 0;      ///< mean time of these steps, s
  double span = 0;           ///< s from the begin of the first kernel to the end of the last
  std::string gpu;           ///< the driver's name of the device with most kernels; "": unknown
  double gpu_memory = 0;     ///< memory of that device, bytes; 0: unknown
  double product_flops = 0;  ///< FLOPs of PyTorch's matrix products; 0: no shapes were recorded, or there are none
  /// Kernels of that device by family (see family_of_kernel), then by name.
  std::map<std::string, std::map<std::string, KernelSum>> families;
};

/// Reads a Chrome trace of torch.profiler, .json or .json.gz, event by event. Throws UserError with file and byte if
/// the file is malformed, and if it has no kernel.
KinetoTrace read_kineto(const std::filesystem::path&);

/// Returns the family of a kernel: "matrix products", "attention", "normalization", "convolution", "embedding",
/// "optimizer", "elementwise", "copies", or for NCCL the operation: "all-reduce". `collective`: PyTorch's name of the
/// operation; "": the trace has none.
std::string family_of_kernel(const std::string& name, const std::string& collective);

}  // namespace trainyard
