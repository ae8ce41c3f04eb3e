#include "models/hardware/network_switch.hpp"

#include "models/hardware/link_fields.hpp"

namespace trainyard {

NetworkSwitch read_network_switch(const Node& entry) {
  return read_entry<NetworkSwitch>("switch", entry, [](NetworkSwitch& network_switch, Fields& fields) {
    constexpr int most_ports = 4096;
    network_switch.ports = fields.integer_within("ports", 2, most_ports);
    network_switch.rate = fields.bandwidth("rate");
    network_switch.latency = read_latency(fields, "latency");
    network_switch.power = read_power(fields);
    network_switch.sharp = fields.boolean("sharp", false);
  });
}

}  // namespace trainyard
