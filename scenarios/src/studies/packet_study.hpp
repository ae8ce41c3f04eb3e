#pragma once
#include <functional>
#include <string>
#include <vector>

#include "scenarios/src/running/packet_cost.hpp"
#include "scenarios/src/running/simulate.hpp"

namespace trainyard {

/// Simulates a step with its messages by TCP, packet by packet, and adds its time by the default transport. Announces
/// the expected duration of a long simulation. Throws UserError if the scenario's network or plan cannot be simulated
/// by packets.
Result simulate_by_packets(const Scenario&, const Plan&, SimulateOptions);

/// A validation case, simulated by packets and by flows.
struct PacketCase {
  std::string name;
  std::string what;    ///< the messages and their network
  std::string shows;   ///< the reason why both times differ or agree
  double packets = 0;  ///< time by packets, s
  double flows = 0;    ///< time by flows, s
  double difference() const { return packets / flows - 1; }
};

/// Simulates the cases of `validate packets`: a single flow, incast, short messages, unequal round-trip times, a ring,
/// parameter servers, the study of Horovod. Calls `done` with the number of finished cases and the number of all cases.
std::vector<PacketCase> packet_cases(const std::function<void(std::size_t, std::size_t)>& done);

/// A message over a star of hosts.
struct StarMessage {
  int from = 0, to = 0;
  Bytes bytes;
};
/// Returns the arrival time of each message. All messages leave at 0, on hosts around one switch. A cable carries data
/// at `rate` in full frames. The cable of host i has the latency `latencies[i % size]`.
std::vector<Seconds> star_arrivals(const std::vector<StarMessage>&, BytesPerSecond rate,
                                   const std::vector<Picoseconds>& latencies, TransportKind, Bytes port_buffer = {});

}  // namespace trainyard
