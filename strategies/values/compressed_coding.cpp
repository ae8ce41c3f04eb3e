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

/// A learner's bucket is a piece of one vector: as square a matrix as it makes, and a column of what is left.
CompressedCoding::Bucket& CompressedCoding::bucket(std::size_t number, Eigen::Index size, int ranks) {
  Bucket& of = buckets_[number];
  if (!of.codecs.empty()) return of;
  const auto elements = static_cast<double>(size);
  const double rows = std::max(1.0, std::floor(std::sqrt(elements))), columns = std::floor(elements / rows);
  if (size > 0) of.shape.parts.push_back({rows, columns});
  if (const double rest = elements - rows * columns; rest > 0) of.shape.parts.push_back({rest, 1});
  of.shape.element = plan_.gradient_element;
  of.shape.ranks = ranks;
  of.shape.warm_up_stage = plan_.compression->warm_up_stages();
  for (int rank = 0; rank < plan_.ranks(); ++rank)
    of.codecs.push_back(plan_.compression->codec(of.shape, rank, hashed({seed_, number})));
  return of;
}

Eigen::VectorXd CompressedCoding::sum(std::size_t number, const std::vector<Eigen::VectorXd>& of_ranks) {
  Bucket& of = bucket(number, of_ranks.front().size(), static_cast<int>(of_ranks.size()));
  std::vector<Numbers> gradients;
  for (const Eigen::VectorXd& own : of_ranks) gradients.push_back(numbers_of(own));
  return vector_of(compressed_sum(*plan_.compression, of.shape, of.codecs, gradients));
}

void CompressedCoding::push(Actor worker, std::size_t number, Eigen::VectorXd& values) {
  Bucket& of = bucket(number, values.size(), 1);
  GradientCodec& codec = *of.codecs.at(static_cast<std::size_t>(worker));
  values = vector_of(codec.decode(codec.encode(0, numbers_of(values))));
}

}  // namespace trainyard
