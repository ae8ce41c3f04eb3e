#pragma once
#include <string>

#include "models/reading/document.hpp"
#include "sim/error.hpp"

namespace trainyard {

/// A network cannot be split as asked. It knows which part of the sharding is to blame, so that a reader can point at
/// the key that asked for it.
struct ShardingError : UserError {
  std::string part;    ///< "tensor", "sequence", "context", "expert" or "recompute"
  std::string reason;  ///< without a place

  ShardingError(std::string of_part, std::string why, const Place& where = {})
      : UserError((where.file ? where.text() + ": " : "") + why), part(std::move(of_part)), reason(std::move(why)) {}
};

}  // namespace trainyard
