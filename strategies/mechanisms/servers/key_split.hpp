#pragma once
#include <limits>
#include <string>
#include <vector>

#include "strategies/plan/gradient_buckets.hpp"

namespace trainyard {

/// Distribution of keys over servers. round_robin: in turn. balanced: the largest key first, each to the server
/// with the fewest elements. split: every key is cut into even parts, one for each server (as MXNet does with large
/// arrays).
enum class KeySharding : std::uint8_t { round_robin, balanced, split };

/// Rules that cut keys before they are distributed. The parts are keys of their own.
struct KeySplit {
  /// Keys with at least this many elements are sliced evenly over all servers (MXNet's kvstore,
  /// src/kvstore/kvstore_dist.h, EncodeDefaultKey).
  double bigarray_bound = std::numeric_limits<double>::infinity();
  /// Other keys are cut into parts of this size; the last part may be smaller (BytePS, byteps/common/operations.cc,
  /// PartitionTensor).
  Bytes partition_bytes{std::numeric_limits<double>::infinity()};

  bool is_used() const { return bigarray_bound < kWhole || partition_bytes.value < kWhole; }

 private:
  static constexpr double kWhole = std::numeric_limits<double>::infinity();
};
/// The defaults of a library: MXNET_KVSTORE_BIGARRAY_BOUND (docs/…/env_var.md), BYTEPS_PARTITION_BYTES (docs/env.md).
struct NamedSplit {
  std::string name;
  KeySplit split;
};
const std::vector<NamedSplit>& named_splits();

/// Keys after they were cut and distributed over servers.
struct SharedKeys {
  std::vector<GradientBucket> keys;
  std::vector<int> server_of;
  /// By key: for a slice, the first slice of the same key; for any other key, and for a part, the key itself. MXNet
  /// slices a key when it leaves the node; BytePS cuts it into parts before that.
  std::vector<std::size_t> first_slice;
};
/// Cuts keys and distributes them over servers. `element`: size of an element in a message.
SharedKeys share_out(const std::vector<GradientBucket>& keys, int servers, KeySharding, const KeySplit&, Bytes element);

/// Returns the server of each key. KeySharding::split expects the parts made by `split_keys`. `fixed`: by key, a server
/// that is already decided, or −1; empty: none is decided.
std::vector<int> share_keys(const std::vector<GradientBucket>& keys, int servers, KeySharding,
                            const std::vector<int>& fixed = {});

/// Cuts every key into `parts` consecutive parts, which differ by at most one element.
std::vector<GradientBucket> split_keys(const std::vector<GradientBucket>& keys, int parts);

}  // namespace trainyard
