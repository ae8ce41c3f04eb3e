#include "models/hardware/input_supply.hpp"

#include <algorithm>

namespace trainyard {

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
