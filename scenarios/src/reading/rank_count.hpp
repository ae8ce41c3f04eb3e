#pragma once
#include "models/reading/document.hpp"

namespace trainyard {

/// A number of ranks. Throws UserError with the place for what no cluster has.
int read_rank_count(Fields&, Key, std::int64_t fallback = 1);

}  // namespace trainyard
