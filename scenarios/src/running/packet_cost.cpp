#include "scenarios/src/running/packet_cost.hpp"

#include <fmt/format.h>

#include <cmath>

#include "models/hardware/link_fields.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "sim/error.hpp"
#include "sim/process/output.hpp"
#include "strategies/mechanisms/mechanism.hpp"
#include "topologies/machines/tcp_network.hpp"

namespace trainyard {
namespace {

constexpr double kDataOfFrame = 1460;  // bytes, as in PacketTransport
// Measured with SimGrid 3.32 and ns-3 3.37 on a shared core: 26 us per packet for messages of 2 to 10 MB, 64 us per
// packet for 11 MB in a ring (which searches queues of packets), 0.5 ms per message of a few packets.
constexpr Seconds kPerPacket{45e-6}, kPerMessage{500e-6};
constexpr Seconds kLongEnough{10};

}  // namespace

double PacketCost::packets() const { return std::ceil(crossings / kDataOfFrame); }

Seconds PacketCost::processor() const { return kPerPacket * packets() + kPerMessage * messages; }

void PacketCost::announce() const {
  if (processor() < kLongEnough) return;
  complain(fmt::format("packets: some {:.2g} million over cables, {:.0f} messages: about {} of processor time",
                       packets() * 1e-6, messages, show(processor())));
}

PacketCost packet_cost(const Result& by_flows) {
  const double steps = by_flows.steps + by_flows.warm_steps;
  PacketCost cost{0, static_cast<double>(by_flows.messages)};
  for (const LinkKind kind : all_link_kinds())
    if (const auto found = by_flows.bytes_by_link_kind.find(name_of(kind));
        scope_of(kind) == LinkScope::fabric && found != by_flows.bytes_by_link_kind.end())
      cost.crossings += found->second * steps;
  return cost;
}

void require_packets(const Scenario& s) {
  tcp_network(ClusterMachine(s.cluster, s.software));
  const Fidelity fidelity = s.plan.all_reduce.settings.fidelity;
  if (s.plan.mechanism->all_reduces() && s.ranks() > 1 && fidelity != Fidelity::messages)
    throw UserError(
        fmt::format("--transport packets: simulates single messages, but gradients are all-reduced as {} here. Take "
                    "data_parallel: {{all_reduce: ring}} (trainyard list collectives)",
                    name_of(fidelity)));
  if (s.prescribed_step.exists())
    throw UserError("--transport packets: plan.step_time gives the time of a step, and nothing is sent");
}

std::string packets_in_words() {
  return "each message is a TCP connection of its own (Reno): handshake, slow start, queues, losses, until the last "
         "acknowledgement is back; libraries that keep connections open lose less";
}

}  // namespace trainyard
