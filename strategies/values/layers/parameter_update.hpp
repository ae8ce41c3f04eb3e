#pragma once
#include <Eigen/Core>
#include <cstdint>

namespace trainyard {

struct UpdateRule;
using ParameterPart = Eigen::Ref<Eigen::VectorXd>;

/// Updates one tensor. lars and lamb use its norms; for other rules it may be any part of a tensor.
/// `first`, `second`: moments of the gradient; `updates`: number of updates including this one.
void apply_update(const UpdateRule&, ParameterPart parameters, const Eigen::Ref<const Eigen::VectorXd>& gradient,
                  ParameterPart first, ParameterPart second, std::int64_t updates);
/// Updates one element.
void apply_update(const UpdateRule&, double& parameter, double gradient, double& first, double& second,
                  std::int64_t updates);

/// Optimizer state of some parameters.
struct OptimizerState {
  Eigen::VectorXd first, second;
  std::int64_t updates = 0;

  void begin(Eigen::Index size);  ///< sets the moments to 0 before the first update
  /// Updates all parameters as one tensor.
  void update(const UpdateRule&, ParameterPart parameters, const Eigen::VectorXd& gradient);
};

}  // namespace trainyard
