#pragma once
#include <Eigen/Core>

namespace trainyard::numeric {

// Columns are samples. Targets are probability distributions over the rows.

/// Softmax of each column. Logits are shifted by the maximum so that no exponential overflows.
Eigen::MatrixXd softmax(const Eigen::MatrixXd& logits);
/// Σ −target·log softmax(logits).
double softmax_loss(const Eigen::MatrixXd& logits, const Eigen::MatrixXd& targets);
/// Gradient of `softmax_loss` by the logits.
Eigen::MatrixXd softmax_loss_gradient(const Eigen::MatrixXd& logits, const Eigen::MatrixXd& targets);

}  // namespace trainyard::numeric
