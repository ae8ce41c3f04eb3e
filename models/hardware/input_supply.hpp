#pragma once
#include <cstdint>

#include "models/hardware/page_cache.hpp"
#include "models/hardware/storage.hpp"

namespace trainyard {

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
