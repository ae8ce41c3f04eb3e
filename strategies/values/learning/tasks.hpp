#pragma once
#include <memory>
#include <vector>

#include "strategies/values/learning/learning_task.hpp"
#include "strategies/values/learning/samples.hpp"

namespace trainyard {

/// Samples for training and for validation.
struct SplitSamples {
  LabelledSamples training, validation;
};
/// Uses the last `part` of the samples, at least one, for validation.
SplitSamples split(LabelledSamples, double part);

/// An MLP with hidden layers of these widths and tanh between layers. Without hidden layers it is softmax regression.
std::shared_ptr<const LearningTask> classifier(SplitSamples, const std::vector<int>& hidden, std::uint64_t seed);

/// A network of 3 × 3 convolutions, each followed by tanh and a maximum over 2 × 2 pixels, and a linear layer. Images
/// are square.
std::shared_ptr<const LearningTask> small_cnn(SplitSamples, const std::vector<int>& channels, std::uint64_t seed);

/// A transformer with GPT-2's blocks. `validation`: share of the sentences that are used for validation only.
std::shared_ptr<const LearningTask> small_transformer(const SmallTransformer&, Sentences, double validation,
                                                      std::uint64_t seed);

/// ½ Σ hᵢ (wᵢ − cᵢ)² with curvatures hᵢ. The c of each sample is normal around 0 with standard deviation `noise`. The
/// training begins at w = 1, unless `start` gives other values. The gradient noise scale at w is noise² Σ hᵢ² / Σ hᵢ² wᵢ².
std::shared_ptr<const LearningTask> quadratic(std::vector<double> curvatures, double noise, std::uint64_t seed);

/// Σ (wᵢ² − 1)² − sᵢ wᵢ. The s of each sample is normal around 0 with standard deviation `noise`. Minima are at ±1. The
/// training begins at 0, on the hill of height 1 between them, unless `start` gives other values.
std::shared_ptr<const LearningTask> double_well(int dimensions, double noise, std::uint64_t seed);

}  // namespace trainyard
