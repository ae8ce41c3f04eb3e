#include "topologies/machines/storage_machine.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {

StorageMachine::StorageMachine(ClusterMachine& base, const Storage& store)
    : base_(base), store_(store), links_(base.links().begin(), base.links().end()) {
  write_ = static_cast<LinkId>(links_.size());
  links_.push_back({store.name + " written", name_of(LinkKind::storage), store.write});
  read_ = static_cast<LinkId>(links_.size());
  links_.push_back({store.name + " read", name_of(LinkKind::storage), store.read});
  const DeviceGraph& graph = base.graph();
  for (const DeviceId cpu : graph.devices_of_kind(DeviceKind::cpu)) {
    sockets_.push_back(base.actor(cpu));
    const DeviceId hca = base.hca_of(sockets_.back());
    Actor gateway = -1;
    if (hca >= 0)
      for (const LinkId link : graph.links_from(hca)) {
        const DeviceId end = graph.ends(link).to;
        if (graph.devices()[end].kind == DeviceKind::network_switch) gateway = base.actor(end);
      }
    if (gateway < 0 && base.spec().nodes > 1)
      fail(base.spec().place, fmt::format("storage {}: reached over switches, but no HCA of {} is wired to one",
                                          store.name, base.actor_name(sockets_.back())));
    gateways_.push_back(gateway);
  }
  first_door_ = 0;
  for (const Device& device : graph.devices())
    if (device.kind != DeviceKind::hca && device.kind != DeviceKind::pcie_switch) ++first_door_;
}

Route StorageMachine::route(Actor from, Actor to, PathClass path_class) const {
  if (from < first_door_ && to < first_door_) return base_.route(from, to, path_class);
  const bool writes = to >= first_door_;
  const auto socket = static_cast<std::size_t>((writes ? to : from) - first_door_);
  Route route;
  if (sockets_.at(socket) != (writes ? from : to)) return Route{{}, {}, false};
  const Actor gateway = gateways_[socket];
  if (gateway >= 0) route = writes ? base_.route(from, gateway, path_class) : base_.route(gateway, to, path_class);
  const LinkUse store{writes ? write_ : read_};
  std::vector<LinkUse>& path = paths_.emplace_back(route.links.begin(), route.links.end());
  path.push_back(store);
  route.links = path;
  route.latency += store_.latency;
  if (!route.legs.empty()) {  // the store adjoins the leg at its end
    std::vector<Leg>& legs = legs_.emplace_back(route.legs.begin(), route.legs.end());
    Leg& leg = writes ? legs.back() : legs.front();
    std::vector<LinkUse>& links = paths_.emplace_back(leg.links.begin(), leg.links.end());
    links.push_back(store);
    leg.links = links;
    leg.latency += store_.latency;
    leg.seconds_per_byte = std::max(leg.seconds_per_byte, 1 / (writes ? store_.write : store_.read).value);
    route.legs = legs;
  }
  route.name = "store";
  return route;
}

std::string StorageMachine::actor_name(Actor actor) const {
  if (actor < first_door_) return base_.actor_name(actor);
  return fmt::format("{} for {}", store_.name, base_.actor_name(sockets_[actor - first_door_]));
}

}  // namespace trainyard
