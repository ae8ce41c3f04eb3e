#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "sim/error.hpp"

namespace trainyard {

/// Total time (s) and number of kernels of one kind.
struct KernelSum {
  double seconds = 0, count = 0;
  KernelSum& operator+=(const KernelSum& o) { return *this = {seconds + o.seconds, count + o.count}; }
};

/// The kernels of one GPU, as PyTorch's profiler (Kineto) or Nsight Systems recorded them.
struct KinetoTrace {
  double steps = 0;          ///< number of complete ProfilerStep#… ranges; 0: no steps are marked
  double step_time = 0;      ///< mean time of these steps, s
  double span = 0;           ///< s from the begin of the first kernel to the end of the last; 0: unknown
  std::string gpu;           ///< the driver's name of the device with most kernels; "": unknown
  double gpu_memory = 0;     ///< memory of that device, bytes; 0: unknown
  double product_flops = 0;  ///< FLOPs of PyTorch's matrix products; 0: no shapes were recorded, or there are none
  /// Kernels of that device by family (see family_of_kernel), then by name.
  std::map<std::string, std::map<std::string, KernelSum>> families;
};

/// Reads a Chrome trace of torch.profiler, .json or .json.gz, event by event, an export of Nsight Systems
/// (`read_nsight_items`), or its summary. The summary has no steps, span, GPU or shapes, and the export no shapes.
/// Throws UserError with file and byte or line if the file is malformed, and if it has no kernel.
KinetoTrace read_kineto(const std::filesystem::path&);
/// Returns true if the file is a summary of kernels by Nsight Systems: nsys stats -r cuda_gpu_kern_sum --format csv.
bool is_nsight_summary(const std::filesystem::path&);

/// Reads a Chrome trace, .json or .json.gz, or an export of Nsight Systems, and calls `take` as read_json_items does.
/// Throws UserError with file and byte if the file is malformed.
void read_kineto_items(const std::filesystem::path&,
                       const std::function<void(const std::string& list, const nlohmann::json& item)>& take);
/// Explains that a trace of PyTorch's profiler has no kernel.
UserError no_kernel(const std::string& file);
/// Returns a member of an event that is a number, or `otherwise` if it has none.
double number_in(const nlohmann::json& object, const char* key, double otherwise = 0);
/// Returns a time of an event, a number or a number as text. No value: it has none.
std::optional<double> time_in(const nlohmann::json& object, const char* key);
/// The longest event of a trace, us: 12 days. A profiler records minutes, so that a longer one is a fault (unverified).
constexpr double kLongestEvent = 1e12;
/// Returns the duration of an event, us. No value: it has none. Throws UserError if it is longer than kLongestEvent.
std::optional<double> duration_in(const nlohmann::json& event, const std::string& file);
/// Returns a member of an event that is a text; "": it has none.
std::string text_in(const nlohmann::json& object, const char* key);
/// Returns the arguments of an event; an empty object: it has none.
const nlohmann::json& arguments_of(const nlohmann::json& event);
/// Returns true if the category of an event is a copy or a fill of memory by the GPU.
bool is_gpu_copy(const std::string& category);

/// Returns the family of a kernel: "matrix products", "attention", "normalization", "convolution", "embedding",
/// "optimizer", "elementwise", "copies", or for NCCL the operation: "all-reduce". `collective`: PyTorch's name of the
/// operation; "": the trace has none.
std::string family_of_kernel(const std::string& name, const std::string& collective);

}  // namespace trainyard
