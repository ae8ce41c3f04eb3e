#pragma once
#include <Eigen/Core>
#include <cstddef>
#include <vector>

#include "sim/op.hpp"

namespace trainyard {

/// What a compressor does to the gradients that replicas exchange. It keeps what it needs between steps (error feedback,
/// momentum) by rank and bucket. Values are scaled so that sums over ranks are means over the global batch.
class GradientCoding {
 public:
  virtual ~GradientCoding() = default;
  /// The sum that all ranks have after their exchange of one step's gradients of a bucket, by rank.
  virtual Eigen::VectorXd sum(std::size_t bucket, const std::vector<Eigen::VectorXd>& of_ranks) = 0;
  /// In place of what a worker pushes to a server: what the server decodes.
  virtual void push(Actor worker, std::size_t bucket, Eigen::VectorXd& values) = 0;
};

}  // namespace trainyard
