#include "models/hardware/input_supply.hpp"

#include <algorithm>

#include "sim/hashing.hpp"
#include "sim/index.hpp"

namespace trainyard {
const char* name_of(CachePolicy policy) { return policy == CachePolicy::lru ? "lru" : "pinned"; }
const char* name_of(ReadOrder order) { return order == ReadOrder::sequential ? "sequential" : "shuffled"; }

bool PageCache::read(std::int64_t file, Bytes size) {
  if (const auto entry = entries_.find(file); entry != entries_.end()) {
    files_.splice(files_.begin(), files_, entry->second);
    return true;
  }
  if (size > capacity_ || (policy_ == CachePolicy::pinned && held_ + size > capacity_)) return false;
  while (held_ + size > capacity_) {
    held_ -= files_.back().size;
    entries_.erase(files_.back().number);
    files_.pop_back();
  }
  files_.push_front({file, size});
  entries_[file] = files_.begin();
  held_ += size;
  return false;
}

std::vector<Bytes> missed_reads(std::int64_t files, Bytes size, PageCache cache, ReadOrder order, int epoch,
                                std::uint64_t seed) {
  std::vector<std::int64_t> numbers = consecutive_numbers(std::int64_t{0}, files);
  std::vector<Bytes> missed;
  for (int e = 1; e <= epoch; ++e) {
    if (order == ReadOrder::shuffled) shuffle(numbers, seed, static_cast<std::uint64_t>(e));
    missed.clear();
    for (const std::int64_t file : numbers) missed.push_back(cache.read(file, size) ? Bytes{} : size);
  }
  return missed;
}

BytesPerSecond file_limit(double readers, Bytes file, Picoseconds latency, BytesPerSecond rate) {
  return readers * file / (latency.seconds() + file / rate);
}

BytesPerSecond storage_rate(const InputSupply& supply) {
  const Storage& storage = supply.storage;
  if (supply.order == ReadOrder::sequential || storage.seek.value == 0) return storage.read;
  return supply.file / (storage.seek + supply.file / storage.read);
}

Seconds decode_time(const InputSupply& supply, Bytes stored) {
  const double workers_a_core =
      supply.cores > 0 ? std::max(1.0, static_cast<double>(supply.workers) / supply.cores) : 1;
  return Seconds{stored / supply.sample / supply.rate * workers_a_core};
}

}  // namespace trainyard
