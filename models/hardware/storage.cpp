#include "models/hardware/storage.hpp"

#include <fmt/format.h>

#include "models/hardware/link_fields.hpp"

namespace trainyard {

Storage read_storage(const Node& entry) {
  const std::string what = entry_title("storage", entry, "custom-storage");
  Fields fields(entry, what);
  Storage storage;
  storage.name = read_entry_name(fields, "custom-storage");
  storage.read = fields.bandwidth("read");
  storage.write = fields.bandwidth("write", storage.read);
  storage.latency = read_latency(fields, "latency");
  const std::int64_t lanes = fields.integer("lanes", 0, 0);
  if (lanes > kFullWidth || (lanes & (lanes - 1)) != 0)
    fields.refuse("lanes",
                  fmt::format("{} lanes; 1, 2, 4, 8 or 16, or 0 for a storage behind SATA or a network", lanes));
  storage.lanes = static_cast<int>(lanes);
  storage.capacity = fields.bytes("capacity", Bytes{0});
  if (fields.has("iops")) storage.iops = fields.number("iops", 1, 1e12);
  storage.seek = fields.seconds("seek", Seconds{0});
  fields.finish();
  storage.sources = figure_sources(entry, what);
  return storage;
}

}  // namespace trainyard
