#include "strategies/values/compressed_coding.hpp"

#include <cmath>

#include "sim/hashing.hpp"

namespace trainyard {
namespace {

using Numbers = std::vector<double>;

Numbers numbers_of(const Eigen::VectorXd& v) { return {v.data(), v.data() + v.size()}; }
Eigen::VectorXd vector_of(const Numbers& v) {
  return Eigen::Map<const Eigen::VectorXd>(v.data(), static_cast<Eigen::Index>(v.size()));
}

}  // namespace

/// A bucket of a small training is a piece of one vector. Its shape is a matrix that is as square as possible, and a
/// column of the remaining elements.
CompressedCoding::Bucket& CompressedCoding::bucket(std::size_t number, Eigen::Index size, int ranks) {
  Bucket& result = buckets_[number];
  if (!result.codecs.empty()) return result;
  const auto elements = static_cast<double>(size);
  const double rows = std::max(1.0, std::floor(std::sqrt(elements))), columns = std::floor(elements / rows);
  if (size > 0) result.shape.parts.push_back({rows, columns});
  if (const double rest = elements - rows * columns; rest > 0) result.shape.parts.push_back({rest, 1});
  result.shape.element = plan_.gradient_element;
  result.shape.ranks = ranks;
  result.shape.warm_up_stage = plan_.compression->warm_up_stages();
  for (int rank = 0; rank < plan_.ranks(); ++rank)
    result.codecs.push_back(plan_.compression->codec(result.shape, rank, hash_numbers({seed_, number})));
  return result;
}

Eigen::VectorXd CompressedCoding::sum(std::size_t number, const std::vector<Eigen::VectorXd>& rank_gradients) {
  Bucket& b = bucket(number, rank_gradients.front().size(), static_cast<int>(rank_gradients.size()));
  std::vector<Numbers> gradients;
  for (const Eigen::VectorXd& gradient : rank_gradients) gradients.push_back(numbers_of(gradient));
  return vector_of(compressed_sum(*plan_.compression, b.shape, b.codecs, gradients));
}

void CompressedCoding::push(Actor worker, std::size_t number, Eigen::VectorXd& values) {
  Bucket& b = bucket(number, values.size(), 1);
  GradientCodec& codec = *b.codecs.at(static_cast<std::size_t>(worker));
  values = vector_of(codec.decode(codec.encode(0, numbers_of(values))));
}

}  // namespace trainyard
