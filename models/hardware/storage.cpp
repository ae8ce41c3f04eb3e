#include "models/hardware/storage.hpp"

#include <fmt/format.h>

#include "models/hardware/link_fields.hpp"

namespace trainyard {

Storage read_storage(const Node& entry) {
  EntryFields fields(entry, "storage");
  Storage storage;
  storage.name = fields.name();
  storage.read = fields.bandwidth("read");
  storage.write = fields.bandwidth("write", storage.read);
  storage.latency = read_latency(fields, "latency");
  const std::int64_t lanes = fields.integer("lanes", 0, 0);
  storage.lanes =
      require_lanes(fields, "lanes", lanes, "1, 2, 4, 8 or 16, or 0 of what is reached by SATA or over the network");
  storage.capacity = fields.bytes("capacity", Bytes{0});
  if (fields.has("iops")) storage.iops = fields.number("iops", 1, 1e12);
  storage.seek = fields.seconds("seek", Seconds{0});
  storage.sources = fields.finish();
  return storage;
}

}  // namespace trainyard
