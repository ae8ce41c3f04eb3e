#include "models/hardware/network_switch.hpp"

#include "models/hardware/link_fields.hpp"

namespace trainyard {

NetworkSwitch read_network_switch(const Node& entry) {
  const std::string what = entry_title("switch", entry, "custom-switch");
  Fields fields(entry, what);
  NetworkSwitch one;
  one.name = read_entry_name(fields, "custom-switch");
  constexpr std::int64_t most_ports = 4096;
  one.ports = fields.integer_within<int>("ports", 2, most_ports);
  one.rate = fields.bandwidth("rate");
  one.latency = read_latency(fields, "latency");
  one.power = read_power(fields, what);
  one.sharp = fields.boolean("sharp", false);
  fields.finish();
  one.sources = figure_sources(entry, what);
  return one;
}

}  // namespace trainyard
