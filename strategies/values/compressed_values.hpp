#pragma once
#include <Eigen/Core>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/observers/values.hpp"
#include "strategies/plan/gradient_shape.hpp"

namespace trainyard {

/// Returns the shape of a bucket of a small training, which is a piece of one vector of `size` numbers: a matrix that is
/// as square as possible, and a column of the remaining elements.
GradientShape coded_shape(const TrainingPlan&, Eigen::Index size, int ranks);

/// Applies a plan's compressor to the gradients of a small training that runs along with the timed plan. It keeps the
/// state between steps (error feedback, momentum) by rank and bucket. Values are scaled so that sums over ranks are
/// means over the global batch.
class CompressedCoding {
 public:
  /// The plan must outlive it.
  CompressedCoding(const TrainingPlan& plan, std::uint64_t seed) : plan_(plan), seed_(seed) {}

  /// Returns the sum that all ranks have after the exchange of a bucket. `rank_gradients`: gradients of one step, by rank.
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

namespace trainyard::numeric {

/// Values of buckets that are exchanged compressed. Every rank has a codec for each of its buckets. Between `encode`
/// and `decode` its buffer of gradients holds the encoded values that the exchange works on.
class CompressedValues {
 public:
  /// The plan and the values must outlive it. The values ask it for sizes of messages that depend on the data.
  CompressedValues(const TrainingPlan&, std::uint64_t seed, Values&);
  CompressedValues(const CompressedValues&) = delete;
  CompressedValues& operator=(const CompressedValues&) = delete;

  /// See TrainingCall. `place`: number of the bucket among the buckets of all gradient sets.
  void encode(Actor rank, std::size_t place, int round, Eigen::VectorXd& buffer, Eigen::VectorXd& input);
  void decode(Actor rank, std::size_t place, Eigen::VectorXd& buffer);
  /// Encodes the gradients that a worker pushes to servers.
  Eigen::VectorXd payload(Actor worker, std::size_t key, const Eigen::VectorXd& gradients);
  /// Decodes a payload on a server.
  Eigen::VectorXd pushed(Actor worker, std::size_t key, const Eigen::VectorXd& payload);

 private:
  struct Bucket {
    GradientShape shape;
    std::vector<CompressionRound> rounds;
  };
  struct RankCodec {
    std::unique_ptr<GradientCodec> codec;
    int round = 0;
  };
  const TrainingPlan& plan_;
  std::uint64_t seed_;
  std::vector<std::vector<Bucket>> stages_;
  std::map<std::pair<Actor, std::size_t>, RankCodec> codecs_;  // indexed by rank and bucket

  const Bucket& bucket(Actor rank, std::size_t place) const;
  RankCodec& rank_codec(Actor rank, std::size_t place);
  int index_of(Actor rank, std::size_t place) const;
  Bytes size_of(Actor rank, const Op&, const Eigen::VectorXd& sent);
};

}  // namespace trainyard::numeric
