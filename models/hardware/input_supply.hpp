#pragma once
#include <cstdint>

#include "models/hardware/page_cache.hpp"
#include "models/hardware/storage.hpp"

namespace trainyard {

/// Where samples lie. drives: on the NVMe drives that the node has; own: on a storage that each node has for itself;
/// shared: on one that all nodes share, over a port of its own or over the adapters that gradients use too.
enum class SampleStore : std::uint8_t { none, drives, own, shared };

/// How samples are read from a storage and decoded on the host. Units: SI.
struct InputSupply {
  SampleStore store = SampleStore::none;
  Storage storage;             ///< unused by the node's drives
  BytesPerSecond port;         ///< of a node to a shared storage; 0: no limit of its own
  bool over_adapters = false;  ///< a shared storage hangs at the cluster's network
  double samples = 0;          ///< of the dataset
  Bytes sample;                ///< as stored
  Bytes file;                  ///< what one request opens: a record file of many samples, or a sample
  Bytes on_gpu;                ///< of one sample, as it is copied to the GPU
  int workers = 0;             ///< of a node, which decode; 0: nothing is decoded
  double rate = 0;             ///< samples a second that one of them decodes
  int cores = 0;               ///< that they share; 0: each has one
  int readers = 1;             ///< files that a node reads at once
  Bytes cache;                 ///< of a node; 0: none
  CachePolicy policy = CachePolicy::lru;
  ReadOrder order = ReadOrder::sequential;
  int epoch = 1;      ///< the one that is simulated
  double missed = 1;  ///< share of that epoch's bytes that the cache misses

  bool used() const { return store != SampleStore::none; }
};

/// The highest rate of `readers` that read at once, if each file takes `latency` and its bytes at `rate`: the asymptotic
/// bound of a closed queue (Lazowska et al. 1984, chapter 5) without that of the storage itself.
BytesPerSecond file_limit(double readers, Bytes file, Picoseconds latency, BytesPerSecond rate);

/// The rate at which a storage reads files one after another: of those in random order each begins with a seek.
BytesPerSecond storage_rate(const InputSupply&);

/// Time in which a worker decodes so many stored bytes.
Seconds decode_time(const InputSupply&, Bytes stored);

}  // namespace trainyard
