#pragma once
#include <Eigen/Core>

namespace trainyard::numeric {

// A sample a column; targets are distributions over the rows.
/// Column by column; shifted by the maximum, so that no exponential overflows.
Eigen::MatrixXd softmax(const Eigen::MatrixXd& logits);
/// Σ −target·log softmax(logits).
double softmax_loss(const Eigen::MatrixXd& logits, const Eigen::MatrixXd& targets);
/// By the logits.
Eigen::MatrixXd softmax_loss_gradient(const Eigen::MatrixXd& logits, const Eigen::MatrixXd& targets);

}  // namespace trainyard::numeric
