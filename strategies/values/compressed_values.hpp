#pragma once
#include <Eigen/Core>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/observers/values.hpp"
#include "strategies/plan/gradient_shape.hpp"

namespace trainyard::numeric {

/// Numbers of buckets that are exchanged compressed: every rank has a codec of each of its buckets, and its buffer of
/// gradients holds, between `encode` and `decode`, what the exchange works on.
class CompressedValues {
 public:
  /// The plan and the values must outlive it. The values ask it for bytes of messages that their program could not know.
  CompressedValues(const TrainingPlan&, std::uint64_t seed, Values&);
  CompressedValues(const CompressedValues&) = delete;
  CompressedValues& operator=(const CompressedValues&) = delete;

  /// See TrainingCall; `place` of a bucket counts those of all sets.
  void encode(Actor rank, std::size_t place, int round, Eigen::VectorXd& buffer, Eigen::VectorXd& input);
  void decode(Actor rank, std::size_t place, Eigen::VectorXd& buffer);
  /// What a worker pushes to servers, and what one of them makes of it.
  Eigen::VectorXd payload(Actor worker, std::size_t key, const Eigen::VectorXd& gradients);
  Eigen::VectorXd pushed(Actor worker, std::size_t key, const Eigen::VectorXd& payload);

 private:
  struct Bucket {
    GradientShape shape;
    std::vector<CompressionRound> rounds;
  };
  struct OfRank {
    std::unique_ptr<GradientCodec> codec;
    int round = 0;
  };
  const TrainingPlan& plan_;
  std::uint64_t seed_;
  std::vector<std::vector<Bucket>> stages_;
  std::map<std::pair<Actor, std::size_t>, OfRank> codecs_;  // by rank and bucket

  const Bucket& bucket(Actor rank, std::size_t place) const;
  OfRank& of_rank(Actor rank, std::size_t place);
  int index_of(Actor rank, std::size_t place) const;
  Bytes size_of(Actor rank, const Op&, const Eigen::VectorXd& sent);
};

}  // namespace trainyard::numeric
