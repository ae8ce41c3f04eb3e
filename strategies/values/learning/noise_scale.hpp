#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "strategies/values/learning/learning_task.hpp"

namespace trainyard {

/// What the gradient of one sample is made of: the mean of all samples' gradients, and noise.
struct GradientNoise {
  double gradient = 0;  ///< |G|², of the mean
  double trace = 0;     ///< tr Σ, of the covariance over samples

  /// The simple noise scale, in samples: a batch of so many has as much noise as gradient (McCandlish et al. 2018,
  /// equation 2.9). Infinite where no gradient is to be told from noise.
  double scale() const { return gradient > 0 ? std::max(0.0, trace) / gradient : HUGE_VAL; }
};

/// Measured on `groups` groups of `batch` samples from number `first` of the order on: by the norms of the groups'
/// gradients and of their mean, both free of bias (McCandlish et al. 2018, appendix A.1).
GradientNoise measure_noise(const LearningTask&, const Eigen::VectorXd& parameters, SampleOrder&, std::int64_t first,
                            int batch, int groups);

}  // namespace trainyard
