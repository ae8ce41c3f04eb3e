#include "strategies/values/compressed_values.hpp"

#include <algorithm>
#include <cmath>

#include "sim/hashing.hpp"
#include "strategies/plan/training_buffers.hpp"

namespace trainyard {
namespace {

std::span<const double> numbers_of(const Eigen::VectorXd& v) { return {v.data(), static_cast<std::size_t>(v.size())}; }
Eigen::VectorXd vector_of(const std::vector<double>& v) {
  return Eigen::Map<const Eigen::VectorXd>(v.data(), std::ssize(v));
}

}  // namespace

GradientShape coded_shape(const TrainingPlan& plan, Eigen::Index size, int ranks) {
  GradientShape shape;
  const auto elements = static_cast<double>(size);
  const double rows = std::max(1.0, std::floor(std::sqrt(elements))), columns = std::floor(elements / rows);
  if (size > 0) shape.parts.push_back({rows, columns});
  if (const double rest = elements - rows * columns; rest > 0) shape.parts.push_back({rest, 1});
  shape.element = plan.gradient_element;
  shape.ranks = ranks;
  shape.warm_up_stage = plan.compression->warm_up_stages();
  return shape;
}

CompressedCoding::Bucket& CompressedCoding::bucket(std::size_t number, Eigen::Index size, int ranks) {
  Bucket& result = buckets_[number];
  if (!result.codecs.empty()) return result;
  result.shape = coded_shape(plan_, size, ranks);
  for (int rank = 0; rank < plan_.ranks(); ++rank)
    result.codecs.push_back(plan_.compression->codec(result.shape, rank, hash_numbers({seed_, number})));
  return result;
}

Eigen::VectorXd CompressedCoding::sum(std::size_t number, const std::vector<Eigen::VectorXd>& rank_gradients) {
  Bucket& b = bucket(number, rank_gradients.front().size(), static_cast<int>(rank_gradients.size()));
  std::vector<std::vector<double>> gradients;
  for (const Eigen::VectorXd& gradient : rank_gradients) gradients.emplace_back(gradient.begin(), gradient.end());
  return vector_of(compressed_sum(*plan_.compression, b.shape, b.codecs, gradients));
}

void CompressedCoding::push(Actor worker, std::size_t number, Eigen::VectorXd& values) {
  Bucket& b = bucket(number, values.size(), 1);
  GradientCodec& codec = *b.codecs.at(worker);
  values = vector_of(codec.decode(codec.encode(0, numbers_of(values))));
}

}  // namespace trainyard

namespace trainyard::numeric {

CompressedValues::CompressedValues(const TrainingPlan& plan, std::uint64_t seed, Values& values)
    : plan_(plan), seed_(seed) {
  for (const StagePlan& stage : plan.stages) {
    std::vector<Bucket>& buckets = stages_.emplace_back();
    for (const GradientBucket& bucket : stage.buckets) {
      const GradientShape shape = gradient_shape(plan, bucket);
      buckets.push_back({shape, plan.compression->compress(shape).rounds});
    }
  }
  values.on_size([this](Actor rank, const Op& op, const Eigen::VectorXd& sent) { return size_of(rank, op, sent); });
}

const CompressedValues::Bucket& CompressedValues::bucket(Actor rank, std::size_t place) const {
  const std::vector<Bucket>& all = stages_[plan_.mesh.coordinates(rank).pipeline];
  return all[place % all.size()];
}

int CompressedValues::index_of(Actor rank, std::size_t place) const {
  const std::vector<GradientBucket>& all = plan_.stage_of(rank).buckets;
  const Lane lane = all[place % all.size()].experts ? Lane::expert_gradients : Lane::gradients;
  if (!plan_.lane(lane).is_used()) return rank;  // workers of servers
  return plan_.lane(lane).index_of_rank[rank];
}

CompressedValues::RankCodec& CompressedValues::rank_codec(Actor rank, std::size_t place) {
  const std::size_t number = place % plan_.stage_of(rank).buckets.size();
  RankCodec& result = codecs_[{rank, number}];
  if (!result.codec)
    result.codec =
        plan_.compression->codec(bucket(rank, place).shape, index_of(rank, place), hash_numbers({seed_, number}));
  return result;
}

void CompressedValues::encode(Actor rank, std::size_t place, int round, Eigen::VectorXd& buffer,
                              Eigen::VectorXd& input) {
  const Bucket& b = bucket(rank, place);
  RankCodec& rank_state = rank_codec(rank, place);
  rank_state.round = round;
  const Eigen::VectorXd payload = vector_of(rank_state.codec->encode(round, numbers_of(buffer)));
  const Eigen::Index size = payload.size();
  const Operation operation = b.rounds[round].operation;
  const int index = index_of(rank, place);
  if (operation == Operation::all_gather) {
    buffer.setZero(size * b.shape.ranks);
    buffer.segment(size * index, size) = payload;
    return;
  }
  (operation == Operation::all_to_all ? input : buffer) = payload;
  if (operation == Operation::all_to_all) buffer.setZero(size);
}

void CompressedValues::decode(Actor rank, std::size_t place, Eigen::VectorXd& buffer) {
  buffer = vector_of(rank_codec(rank, place).codec->decode(numbers_of(buffer)));
}

Eigen::VectorXd CompressedValues::payload(Actor worker, std::size_t key, const Eigen::VectorXd& gradients) {
  return vector_of(rank_codec(worker, key).codec->encode(0, numbers_of(gradients)));
}

Eigen::VectorXd CompressedValues::pushed(Actor worker, std::size_t key, const Eigen::VectorXd& payload) {
  return vector_of(rank_codec(worker, key).codec->decode(numbers_of(payload)));
}

/// Size of a message: all words of a payload, or the nonzero elements of a sparse sum, but at most the dense sum.
Bytes CompressedValues::size_of(Actor rank, const Op& op, const Eigen::VectorXd& sent) {
  constexpr double word = 4;
  const std::size_t place = training_buffer(op.effect.read.buffer).index;
  const Bucket& b = bucket(rank, place);
  const CompressionRound& round = b.rounds[rank_codec(rank, place).round];
  const auto size = static_cast<double>(sent.size());
  if (round.operation != Operation::all_reduce) return Bytes{word * size};
  const auto nonzero = static_cast<double>((sent.array() != 0).count());
  return round.bytes / b.shape.elements() * std::min(nonzero, round.whole * size);
}

}  // namespace trainyard::numeric
