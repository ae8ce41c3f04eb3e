#pragma once
#include <vector>

#include "models/reading/document.hpp"
#include "strategies/mechanisms/servers/server_plan.hpp"
#include "topologies/cluster.hpp"

namespace trainyard {

/// What a plan says of its parameter servers.
struct ServerChoice {
  enum class On : std::uint8_t { cpu, gpu, gpus };
  enum class Keys : std::uint8_t { tensors, layers, buckets };
  int count = 1;  ///< of On::gpus: nodes whose GPUs share out a server's work
  bool dedicated = false;
  On on = On::cpu;
  std::vector<int> nodes;  ///< of each server, in turn; empty: see `read_servers`
  Keys keys = Keys::tensors;
  KeySharding shards = KeySharding::balanced;
  Consistency consistency = Consistency::synchronous;
  int staleness = 0, backup_workers = 0;
  std::vector<double> worker_weights;
  KeySplit split;
  ServerRule rule = server_rules().front();
  Replication replication;
  /// Where gradients of a node meet before they leave it, and how they get there and back.
  enum class Local : std::uint8_t { none, gpu, cpu };
  Local local = Local::none;
  const Collective *reduce = nullptr, *broadcast = nullptr;
  std::optional<int> workers;  ///< as a label says, or as dedicated nodes leave GPUs
  Place place, rule_place, replicas_place;

  bool in_step() const { return consistency == Consistency::synchronous; }
};

/// The keys of plan.data_parallel that say it.
const std::vector<Key>& server_keys();
/// Reads of plan.data_parallel: `servers` (a number, a label such as 8W2PS, or a map {count, label, place: colocated |
/// dedicated, on: cpu | gpu | gpus, nodes: […], keys: tensors | layers | buckets, shards: balanced | round-robin | split,
/// split: none | mxnet | byteps | {bigarray_bound} | {partition_bytes}, rule: optimizer | sum | mean, replicas: 2 | {count,
/// forward: chain | parallel}}), `server` (the node of one), `consistency`, `staleness`, `backup_workers`,
/// `worker_weights`, `local_aggregation` (none | gpu | cpu | {on, reduce, broadcast}). Servers for which no nodes are said
/// go to the nodes from the first on, dedicated ones to the last. Throws UserError with the place.
ServerChoice read_servers(Fields& data_parallel, const ClusterSpec&);
/// What the workers' number decides: on which nodes they are, how many weights there are.
void check_servers(const ServerChoice&, Fields& data_parallel, int workers, const ClusterSpec&);

}  // namespace trainyard
