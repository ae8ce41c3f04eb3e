#include "scenarios/src/collectives/switch_actors.hpp"

#include <algorithm>
#include <map>

namespace trainyard {
namespace {

using Distances = std::map<DeviceId, int>;

const Device& device_of(const ClusterMachine& machine, DeviceId id) { return machine.graph().devices()[id]; }

SwitchActors nvswitch_of(const ClusterMachine& machine, const std::vector<Actor>& members) {
  const int node = device_of(machine, machine.device(members.front())).node;
  const auto is_on_node = [&](Actor actor) { return device_of(machine, machine.device(actor)).node == node; };
  // NVLink SHARP came with Hopper's NVSwitch (third generation). The switches of other makers do not sum.
  const std::string& generation = machine.spec().type_of_gpu(members.front()).gpu.architecture;
  const bool sums = generation.empty() || generation == "hopper" || generation == "blackwell" || generation == "rubin";
  if (!sums) return {};
  const std::vector<DeviceId> switches = machine.graph().devices_of_kind(DeviceKind::nvswitch, node);
  if (switches.size() != 1 || !std::ranges::all_of(members, is_on_node)) return {};
  return {{std::vector<int>(members.size(), 0), {-1}}, {machine.actor(switches.front())}};
}

std::vector<DeviceId> switches_beside(const ClusterMachine& machine, DeviceId id) {
  std::vector<DeviceId> found;
  for (const LinkId link : machine.graph().links_from(id)) {
    const DeviceId to = machine.graph().ends(link).to;
    if (device_of(machine, to).kind == DeviceKind::network_switch) found.push_back(to);
  }
  return found;
}

/// Returns the number of hops from a switch to each switch that it reaches through switches only. `before` receives,
/// for each of these, the previous switch on the path.
Distances distances_from(const ClusterMachine& machine, DeviceId root, std::map<DeviceId, DeviceId>& before) {
  Distances distance{{root, 0}};
  std::vector<DeviceId> order{root};
  for (std::size_t position = 0; position < order.size(); ++position)
    for (const DeviceId next : switches_beside(machine, order[position]))
      if (distance.emplace(next, distance.at(order[position]) + 1).second) {
        before[next] = order[position];
        order.push_back(next);
      }
  return distance;
}

/// Returns the switch whose largest distance to the leaves is smallest; among equals, the first. −1: none reaches all
/// leaves.
DeviceId middle_of(const ClusterMachine& machine, std::vector<DeviceId> leaves) {
  std::ranges::sort(leaves);
  leaves.erase(std::unique(leaves.begin(), leaves.end()), leaves.end());
  std::map<DeviceId, std::pair<std::size_t, int>> seen;  // number of leaves that reach it, largest distance
  for (const DeviceId leaf : leaves) {
    std::map<DeviceId, DeviceId> before;
    for (const auto& [device, hops] : distances_from(machine, leaf, before)) {
      auto& [count, farthest] = seen[device];
      ++count;
      farthest = std::max(farthest, hops);
    }
  }
  DeviceId best = -1;
  for (const auto& [device, reach] : seen)
    if (reach.first == leaves.size() && (best < 0 || reach.second < seen.at(best).second)) best = device;
  return best;
}

SwitchActors network_tree(const ClusterMachine& machine, const std::vector<Actor>& members) {
  if (!machine.spec().sharp) return {};
  std::vector<DeviceId> leaves;
  for (const Actor member : members) {
    const DeviceId hca = machine.hca_of(member);
    const std::vector<DeviceId> switches = hca < 0 ? std::vector<DeviceId>{} : switches_beside(machine, hca);
    if (switches.empty()) return {};
    leaves.push_back(switches.front());
  }
  const DeviceId root = middle_of(machine, leaves);
  if (root < 0) return {};
  std::map<DeviceId, DeviceId> before;
  distances_from(machine, root, before);
  SwitchActors found{{{}, {-1}}, {machine.actor(root)}};
  std::map<DeviceId, int> number{{root, 0}};
  for (const DeviceId leaf : leaves) {
    std::vector<DeviceId> path;  // up to the first switch that is in the tree already
    for (DeviceId next = leaf; !number.contains(next); next = before.at(next)) path.push_back(next);
    for (auto next = path.rbegin(); next != path.rend(); ++next) {
      found.tree.parent.push_back(number.at(before.at(*next)));
      number[*next] = static_cast<int>(found.actors.size());
      found.actors.push_back(machine.actor(*next));
    }
    found.tree.of_member.push_back(number.at(leaf));
  }
  return found;
}

}  // namespace

SwitchActors switch_actors(const ClusterMachine& machine, SwitchKind kind, const std::vector<Actor>& members) {
  switch (kind) {
    case SwitchKind::nvswitch:
      return nvswitch_of(machine, members);
    case SwitchKind::network:
      return network_tree(machine, members);
    case SwitchKind::none:
      break;
  }
  return {};
}

}  // namespace trainyard
