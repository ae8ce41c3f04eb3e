#pragma once
#include <Eigen/Core>
#include <map>
#include <memory>
#include <vector>

#include "strategies/plan/gradient_shape.hpp"

namespace trainyard {

/// Applies a plan's compressor to the gradients of a small training that runs along with the timed plan. It keeps the
/// state between steps (error feedback, momentum) by rank and bucket. Values are scaled so that sums over ranks are
/// means over the global batch.
class CompressedCoding {
 public:
  /// The plan must outlive it.
  CompressedCoding(const TrainingPlan& plan, std::uint64_t seed) : plan_(plan), seed_(seed) {}

  /// Returns the sum that all ranks have after the exchange of a bucket. `rank_gradients`: gradients of one step, by
  /// rank.
  Eigen::VectorXd sum(std::size_t bucket, const std::vector<Eigen::VectorXd>& rank_gradients);
  /// Replaces the gradients that a worker pushes to a server by those that the server decodes.
  void push(Actor worker, std::size_t bucket, Eigen::VectorXd& values);

 private:
  struct Bucket {
    GradientShape shape;
    std::vector<std::unique_ptr<GradientCodec>> codecs;  // indexed by rank
  };
  const TrainingPlan& plan_;
  std::uint64_t seed_;
  std::map<std::size_t, Bucket> buckets_;

  Bucket& bucket(std::size_t number, Eigen::Index size, int ranks);
};

}  // namespace trainyard
