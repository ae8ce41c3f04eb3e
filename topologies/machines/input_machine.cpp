#include "topologies/machines/input_machine.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {

InputMachine::InputMachine(ClusterMachine& base, const InputSupply& supply,
                           const std::vector<std::vector<Actor>>& groups, std::uint16_t kernel, const Place& where)
    : base_(base),
      supply_(supply),
      kernel_(kernel),
      first_(base.actors()),
      links_(base.links().begin(), base.links().end()) {
  for (const std::vector<Actor>& ranks : groups) {
    Group& group = groups_.emplace_back();
    group.cpu = base_.socket_of(ranks.front());
    if (group.cpu < 0) fail(where, "input: the node has no CPU that could load samples");
    group.node = base_.graph().devices()[base_.device(ranks.front())].node;
  }
  add_storage(where);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    group.loader = actors();
    places_.push_back({g, base_.actor(group.cpu), false});
    const std::vector<DeviceId> drives = supply_.store == SampleStore::drives
                                             ? base_.graph().devices_of_kind(DeviceKind::nvme, group.node)
                                             : std::vector<DeviceId>{-1};
    for (const DeviceId drive : drives) {
      group.readers.push_back(actors());
      places_.push_back({g, drive < 0 ? -1 : base_.actor(drive), true});
    }
    const auto same_node =
        std::ranges::count_if(groups_, [&group](const Group& other) { return other.node == group.node; });
    files_.push_back(-1);
    if (latency(group.node).count > 0)
      files_.back() =
          add(fmt::format("files of rank {}", groups[g].front()), LinkKind::file_latency,
              file_limit(std::max(1.0, static_cast<double>(supply_.readers) / static_cast<double>(same_node)),
                         supply_.file, latency(group.node), read_rate(group.node)));
  }
}

LinkId InputMachine::add(std::string name, LinkKind kind, BytesPerSecond rate) {
  links_.push_back({std::move(name), name_of(kind), rate});
  return static_cast<LinkId>(links_.size() - 1);
}

/// Adds the rates that readers share: of the storage, of its requests, of a node's port.
void InputMachine::add_storage(const Place& where) {
  std::vector<LinkId> shared;
  const auto add_rates = [this](const std::string& name) {
    std::vector<LinkId> added{add(name, LinkKind::storage, storage_rate(supply_))};
    storage_links_.push_back(added.front());
    if (supply_.storage.iops > 0)
      added.push_back(add(name + " requests", LinkKind::storage_requests,
                          BytesPerSecond{supply_.storage.iops * supply_.file.value}));
    return added;
  };
  if (supply_.store == SampleStore::shared) shared = add_rates(supply_.storage.name);
  for (const Group& group : groups_) {
    if (links_of_node_.contains(group.node)) continue;
    std::vector<LinkId>& links = links_of_node_[group.node];
    const std::string node = fmt::format("node{}", group.node);
    if (supply_.store == SampleStore::drives) {
      const std::vector<DeviceId> drives = base_.graph().devices_of_kind(DeviceKind::nvme, group.node);
      if (drives.empty())
        fail(where, fmt::format("input.storage: {} has no NVMe drives; give it some (cluster.nvme: {{count: 4, type: "
                                "samsung-pm1733}}), or name a storage (`trainyard list storages`)",
                                base_.spec().type_of(group.node).name));
      for (const DeviceId drive : drives)
        for (const LinkId wire : base_.graph().links_from(drive)) storage_links_.push_back(wire);
      continue;
    }
    links = supply_.store == SampleStore::own ? add_rates(node + "/" + supply_.storage.name) : shared;
    if (supply_.port.value > 0) links.push_back(add(node + "/storage port", LinkKind::storage_port, supply_.port));
    if (supply_.over_adapters && (base_.spec().nodes == 1 || base_.hca_of(base_.actor(group.cpu)) < 0))
      fail(where, "input.over_adapters: there is no network between nodes in this cluster; give the storage a port");
  }
}

BytesPerSecond InputMachine::read_rate(int node) const {
  const NvmeType& nvme = base_.spec().type_of(node).nvme;
  return supply_.store == SampleStore::drives ? nvme.read * nvme.count : supply_.storage.read;
}

Picoseconds InputMachine::latency(int node) const {
  return supply_.store == SampleStore::drives ? base_.spec().type_of(node).nvme.latency : supply_.storage.latency;
}

Cost InputMachine::price(const Work& work, Actor actor) const {
  if (actor < first_) return base_.price(work, actor);
  return {work.kernel == kernel_ ? decode_time(supply_, work.bytes) : Seconds{0}};
}

void InputMachine::link_state(LinkId link, bool up) {
  base_.link_state(link, up);
  routes_.clear();  // but not the links of the routes: messages under way use them
}

std::string InputMachine::actor_name(Actor actor) const {
  if (actor < first_) return base_.actor_name(actor);
  const InputActor& place = places_[actor - first_];
  const Group& group = groups_[place.group];
  if (!place.reader) return fmt::format("loader {} (node{})", place.group, group.node);
  return fmt::format("reader of loader {} ({})", place.group,
                     place.drive >= 0 ? base_.actor_name(place.drive) : supply_.storage.name);
}

/// The route with further links at its beginning.
Route InputMachine::with_links_before(const std::vector<LinkId>& links, const Route& route) const {
  Route result = route;
  std::vector<LinkUse>& uses = uses_.emplace_back();
  double slowest = 0;
  for (const LinkId link : links) {
    uses.push_back({link, 1});
    slowest = std::max(slowest, 1 / links_[link].capacity.value);
  }
  const std::vector<LinkUse> added = uses;
  uses.insert(uses.end(), route.links.begin(), route.links.end());
  result.links = uses;
  if (route.legs.empty()) return result;
  std::vector<Leg>& legs = legs_.emplace_back(route.legs.begin(), route.legs.end());
  std::vector<LinkUse>& first = uses_.emplace_back(added);
  first.insert(first.end(), legs.front().links.begin(), legs.front().links.end());
  legs.front().links = first;
  legs.front().seconds_per_byte = std::max(legs.front().seconds_per_byte, slowest);
  result.legs = legs;
  return result;
}

Route InputMachine::read_route(const InputActor& reader) const {
  const Group& group = groups_[reader.group];
  const Actor cpu = base_.actor(group.cpu);
  std::vector<LinkId> links = links_of_node_.at(group.node);
  if (files_[reader.group] >= 0) links.push_back(files_[reader.group]);
  if (reader.drive >= 0) return with_links_before(links, base_.route(reader.drive, cpu, PathClass::automatic));
  Route path;
  if (supply_.over_adapters) {
    const DeviceGraph& graph = base_.graph();
    for (const LinkId wire : graph.links_from(base_.hca_of(cpu)))
      if (const DeviceId to = graph.ends(wire).to; graph.devices()[to].kind == DeviceKind::network_switch)
        path = base_.route(base_.actor(to), cpu, PathClass::automatic);
  } else if (const LinkId memory = base_.graph().host(group.cpu).memory; memory >= 0) {
    links.push_back(memory);
  }
  path.latency += supply_.storage.latency;
  if (!path.legs.empty()) {
    std::vector<Leg>& legs = legs_.emplace_back(path.legs.begin(), path.legs.end());
    legs.front().latency += supply_.storage.latency;
    path.legs = legs;
  }
  return with_links_before(links, path);
}

Route InputMachine::route(Actor from, Actor to, PathClass path_class) const {
  if (from < first_ && to < first_) return base_.route(from, to, path_class);
  const auto [entry, fresh] = routes_.try_emplace({from, to});
  Route& route = entry->second;
  if (!fresh) return route;
  if (from < first_) return route;  // messages to a loader or a reader take no time
  const InputActor& place = places_[from - first_];
  if (place.reader)
    route = read_route(place);
  else
    route = base_.route(base_.actor(groups_[place.group].cpu), to, PathClass::automatic);
  return route;
}

}  // namespace trainyard
