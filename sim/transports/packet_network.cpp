#include "sim/transports/packet_network.hpp"

namespace trainyard {

Picoseconds PacketRoutes::cable_latency(std::span<const LinkUse> links) const {
  Picoseconds sum;
  for (const LinkUse& use : links)
    if (const PacketNetwork::Direction* cable = network_.find(use.link)) sum += cable->latency;
  return sum;
}

Route PacketRoutes::route(Actor from, Actor to, PathClass path_class) const {
  Route route = base_.route(from, to, path_class);
  route.latency.count -= cable_latency(route.links).count;
  if (route.legs.empty()) return route;
  const auto [entry, fresh] = legs_.try_emplace(route.legs.data(), route.legs.begin(), route.legs.end());
  if (fresh)
    for (Leg& leg : entry->second) leg.latency.count -= cable_latency(leg.links).count;
  route.legs = entry->second;
  return route;
}

}  // namespace trainyard
