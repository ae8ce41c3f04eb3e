#pragma once
#include <Eigen/Core>
#include <cstdint>

namespace trainyard {

struct UpdateRule;
using ParameterPart = Eigen::Ref<Eigen::VectorXd>;

/// The form of a tensor, for rules that multiply or factor matrices (UpdateRule::Part::matrix).
struct MatrixForm {
  Eigen::Index rows = 1;  ///< rows of a matrix, whose columns follow one another; 1: the tensor is a vector
  bool inner = false;     ///< the matrix is inside the network: it is neither its head nor an embedding
  Eigen::Map<Eigen::VectorXd> factors{nullptr, 0};  ///< state of its sides, `factor_count` elements
};
/// Returns the number of elements that the rule keeps for the sides of a tensor of `count` elements.
Eigen::Index factor_count(const UpdateRule&, Eigen::Index count, const MatrixForm&);

/// Updates one tensor. Rules by element (UpdateRule::Part) may get any part of a tensor.
/// `first`, `second`: moments of the gradient; `updates`: number of updates including this one.
void apply_update(const UpdateRule&, ParameterPart parameters, const Eigen::Ref<const Eigen::VectorXd>& gradient,
                  ParameterPart first, ParameterPart second, std::int64_t updates, const MatrixForm& = {});
/// Updates one element.
void apply_update(const UpdateRule&, double& parameter, double gradient, double& first, double& second,
                  std::int64_t updates);

/// Optimizer state of some parameters.
struct OptimizerState {
  Eigen::VectorXd first, second;
  Eigen::VectorXd factors = {};  ///< state of the sides of matrices, one tensor after another
  std::int64_t updates = 0;

  void begin(Eigen::Index size);  ///< sets the moments to 0 before the first update
  /// Updates all parameters as one tensor that is a vector.
  void update(const UpdateRule&, ParameterPart parameters, const Eigen::VectorXd& gradient);
};

}  // namespace trainyard
