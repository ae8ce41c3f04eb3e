#pragma once
#include <algorithm>
#include <cstdint>

#include "strategies/values/learning/learning_task.hpp"

namespace trainyard {

/// Size and noise of the gradient of one sample.
struct GradientNoise {
  double gradient = 0;  ///< |G|², of the mean gradient of all samples
  double trace = 0;     ///< tr Σ, of the covariance over samples

  /// The simple noise scale, in samples: in a batch of this size, noise is as large as the gradient (McCandlish et al.
  /// 2018, equation 2.9). Infinite if the gradient cannot be distinguished from noise.
  double scale() const { return gradient > 0 ? std::max(0.0, trace) / gradient : HUGE_VAL; }
};

/// Measures the noise on `groups` groups of `batch` samples, from position `first` of the order on. The unbiased
/// estimates use the norms of the groups' gradients and of their mean (McCandlish et al. 2018, appendix A.1).
GradientNoise measure_noise(const LearningTask&, const Eigen::VectorXd& parameters, SampleOrder&, std::int64_t first,
                            int batch, int groups);

}  // namespace trainyard
