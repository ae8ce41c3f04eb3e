#pragma once
#include <functional>
#include <string>
#include <vector>

#include "scenarios/src/running/packet_cost.hpp"
#include "scenarios/src/running/simulate.hpp"

namespace trainyard {

/// One step with its messages by TCP, packet by packet, and its time by the default transport besides. Says before a long
/// one how long it takes. Throws UserError where packets cannot be of this scenario's network or plan.
Result simulate_by_packets(const Scenario&, const Plan&, SimulateOptions);

/// A case by packets and by flows.
struct PacketCase {
  std::string name;
  std::string what;    ///< what is sent, over what
  std::string shows;   ///< why both differ, or do not
  double packets = 0;  ///< s
  double flows = 0;    ///< s
  double difference() const { return packets / flows - 1; }
};

/// The cases of `validate packets`: a flow alone, incast, short messages, unequal round-trip
/// times, a ring, parameter servers, the study of Horovod. `done` is told how many of how many have ended.
std::vector<PacketCase> packet_cases(const std::function<void(std::size_t, std::size_t)>& done);

/// A message over a star of hosts.
struct StarMessage {
  int from = 0, to = 0;
  Bytes bytes;
};
/// When each message has arrived that leaves at 0, on hosts around one switch. A cable carries `rate` of data in full
/// frames; host i is `latencies[i % size]` away from the switch.
std::vector<Seconds> star_arrivals(const std::vector<StarMessage>&, BytesPerSecond rate,
                                   const std::vector<Picoseconds>& latencies, TransportKind, Bytes port_buffer = {});

}  // namespace trainyard
