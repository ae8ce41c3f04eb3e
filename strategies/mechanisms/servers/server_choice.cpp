#include "strategies/mechanisms/servers/server_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace trainyard {
namespace {

constexpr std::int64_t kMostServers = 4096, kMostStaleness = 1 << 20;

std::int64_t item_of(const Node& item, const char* what, std::int64_t least, std::int64_t most) {
  std::int64_t value = least - 1;
  try {
    if (item.kind == Node::Kind::scalar) value = parse_integer(item.scalar);
  } catch (const UserError&) {
  }
  if (value < least || value > most)
    fail(item.place, fmt::format("{}: \"{}\"; expected {} to {}", what, item.scalar, least, most));
  return value;
}

void take_label(ServerChoice& choice, const std::string& label, const Place& place) {
  const ServerLabel read = parse_server_label(label, place);
  choice.workers = read.workers;
  choice.count = read.servers;
}

void read_map(ServerChoice& choice, const Node& node, const ClusterSpec& cluster) {
  Fields fields(node, "plan.data_parallel.servers");
  if (fields.has("label")) take_label(choice, fields.text("label"), fields.place_of("label"));
  choice.count = fields.integer_within<int>("count", 1, kMostServers, choice.count);
  choice.dedicated = fields.choice("place", {"colocated", "dedicated"}, "colocated") == "dedicated";
  const std::vector<std::string> on{"cpu", "gpu", "gpus"}, keys{"tensors", "layers", "buckets"};
  const auto number = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  };
  choice.on = static_cast<ServerChoice::On>(number(on, fields.choice("on", on, "cpu")));
  choice.keys = static_cast<ServerChoice::Keys>(number(keys, fields.choice("keys", keys, "tensors")));
  choice.shards =
      static_cast<KeySharding>(number(key_sharding_names(), fields.choice("shards", key_sharding_names(), "balanced")));
  if (const std::vector<Node>* nodes = fields.list("nodes"))
    for (const Node& item : *nodes)
      choice.nodes.push_back(static_cast<int>(item_of(item, "plan.data_parallel.servers.nodes", 0, cluster.nodes - 1)));
  fields.finish();
}

/// GPUs before a node.
int first_gpu_of(const ClusterSpec& cluster, int node) {
  int gpus = 0;
  for (int i = 0; i < node; ++i) gpus += cluster.type_of(i).gpus;
  return gpus;
}

void place_by_default(ServerChoice& choice, const ClusterSpec& cluster) {
  if (!choice.nodes.empty()) return;
  const int used = std::min(choice.count, cluster.nodes);
  for (int i = 0; i < used; ++i) choice.nodes.push_back(choice.dedicated ? cluster.nodes - used + i : i);
}

void read_consistency(ServerChoice& choice, Fields& fields) {
  const std::vector<std::string>& names = consistency_names();
  const std::string name = fields.choice("consistency", names, names.front());
  choice.consistency = static_cast<Consistency>(std::find(names.begin(), names.end(), name) - names.begin());
  const auto only = [&](const char* key, bool fits, const char* with) {
    if (fields.has(key) && !fits)
      fail(fields.place_of(key), fmt::format("plan.data_parallel.{}: with consistency {} only", key, with));
  };
  only("staleness", choice.consistency == Consistency::stale, "stale");
  only("backup_workers", choice.in_step(), "synchronous");
  only("worker_weights", !choice.in_step(), "stale or asynchronous");
  if (choice.consistency == Consistency::stale)
    choice.staleness = fields.integer_within<int>("staleness", 0, kMostStaleness);
  choice.backup_workers = fields.integer_within<int>("backup_workers", 0, kMostServers, 0);
  if (const std::vector<Node>* weights = fields.list("worker_weights"))
    for (const Node& item : *weights) {
      double weight = 0;
      try {
        weight = parse_number(item.scalar);
      } catch (const UserError&) {
      }
      if (!(weight > 0) || weight > 1)
        fail(item.place, fmt::format("plan.data_parallel.worker_weights: \"{}\"; a share above 0, at most 1, expected",
                                     item.scalar));
      choice.worker_weights.push_back(weight);
    }
}

}  // namespace

const std::vector<std::string>& server_keys() {
  static const std::vector<std::string> keys{"servers",   "server",         "consistency",
                                             "staleness", "backup_workers", "worker_weights"};
  return keys;
}

ServerChoice read_servers(Fields& fields, const ClusterSpec& cluster) {
  ServerChoice choice;
  choice.place = fields.place();
  if (fields.has("server")) {
    if (fields.has("servers"))
      fail(fields.place_of("server"),
           "plan.data_parallel.server: the node of one server; `servers` says where they are");
    const std::int64_t node = fields.integer("server", 0);
    if (node >= cluster.nodes)
      fail(fields.place_of("server"),
           fmt::format("plan.data_parallel.server: node {}, but the cluster has nodes 0 to {}", node,
                       cluster.nodes - 1));
    choice.nodes = {static_cast<int>(node)};
  }
  if (const Node* servers = fields.has("servers") ? fields.child("servers") : nullptr) {
    choice.place = servers->place;
    if (servers->kind == Node::Kind::map)
      read_map(choice, *servers, cluster);
    else if (servers->scalar.find_first_not_of("0123456789-+. ") != std::string::npos)
      take_label(choice, servers->scalar, servers->place);
    else
      choice.count = fields.integer_within<int>("servers", 1, kMostServers);
  }
  read_consistency(choice, fields);
  place_by_default(choice, cluster);
  if (choice.dedicated && choice.workers == 0)
    choice.workers = first_gpu_of(cluster, *std::min_element(choice.nodes.begin(), choice.nodes.end()));
  if (choice.dedicated && choice.workers == 0)
    fail(choice.place,
         "plan.data_parallel.servers: dedicated servers take the first node; no GPU is left for workers, "
         "which are on the first ones");
  return choice;
}

void check_servers(const ServerChoice& choice, Fields& fields, int workers, const ClusterSpec& cluster) {
  const Node* servers = fields.child("servers");
  const Node* label = servers && servers->kind == Node::Kind::map ? servers->find("label") : servers;
  if (label && label->scalar.find('W') != std::string::npos && choice.workers != workers)
    fail(choice.place, fmt::format("plan.data_parallel.servers: the label says {} workers, but the plan has {} ranks",
                                   choice.workers, workers));
  const int last = cluster.node_of_gpu(workers - 1);
  for (const int node : choice.nodes) {
    if (choice.dedicated && node <= last)
      fail(choice.place,
           fmt::format("plan.data_parallel.servers: node {} is to be dedicated, but workers are on nodes 0 "
                       "to {}; set plan.data_parallel.size, or let them be colocated",
                       node, last));
  }
  if (choice.backup_workers >= workers)
    fail(fields.place_of("backup_workers"),
         fmt::format("plan.data_parallel.backup_workers: {} of {} workers; at most {}", choice.backup_workers, workers,
                     workers - 1));
  if (!choice.worker_weights.empty() && static_cast<int>(choice.worker_weights.size()) != workers)
    fail(fields.place_of("worker_weights"), fmt::format("plan.data_parallel.worker_weights: {} weights for {} workers",
                                                        choice.worker_weights.size(), workers));
}

}  // namespace trainyard
