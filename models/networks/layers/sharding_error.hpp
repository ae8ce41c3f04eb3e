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

}  // namespace trainyard
