#include "models/hardware/storage.hpp"

#include "models/hardware/link_fields.hpp"

namespace trainyard {

Storage read_storage(const Node& entry) {
  return read_entry<Storage>("storage", entry, [](Storage& storage, Fields& fields) {
    storage.read = fields.bandwidth("read");
    storage.write = fields.bandwidth("write", storage.read);
    storage.latency = read_latency(fields, "latency");
    storage.lanes = read_lanes(fields, "lanes", 0);
    storage.capacity = fields.bytes("capacity", Bytes{0});
    if (fields.has("iops")) storage.iops = fields.number("iops", 1, 1e12);
    storage.seek = fields.seconds("seek", Seconds{0});
  });
}

}  // namespace trainyard
