#pragma once
#include <memory>

#include "strategies/values/training_difference.hpp"
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
  const Network& network() const { return *plan_.network; }

 private:
  TrainingTask task_;
  TrainingPlan plan_;
  Values values_;
  std::unique_ptr<TrainingValues> training_;

  void all_layers(TrainingCall, bool reversed);
};

}  // namespace trainyard
