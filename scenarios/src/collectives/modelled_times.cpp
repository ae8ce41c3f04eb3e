#include "scenarios/src/collectives/modelled_times.hpp"

#include <algorithm>

#include "sim/error.hpp"
#include "sim/machine.hpp"
#include "strategies/collectives/collective_flows.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {

ModelledTimes::ModelledTimes(const ClusterSpec& cluster, const SoftwareStack& software, Operation operation,
                             const CollectiveSettings& settings, int ranks)
    : operation_(operation), settings_(settings), ranks_(ranks) {
  const ClusterMachine machine(cluster, software);
  std::vector<Actor> members;
  std::vector<int> nodes;
  for (int rank = 0; rank < ranks; ++rank) {
    members.push_back(rank);
    nodes.push_back(cluster.node_of_gpu(rank));
  }
  settings_.place(nodes);
  const auto flow = std::make_shared<ModelledFlow>(modelled_flow(operation, settings_, members));
  settings_.flow = flow;
  const GroupRoute route = route_of_group(machine, *flow);
  if (!route.reachable) throw UserError(std::string(name_of(operation)) + ": some ranks do not reach each other");
  for (const LinkUse& use : route.links)
    seconds_per_byte_ =
        std::max(seconds_per_byte_, use.weight / machine.links()[static_cast<std::size_t>(use.link)].capacity.value);
}

Seconds ModelledTimes::time(Bytes size) const {
  const ModelledJoin join = modelled_join(operation_, settings_, ranks_, size);
  const Seconds latency = join.latency.seconds();
  if (join.bytes.value <= 0) return latency;
  const double by_rate = join.rate.value > 0 ? 1 / join.rate.value : 0;
  return latency + Seconds{join.bytes.value * std::max(by_rate, seconds_per_byte_)};
}

}  // namespace trainyard
