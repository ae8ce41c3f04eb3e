#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

/// A step that PyTorch's profiler recorded on one GPU, compared with the simulated step, kernels by family.
struct KinetoComparison {
  std::string scenario, trace;
  int rank = 0;                                  ///< the simulated rank
  double steps = 1;                              ///< number of steps in the trace: its sums are divided by it
  bool counted = false;                          ///< the trace marks its steps
  double measured_step = 0, predicted_step = 0;  ///< s
  std::string gpu;  ///< the driver's name of the GPU on which the trace was recorded; "": unknown
  double measured_flops = 0, predicted_flops = 0;  ///< FLOPs of matrix products in a step; 0: the trace has no shapes
  /// Reasons why the trace may be of another GPU or model than the scenario, or why this cannot be checked; "": no doubts.
  std::string doubts;
  struct Kernel {
    std::string name;
    double seconds = 0, count = 0;  ///< per step
  };
  struct Family {
    std::string name;
    double measured = 0, measured_count = 0, predicted = 0, predicted_count = 0;  ///< s and number of kernels per step
    double gap() const { return measured - predicted; }
    std::optional<double> ratio() const {
      return measured > 0 ? std::optional<double>(predicted / measured) : std::nullopt;
    }
    std::vector<Kernel> longest;  ///< the longest measured kernels
  };
  std::vector<Family> families;  ///< the largest gap first
};
const JsonFields<KinetoComparison>& kineto_fields();

/// Simulates every kernel of the scenario separately and compares the trace with it. Default of `rank`: the last rank
/// to finish. `steps`: number of steps in the trace; 0: the number that it marks, or one. Throws UserError for bad
/// input, if a summary of Nsight Systems has no `steps`, and unless `any_gpu`, if the trace was recorded on another GPU
/// than the scenario's.
KinetoComparison compare_kineto(const Scenario&, const std::filesystem::path& trace, std::optional<int> rank = {},
                                int steps = 0, bool any_gpu = false);

/// Explains why a GPU with this driver name and memory (bytes; 0: unknown) is another one than `Gpu`; "" if nothing
/// shows it.
std::string other_gpu(const Gpu&, const std::string& name, double memory);

}  // namespace trainyard
