#pragma once
#include <map>
#include <memory>
#include <vector>

#include "strategies/plan/gradient_shape.hpp"
#include "strategies/values/gradient_coding.hpp"

namespace trainyard {

/// A plan's compressor on the gradients of a small training that rides on it: what the timed exchange would do to them.
class CompressedCoding : public GradientCoding {
 public:
  /// The plan must outlive it.
  CompressedCoding(const TrainingPlan& plan, std::uint64_t seed) : plan_(plan), seed_(seed) {}

  Eigen::VectorXd sum(std::size_t bucket, const std::vector<Eigen::VectorXd>& of_ranks) override;
  void push(Actor worker, std::size_t bucket, Eigen::VectorXd& values) override;

 private:
  struct Bucket {
    GradientShape shape;
    std::vector<std::unique_ptr<GradientCodec>> codecs;  // by rank
  };
  const TrainingPlan& plan_;
  std::uint64_t seed_;
  std::map<std::size_t, Bucket> buckets_;

  Bucket& bucket(std::size_t number, Eigen::Index size, int ranks);
};

}  // namespace trainyard
