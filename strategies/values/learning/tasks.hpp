#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "strategies/values/learning/learning_task.hpp"
#include "strategies/values/learning/samples.hpp"

namespace trainyard {

/// Samples to learn from, and those kept apart.
struct SplitSamples {
  LabelledSamples training, validation;
};
/// The last `part` of them are kept apart, one at least.
SplitSamples split(LabelledSamples, double part);

/// Softmax regression where `hidden` is empty, else an MLP of such layers; tanh between them.
std::shared_ptr<const LearningTask> classifier(SplitSamples, const std::vector<int>& hidden, std::uint64_t seed);

/// Convolutions of 3 × 3 with tanh, each of them before a maximum over 2 × 2, and a linear layer. Images are square.
std::shared_ptr<const LearningTask> small_cnn(SplitSamples, const std::vector<int>& channels, std::uint64_t seed);

/// GPT-2's blocks; `validation` of the sentences are kept apart.
std::shared_ptr<const LearningTask> small_transformer(const SmallTransformer&, Sentences, double validation,
                                                      std::uint64_t seed);

/// ½ Σ hᵢ (wᵢ − cᵢ)², where c of each sample is drawn with standard deviation `noise` around 0. Begins at w = 1. Its
/// gradient noise scale at w is noise² Σ hᵢ² / Σ hᵢ² wᵢ².
std::shared_ptr<const LearningTask> quadratic(std::vector<double> curvatures, double noise, std::uint64_t seed);

/// Σ (wᵢ² − 1)² − sᵢ wᵢ, where s of each sample is drawn with standard deviation `noise`: minima at ±1, a hill of
/// height 1 between them, on which it begins.
std::shared_ptr<const LearningTask> double_well(int dimensions, double noise, std::uint64_t seed);

}  // namespace trainyard
