#pragma once
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "sim/units.hpp"

namespace trainyard {

/// Choice of the files that a host keeps in memory. lru: the least recently used file is evicted, as in an operating
/// system's page cache. pinned: the first files that fit stay for good, as in a dataset's own cache.
enum class CachePolicy : std::uint8_t { lru, pinned };
const char* name_of(CachePolicy);

/// A cache of whole files. A file is identified by its number.
class PageCache {
 public:
  PageCache(Bytes capacity, CachePolicy policy) : capacity_(capacity), policy_(policy) {}

  /// Reads a file and caches it by the policy. Returns true for a hit: nothing is read from the storage.
  bool read(std::int64_t file, Bytes size);

 private:
  struct File {
    std::int64_t number = 0;
    Bytes size;
  };
  Bytes capacity_, held_;
  CachePolicy policy_;
  std::list<File> files_;  // most recently used first
  std::unordered_map<std::int64_t, std::list<File>::iterator> entries_;
};

/// Order in which the files of an epoch are read.
enum class ReadOrder : std::uint8_t { sequential, shuffled };
const char* name_of(ReadOrder);

/// Returns the bytes that each read of an epoch (counted from 1) takes from the storage, in the order of reading. The
/// cache sees all epochs up to that one. There are `files` files of `size` each. A shuffled order is drawn anew for
/// each epoch from the seed.
std::vector<Bytes> missed_reads(std::int64_t files, Bytes size, PageCache, ReadOrder, int epoch,
                                std::uint64_t seed = 1);

}  // namespace trainyard
