#pragma once
#include <Eigen/Core>
#include <cstdint>

#include "strategies/values/layers/update_rule.hpp"

namespace trainyard {

using ParameterPart = Eigen::Ref<Eigen::VectorXd>;

/// One tensor, of which lars and lamb take the norm, or any part of one where the rule goes element by element.
/// `first`, `second`: moments of the gradient; `updates`: this one included.
void apply_update(const UpdateRule&, ParameterPart parameters, const Eigen::Ref<const Eigen::VectorXd>& gradient,
                  ParameterPart first, ParameterPart second, std::int64_t updates);
/// The same for one element.
void apply_update(const UpdateRule&, double& parameter, double gradient, double& first, double& second,
                  std::int64_t updates);

/// What the optimizer keeps of some parameters.
struct OptimizerState {
  Eigen::VectorXd first, second;
  std::int64_t updates = 0;

  void begin(Eigen::Index size);  ///< where there is nothing yet
  /// All of them as one tensor.
  void update(const UpdateRule&, ParameterPart parameters, const Eigen::VectorXd& gradient);
};

}  // namespace trainyard
