#include "scenarios/src/running/packet_cost.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "models/hardware/link_kind.hpp"

namespace trainyard {
namespace {

constexpr double kDataOfFrame = 1460;  // bytes, as PacketTransport has them
// Measured with SimGrid 3.32 and ns-3 3.37 on a shared core: 26 us a packet of messages of 2 to 10 MB, 64 us of 11 MB in a
// ring (its queues of packets are searched), 0.5 ms a message of a few packets.
constexpr Seconds kPerPacket{45e-6}, kPerMessage{500e-6};
constexpr Seconds kLongEnough{10};

}  // namespace

double PacketCost::packets() const { return std::ceil(crossings / kDataOfFrame); }

Seconds PacketCost::processor() const { return kPerPacket * packets() + kPerMessage * messages; }

void PacketCost::announce() const {
  if (processor() < kLongEnough) return;
  fmt::print(stderr, "packets: some {:.2g} million over cables, {:.0f} messages: about {} of processor time\n",
             packets() * 1e-6, messages, show(processor()));
  std::fflush(stderr);
}

PacketCost packet_cost(const Result& by_flows) {
  const double steps = by_flows.steps + by_flows.warm_steps;
  PacketCost cost{0, static_cast<double>(by_flows.messages)};
  for (const LinkKind kind : all_link_kinds())
    if (const auto at = by_flows.bytes_by_link_kind.find(name_of(kind));
        scope_of(kind) == LinkScope::fabric && at != by_flows.bytes_by_link_kind.end())
      cost.crossings += at->second * steps;
  return cost;
}

void rethrow_as_of_ns3(const InternalError& error) {
  const std::string what = error.what();
  const std::size_t died = what.find("died (");
  if (died == std::string::npos) throw error;
  throw UserError(
      fmt::format("--transport packets: ns-3 {} of this traffic, a fault of its TCP; other sizes, fewer hosts or "
                  "another --port-buffer may do",
                  what.substr(died, what.find(')', died) + 1 - died)));
}

std::string packets_in_words() {
  return "each message is a TCP connection of its own (Reno): handshake, slow start, queues, losses, until the last "
         "acknowledgement is back; libraries that keep connections open lose less";
}

}  // namespace trainyard
