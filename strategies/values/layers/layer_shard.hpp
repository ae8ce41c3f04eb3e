#pragma once
#include <Eigen/Core>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "sim/hashing.hpp"
#include "strategies/values/layers/graph.hpp"

namespace trainyard::numeric {

/// SplitMix64 of what is folded in one after the other: the same numbers with
/// every compiler, and by the number of an element, whoever holds it.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(mixed(seed)) {}
  Draw& operator<<(std::uint64_t value) {
    state_ = mixed(state_ ^ value);
    return *this;
  }
  Draw& operator<<(const std::string& text);
  double uniform() const { return static_cast<double>(state_ >> 11) * 0x1.0p-52 - 1; }  ///< in [−1, 1)
  std::uint64_t below(std::uint64_t end) const { return state_ % end; }

 private:
  std::uint64_t state_;
};

/// What a rank holds of a learned tensor: a matrix, column-major (or several, one after the other).
struct TensorShard {
  Index rows = 1;
  std::vector<Index> whole;     ///< of each element its number in the unsharded tensor, −1: padding, which is 0
  double mean = 0, spread = 0;  ///< initial values are uniform in mean ± spread
  std::string drawn_as;         ///< what the initial values depend on besides the seed and the element's number
  bool expert = false;

  /// Rows and columns, of an unsharded matrix of `rows_of_whole`; rows from there on are padding.
  static TensorShard cut(Index rows_of_whole, const std::vector<Index>& rows, const std::vector<Index>& columns);
  /// One more matrix, number `number` of equal ones that the unsharded tensor has.
  void add(const TensorShard& matrix, Index number, Index elements_of_whole);
};
using TensorShards = std::map<std::string, TensorShard>;

/// [first, first + count).
std::vector<Index> span(Index first, Index count);
/// The `index`-th of `of` equal parts of [0, count). Throws InternalError where they are not equal.
std::vector<Index> part(Index count, int index, int of);

/// Parameters of a layer that a rank holds, one after the other in the order of `Layer::parameters`, and their gradient.
struct LayerShard {
  struct Tensor {
    std::string name;
    TensorShard shard;
    Index first = 0;  ///< in the vectors
    bool partial = false;
  };
  std::vector<Tensor> tensors;
  Eigen::VectorXd parameters;
  Eigen::VectorXd gradient;  ///< summed over micro-batches

  LayerShard() = default;
  /// Throws InternalError where layer and shards do not name the same tensors with the same elements.
  LayerShard(const Layer&, const TensorShards&, std::uint64_t seed);

  bool has(const std::string& tensor) const;
  const Tensor& find(const std::string& tensor) const;
  Eigen::Map<const Matrix> matrix(const std::string& tensor, Index number = 0, Index of = 1) const;
};

}  // namespace trainyard::numeric
