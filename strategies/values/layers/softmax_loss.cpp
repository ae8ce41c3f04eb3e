#include "strategies/values/layers/softmax_loss.hpp"

namespace trainyard::numeric {
namespace {

Eigen::MatrixXd log_softmax(const Eigen::MatrixXd& logits) {
  const Eigen::MatrixXd shifted = logits.rowwise() - logits.colwise().maxCoeff();
  return shifted.rowwise() - Eigen::RowVectorXd(shifted.array().exp().colwise().sum().log());
}

}  // namespace

Eigen::MatrixXd softmax(const Eigen::MatrixXd& logits) { return log_softmax(logits).array().exp(); }

double softmax_loss(const Eigen::MatrixXd& logits, const Eigen::MatrixXd& targets) {
  return -targets.cwiseProduct(log_softmax(logits)).sum();
}

Eigen::MatrixXd softmax_loss_gradient(const Eigen::MatrixXd& logits, const Eigen::MatrixXd& targets) {
  return softmax(logits) * targets.colwise().sum().asDiagonal() - targets;
}

}  // namespace trainyard::numeric
