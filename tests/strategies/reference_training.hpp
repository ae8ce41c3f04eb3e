#pragma once
#include <memory>
#include <string>

#include "strategies/values/training_values.hpp"

namespace trainyard {

/// How far a split training is from one device's: differences over the largest number of the layer that they are in
/// (loss: of itself). Infinite where a number is missing.
struct TrainingDifference {
  double loss = 0, gradients = 0, parameters = 0;
  std::string worst;  ///< in words
  double largest() const;
};
/// After the same steps. `one_device`: has all parameters whole.
TrainingDifference difference(const TrainingValues&, const TrainingValues& one_device);

/// The same training on one device, without any schedule: what every strategy must reproduce.
class ReferenceTraining {
 public:
  /// `global_batch` samples in one micro-batch.
  ReferenceTraining(const TrainingTask&, int global_batch, int steps = 1);
  ReferenceTraining(const ReferenceTraining&) = delete;
  ReferenceTraining& operator=(const ReferenceTraining&) = delete;

  void forward();   ///< of the next step
  void backward();  ///< gradients
  void update();
  void run();  ///< all steps
  TrainingValues& values() { return *training_; }
  numeric::RankParameters& parameters() { return training_->parameters(0); }
  const Network& network() const { return *plan_.network; }

 private:
  TrainingTask task_;
  TrainingPlan plan_;
  Values values_;
  std::unique_ptr<TrainingValues> training_;

  void all_layers(TrainingCall, bool reversed);
};

}  // namespace trainyard
