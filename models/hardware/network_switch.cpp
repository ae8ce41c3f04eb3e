#include "models/hardware/network_switch.hpp"

#include <fmt/format.h>

#include "models/hardware/link_fields.hpp"

namespace trainyard {

NetworkSwitch read_network_switch(const Node& entry) {
  EntryFields fields(entry, "switch");
  NetworkSwitch one;
  one.name = fields.name();
  constexpr std::int64_t most_ports = 4096;
  one.ports = fields.integer_within<int>("ports", 2, most_ports);
  one.rate = fields.bandwidth("rate");
  one.latency = read_latency(fields, "latency");
  one.power = read_power(fields, fields.what());
  one.sharp = fields.boolean("sharp", false);
  one.sources = fields.finish();
  return one;
}

}  // namespace trainyard
