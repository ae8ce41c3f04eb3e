#pragma once
#include <limits>
#include <string>
#include <vector>

#include "strategies/plan/gradient_buckets.hpp"

namespace trainyard {

/// How keys are shared out among servers: in turn; the largest first, each to the server that has least; or every key
/// cut into even parts, one a server (as MXNet does with large arrays).
enum class KeySharding : std::uint8_t { round_robin, balanced, split };

/// Which keys are cut before they are shared out. Their parts are keys of their own.
struct KeySplit {
  /// Keys of at least so many elements are sliced evenly over all servers (MXNet's kvstore, src/kvstore/kvstore_dist.h,
  /// EncodeDefaultKey).
  double bigarray_bound = std::numeric_limits<double>::infinity();
  /// Other keys are cut into parts of so many bytes, the last of which may be smaller (BytePS, byteps/common/operations.cc,
  /// PartitionTensor).
  Bytes partition_bytes{std::numeric_limits<double>::infinity()};

  bool used() const { return bigarray_bound < kWhole || partition_bytes.value < kWhole; }

 private:
  static constexpr double kWhole = std::numeric_limits<double>::infinity();
};
/// As a library cuts them, by its defaults: MXNET_KVSTORE_BIGARRAY_BOUND (docs/…/env_var.md), BYTEPS_PARTITION_BYTES
/// (docs/env.md).
struct NamedSplit {
  std::string name;
  KeySplit split;
};
const std::vector<NamedSplit>& named_splits();

/// Keys as servers have them.
struct SharedKeys {
  std::vector<GradientBucket> keys;
  std::vector<int> server_of;
  /// The first of the slices of one key, for each of them; of others, and of parts, the key itself. MXNet slices a key when
  /// it leaves the node; BytePS cuts it before all else.
  std::vector<std::size_t> first_slice;
};
/// `element`: bytes of one on the wire.
SharedKeys share_out(const std::vector<GradientBucket>& keys, int servers, KeySharding, const KeySplit&, Bytes element);

/// The server of each key, of which KeySharding::split expects parts (see `split_keys`). `fixed`: servers that are said,
/// −1 where not; empty: none is.
std::vector<int> share_keys(const std::vector<GradientBucket>& keys, int servers, KeySharding,
                            const std::vector<int>& fixed = {});

/// Every key cut into so many near-equal parts of whole elements, one after the other.
std::vector<GradientBucket> split_keys(const std::vector<GradientBucket>& keys, int parts);

}  // namespace trainyard
