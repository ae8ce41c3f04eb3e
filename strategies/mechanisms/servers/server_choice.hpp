#pragma once
#include <vector>

#include "models/reading/document.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// The keys of a plan that describe its parameter servers.
struct ServerChoice : ServerRules {
  enum class Device : std::uint8_t { cpu, gpu, gpus };
  enum class Keys : std::uint8_t { tensors, layers, buckets };
  /// Number of servers. With Device::gpus every server is as many processes as its node has GPUs.
  int count = 1;
  bool dedicated = false;
  Device device = Device::cpu;
  std::vector<int> nodes;  ///< the nodes that servers are assigned to in turn
  Keys keys = Keys::tensors;
  KeySharding shards = KeySharding::balanced;
  KeySplit split;
  /// The device on which the gradients of a node are summed before they are pushed.
  enum class Aggregation : std::uint8_t { none, gpu, cpu };
  Aggregation aggregation = Aggregation::none;
  const Collective *reduce = nullptr, *broadcast = nullptr;
  /// Number of workers, if a label sets it or dedicated servers leave only some nodes. No value: all ranks.
  std::optional<int> workers;
  Place place, rule_place, replicas_place;

  bool is_synchronous() const { return consistency == Consistency::synchronous; }
};

/// The keys of plan.data_parallel that describe parameter servers.
const std::vector<Key>& server_keys();
/// Reads of plan.data_parallel: `servers` (a number, a label such as 8W2PS, or a map {count, label, place: colocated |
/// dedicated, on: cpu | gpu | gpus, nodes: […], keys: tensors | layers | buckets, shards: balanced | round-robin |
/// split, split: none | mxnet | byteps | {bigarray_bound} | {partition_bytes}, rule: optimizer | sum | mean, replicas:
/// 2 | {count, forward: chain | parallel}}), `server` (the node of one), `consistency`, `staleness`, `backup_workers`,
/// `worker_weights`, `mixing_shares`, `local_aggregation` (none | gpu | cpu | {on, reduce, broadcast}). Without `nodes`,
/// servers are on the first nodes, dedicated servers on the last. Throws UserError with the place.
ServerChoice read_servers(Fields& data_parallel, const ClusterSpec&);
/// Checks the keys that depend on the number of workers: their nodes and the number of their weights. Throws UserError.
void check_servers(const ServerChoice&, Fields& data_parallel, int workers, const ClusterSpec&);

}  // namespace trainyard
