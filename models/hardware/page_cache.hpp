#pragma once
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "sim/units.hpp"

namespace trainyard {

/// Which files a host keeps in memory. lru: the least recently used is evicted, as by an operating system's page cache.
/// pinned: the first that fit stay for good, as in a dataset's own cache.
enum class CachePolicy : std::uint8_t { lru, pinned };
const char* name_of(CachePolicy);

/// A cache of whole files, by their numbers.
class PageCache {
 public:
  PageCache(Bytes capacity, CachePolicy policy) : capacity_(capacity), policy_(policy) {}

  /// Reads a file and caches it by the policy. True: a hit, nothing is read from the storage.
  bool read(std::int64_t file, Bytes size);
  Bytes held() const { return held_; }

 private:
  struct File {
    std::int64_t number = 0;
    Bytes size;
  };
  Bytes capacity_, held_;
  CachePolicy policy_;
  std::list<File> files_;  // the one used last in front
  std::unordered_map<std::int64_t, std::list<File>::iterator> where_;
};

/// In which order the files of an epoch are read.
enum class ReadOrder : std::uint8_t { sequential, shuffled };
const char* name_of(ReadOrder);

/// Bytes that each read of an epoch (from 1) takes from the storage, in the order of reading: all epochs up to it are
/// run through the cache. `files` of `size` each; a shuffled order is drawn for each epoch from the seed.
std::vector<Bytes> missed_reads(std::int64_t files, Bytes size, PageCache, ReadOrder, int epoch,
                                std::uint64_t seed = 1);

}  // namespace trainyard
