#pragma once
#include <memory>
#include <string>
#include <vector>

#include "strategies/values/training_values.hpp"

namespace trainyard {

/// Training on one device and without a schedule, which every strategy must reproduce.
class ReferenceTraining {
 public:
  /// Every step has one micro-batch of `global_batch` samples.
  ReferenceTraining(const TrainingTask&, int global_batch, int steps = 1);
  ReferenceTraining(const ReferenceTraining&) = delete;
  ReferenceTraining& operator=(const ReferenceTraining&) = delete;

  void forward();   ///< forward pass of the next step
  void backward();  ///< computes gradients
  void update();
  void run();  ///< computes all steps
  TrainingValues& values() { return *training_; }
  numeric::RankParameters& parameters() { return training_->parameters(0); }

 private:
  TrainingTask task_;
  TrainingPlan plan_;
  Values values_;
  std::unique_ptr<TrainingValues> training_;

  void all_layers(TrainingCall, bool reversed);
};

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
