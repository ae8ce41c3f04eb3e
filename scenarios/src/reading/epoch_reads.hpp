#pragma once
#include <vector>

#include "models/hardware/page_cache.hpp"

namespace trainyard {

/// Bytes that each read of an epoch (from 1) takes from the storage, in the order of reading: all epochs up to it are
/// run through the cache. `files` of `size` each; a shuffled order is drawn for each epoch from the seed.
std::vector<Bytes> missed_reads(std::int64_t files, Bytes size, PageCache, ReadOrder, int epoch,
                                std::uint64_t seed = 1);

}  // namespace trainyard
