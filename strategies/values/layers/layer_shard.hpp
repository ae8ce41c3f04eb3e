#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/networks/layers/network.hpp"
#include "sim/hashing.hpp"
#include "strategies/values/layers/graph.hpp"

namespace trainyard::numeric {

/// A random number from the SplitMix64 hash of the values that are folded in with <<. It is the same with every
/// compiler. Folding in the number of an element gives the same initial value on every rank that holds it.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(mix_bits(seed)) {}
  Draw& operator<<(std::uint64_t value) {
    state_ = mix_bits(state_ ^ value);
    return *this;
  }
  Draw& operator<<(const std::string& text);
  double uniform() const { return static_cast<double>(state_ >> 11) * 0x1.0p-52 - 1; }  ///< in [−1, 1)
  std::uint64_t integer_below(std::uint64_t end) const { return state_ % end; }

 private:
  std::uint64_t state_;
};

/// A rank's part of a learned tensor: a column-major matrix, or several matrices one after another.
struct TensorShard {
  Index rows = 1;
  std::vector<Index> numbers;   ///< number of each element in the unsharded tensor; −1: padding, which is 0
  double mean = 0, spread = 0;  ///< initial values are uniform in mean ± spread
  std::string drawn_as;         ///< name that the initial values depend on besides the seed and the element's number
  bool expert = false;

  /// Takes rows and columns of an unsharded matrix with `full_rows` rows. Rows from `full_rows` on are padding.
  static TensorShard cut(Index full_rows, const std::vector<Index>& rows, const std::vector<Index>& columns);
  /// Adds matrix number `number` of the unsharded tensor, which consists of equal matrices of `full_elements` elements.
  void add(const TensorShard& matrix, Index number, Index full_elements);
};
using TensorShards = std::map<std::string, TensorShard>;

/// Returns the numbers [first, first + count).
std::vector<Index> span(Index first, Index count);
/// Returns part `index` of `parts` equal parts of [0, count). Throws InternalError if `parts` does not divide `count`.
std::vector<Index> part(Index count, int index, int parts);

/// A rank's parameters of a layer, one after another in the order of `Layer::parameters`, and their gradient.
struct LayerShard {
  struct Tensor {
    std::string name;
    TensorShard shard;
    Index first = 0;  ///< its first element in the vectors
    bool partial = false;
  };
  std::vector<Tensor> tensors;
  Eigen::VectorXd parameters;
  Eigen::VectorXd gradient;  ///< sum over micro-batches

  LayerShard() = default;
  /// Throws InternalError if layer and shards do not have the same tensors with the same numbers of elements.
  LayerShard(const Layer&, const TensorShards&, std::uint64_t seed);

  bool has(const std::string& tensor) const;
  const Tensor& find(const std::string& tensor) const;
  /// Returns matrix `number` of a tensor that consists of `count` equal matrices.
  Eigen::Map<const Matrix> matrix(const std::string& tensor, Index number = 0, Index count = 1) const;
};

}  // namespace trainyard::numeric
