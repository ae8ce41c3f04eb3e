#pragma once
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "models/hardware/node_parts.hpp"
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

/// Place of the samples. drives: the NVMe drives of the node; own: a separate storage of each node; shared: one storage
/// for all nodes, reached through a port of its own or through the adapters that gradients use too.
enum class SampleStore : std::uint8_t { none, drives, own, shared };

/// Supply of samples: they are read from a storage and decoded on the host. Units: SI.
struct InputSupply {
  SampleStore store = SampleStore::none;
  Storage storage;             ///< unused with `drives`
  BytesPerSecond port;         ///< rate from a shared storage to a node; 0: no limit of its own
  bool over_adapters = false;  ///< the cluster's network joins the shared storage
  double samples = 0;          ///< number of samples in the dataset
  Bytes sample;                ///< stored size of one sample
  Bytes file;                  ///< size of the file that one request opens: a record file of many samples, or a sample
  Bytes on_gpu;                ///< size of one sample when it is copied to the GPU
  int workers = 0;             ///< decoding workers of a node; 0: nothing is decoded
  double rate = 0;             ///< samples a second that one worker decodes
  int cores = 0;               ///< cores that the workers share; 0: each worker has its own
  int readers = 1;             ///< number of files that a node reads at the same time
  Bytes cache;                 ///< size of a node's cache; 0: none
  CachePolicy policy = CachePolicy::lru;
  ReadOrder order = ReadOrder::sequential;
  int epoch = 1;      ///< the simulated epoch
  double missed = 1;  ///< share of that epoch's bytes that the cache misses

  bool is_used() const { return store != SampleStore::none; }
};

/// Returns the highest total rate of `readers` that read at the same time, if each file takes `latency` and then the
/// time of its bytes at `rate`. This is the asymptotic bound of a closed queue (Lazowska et al. 1984, chapter 5)
/// without the bound of the storage itself.
BytesPerSecond file_limit(double readers, Bytes file, Picoseconds latency, BytesPerSecond rate);

/// Returns the rate at which a storage reads files one after another. In random order each file begins with a seek.
BytesPerSecond storage_rate(const InputSupply&);

/// Returns the time in which one worker decodes `stored` bytes.
Seconds decode_time(const InputSupply&, Bytes stored);

}  // namespace trainyard
