#pragma once
#include <string>
#include <vector>

namespace trainyard {

class TrainingValues;

/// Difference between a split training and one on a single device, relative to the largest value of the layer (loss:
/// relative to the loss). Infinite if a value is missing.
struct TrainingDifference {
  double loss = 0, gradients = 0, parameters = 0;
  std::string worst;  ///< description of the largest difference
  double largest() const;
};
/// Compares trainings after the same steps. `one_device`: a training that holds all parameters on one device.
TrainingDifference difference(const TrainingValues&, const TrainingValues& one_device);

/// A tensor of a split training beside the same one on a single device.
struct TensorComparison {
  int layer = 0;
  std::string tensor;
  double elements = 0;                        ///< on one device
  std::vector<double> elements_by_rank = {};  ///< number of elements that each rank holds
  double largest_weight = 0;                  ///< largest weight on one device, as a magnitude
  double largest_change = 0;                  ///< largest change of a weight on one device since `before`
  double largest_difference = 0;  ///< largest difference of a weight on any rank; infinite if one is missing
};
/// Compares all tensors, layer by layer. `before`: the training on one device before its steps.
std::vector<TensorComparison> compare_tensors(const TrainingValues&, const TrainingValues& one_device,
                                              const TrainingValues& before);

}  // namespace trainyard
