#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/planning/plan.hpp"

namespace trainyard {

/// A step as PyTorch's profiler saw it on one GPU, beside the same step simulated, kernels by family.
struct KinetoComparison {
  std::string scenario, trace;
  int rank = 0;                                  ///< the simulated one
  double steps = 1;                              ///< of the trace: its sums are divided by them
  bool counted = false;                          ///< the trace marks its steps
  double measured_step = 0, predicted_step = 0;  ///< s
  std::string gpu;  ///< that the trace was recorded on, as its driver calls it; "": the trace does not say
  double measured_flops = 0, predicted_flops = 0;  ///< of matrix products, a step; 0: the trace has no shapes
  std::string
      doubts;  ///< why the trace may be of another GPU or model than the scenario, or cannot tell; "": it is not
  struct Kernel {
    std::string name;
    double seconds = 0, count = 0;  ///< a step
  };
  struct Family {
    std::string name;
    double measured = 0, measured_count = 0, predicted = 0, predicted_count = 0;  ///< s and kernels a step
    double gap() const { return measured - predicted; }
    std::optional<double> ratio() const {
      return measured > 0 ? std::optional<double>(predicted / measured) : std::nullopt;
    }
    std::vector<Kernel> longest;  ///< of those measured
  };
  std::vector<Family> families;  ///< the largest gap first
};
const JsonFields<KinetoComparison>& kineto_fields();

/// Simulates the scenario with every kernel by itself and puts the trace beside. `rank`: whose step; by default the last to
/// finish. `steps`: of the trace; 0: those that it marks, or one. Throws UserError, also where the trace is of another GPU
/// than the scenario's, unless `any_gpu`.
KinetoComparison compare_kineto(const Scenario&, const std::filesystem::path& trace, std::optional<int> rank = {},
                                int steps = 0, bool any_gpu = false);

/// Why a GPU that calls itself `name`, with that memory in bytes (0: not known), is not this one; "" where nothing says so.
std::string other_gpu(const Gpu&, const std::string& name, double memory);

}  // namespace trainyard
