#pragma once
#include <string>

#include "models/reading/document.hpp"
#include "sim/error.hpp"

namespace trainyard {

/// Error for a sharding that does not fit the network. It names the part of the sharding that is the cause, so that a
/// reader can point to the key of that part.
struct ShardingError : UserError {
  std::string part;    ///< "tensor", "sequence", "context", "expert", "expert_loads" or "recompute"
  std::string reason;  ///< without a place

  ShardingError(std::string sharding_part, std::string why, const Place& where = {})
      : UserError((where.file ? where.text() + ": " : "") + why),
        part(std::move(sharding_part)),
        reason(std::move(why)) {}
};

/// Throws UserError if a micro-batch is empty.
inline void check_micro_batch_size(std::int64_t size) {
  if (size < 1) throw UserError("micro_batch_size is " + std::to_string(size) + "; expected at least 1");
}

}  // namespace trainyard
