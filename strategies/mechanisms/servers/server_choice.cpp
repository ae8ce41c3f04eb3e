#include "strategies/mechanisms/servers/server_choice.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {
namespace {

constexpr std::int64_t kMostServers = 4096, kMostStaleness = 1 << 20;

void take_label(ServerChoice& choice, const std::string& label, const Place& place) {
  const ServerLabel read = parse_server_label(label, place);
  choice.workers = read.workers;
  choice.count = read.servers;
}

template <class Named>
std::vector<std::string> names_of(const std::vector<Named>& all) {
  std::vector<std::string> names;
  for (const Named& named : all) names.push_back(named.name);
  return names;
}

/// The element with that name. It must exist.
template <class Named>
const Named& find_named(const std::vector<Named>& all, const std::string& name) {
  return *std::ranges::find_if(all, [&name](const Named& named) { return named.name == name; });
}

void read_split(ServerChoice& choice, Fields& servers) {
  const Node* node = servers.child({"split",
                                    "Splitting of large keys over several servers: none, mxnet, byteps, "
                                    "{bigarray_bound: 1000000} or {partition_bytes: 4 MB}. Default: none."});
  if (!node) return;
  const std::string what = "plan.data_parallel.servers.split";
  if (choice.shards == KeySharding::split)
    fail(node->place, what + ": shards: split cuts every key already; leave out one of them");
  if (node->kind != Node::Kind::map) {
    choice.split = find_named(named_splits(), servers.choice("split", names_of(named_splits()), "none")).split;
    return;
  }
  const Node map = long_form(node, nullptr, node->place);
  Fields fields(map, what);
  const bool bound = fields.has(
      {"bigarray_bound", "Elements from which on a key is split over all servers (MXNet), for example 1000000."});
  if (bound == fields.has({"partition_bytes", "Largest size of a part of a key (BytePS), for example 4 MB."}))
    fail(node->place, what +
                          ": expected one of bigarray_bound (elements of keys that are sliced over all servers) and "
                          "partition_bytes (size of parts)");
  if (bound)
    choice.split.bigarray_bound = static_cast<double>(fields.integer("bigarray_bound", 1));
  else
    choice.split.partition_bytes = fields.bytes("partition_bytes");
  fields.finish();
}

void read_replicas(ServerChoice& choice, Fields& servers) {
  const Node* node = servers.child(
      {"replicas",
       "Number of servers that hold each key, for example 2, or {count, forward: chain | parallel}. Default: 1."});
  if (!node) return;
  if (node->kind != Node::Kind::map) {
    choice.replication.copies = servers.integer_within<int>("replicas", 1, kMostCopies, 1);
    return;
  }
  const Node map = long_form(node, "count", node->place);
  Fields fields(map, "plan.data_parallel.servers.replicas");
  choice.replication.copies =
      fields.integer_within<int>({"count", "Number of servers that have each key, for example 2."}, 1, kMostCopies);
  choice.replication.forward = fields.one_of(
      {"forward",
       "How a server passes an update on to the copies: from one to the next (chain), or to all at once (parallel)."},
      {"chain", "parallel"}, Replication::Forward::chain);
  fields.finish();
}

const Collective& read_local_collective(Fields& fields, Key key, Operation operation) {
  if (!fields.has(key)) return default_collective(operation);
  const Collective& algorithm = collectives(operation).find(fields.text(key), fields.place_of(key));
  if (algorithm.for_teaching || algorithm.channels || algorithm.switches != SwitchKind::none)
    fields.refuse(key, fmt::format("{} does not work among the GPUs of one node on one channel; {} does",
                                   algorithm.name, default_collective(operation).name));
  return algorithm;
}

void read_local(ServerChoice& choice, Fields& data_parallel) {
  const Node* node = data_parallel.child("local_aggregation");
  if (!node) return;
  const std::vector<std::string> on{"none", "gpu", "cpu"};
  const bool map = node->kind == Node::Kind::map;
  const Node long_node = map ? long_form(node, "on", node->place) : Node{};
  Fields fields(long_node, "plan.data_parallel.local_aggregation");
  choice.aggregation =
      map ? fields.one_of<ServerChoice::Aggregation>(
                {"on", "Device that sums the gradients of a node: one of its GPUs, or its CPU."}, on)
          : data_parallel.one_of(
                {"local_aggregation",
                 "Device that sums the gradients of a node's workers before one push: none, gpu or cpu."},
                on, ServerChoice::Aggregation::none);
  choice.reduce = &read_local_collective(fields,
                                         {"reduce",
                                          "Algorithm that sums the gradients of a node, for example binomial-tree "
                                          "(trainyard list collectives, those of reduce). Default: binomial-tree."},
                                         Operation::reduce);
  choice.broadcast = &read_local_collective(fields,
                                            {"broadcast",
                                             "Collective that distributes the answers in a node, for example "
                                             "binomial-tree (trainyard list collectives). Default: binomial-tree."},
                                            Operation::broadcast);
  fields.finish();
  if (choice.aggregation == ServerChoice::Aggregation::none) return;
  for (const char* key : {"backup_workers", "worker_weights", "mixing_shares"})
    if (data_parallel.has(key))
      data_parallel.refuse(key, fmt::format("needs pushes of single workers, but local_aggregation: {} sums the pushes "
                                            "of a node; leave out one of them",
                                            on[static_cast<std::size_t>(choice.aggregation)]));
}

bool is_label(const std::string& text) { return text.find_first_not_of("0123456789-+. ") != std::string::npos; }

/// The long form of `servers`. A short form that an override replaced stays under `label` or `count`.
Node servers_map(const Node& node) {
  const Node* scalar = overridden_scalar(node);
  return long_form(&node, scalar && is_label(scalar->scalar) ? "label" : "count", node.place);
}

void read_map(ServerChoice& choice, const Node& node, const ClusterSpec& cluster) {
  const Node map = servers_map(node);
  Fields fields(map, "plan.data_parallel.servers");
  if (fields.has("label"))
    take_label(choice,
               fields.text({"label",
                            "Numbers of workers and servers as papers write them, for example 8W2PS. Default: the "
                            "number of servers is that of count."}),
               fields.place_of("label"));
  fields.read({"count", "Number of parameter servers, for example 2. Default: 1, or that of the label."}, choice.count,
              1, kMostServers);
  choice.dedicated =
      fields.choice({"place", "Servers share nodes with workers (colocated) or have nodes of their own (dedicated)."},
                    {"colocated", "dedicated"}, "colocated") == "dedicated";
  choice.device = fields.one_of({"on", "Devices of a server: a CPU, a GPU, or all GPUs of its node (gpus)."},
                                {"cpu", "gpu", "gpus"}, ServerChoice::Device::cpu);
  choice.keys =
      fields.one_of({"keys", "Unit that workers push and servers hold: tensors, layers, or buckets of gradients."},
                    {"tensors", "layers", "buckets"}, ServerChoice::Keys::tensors);
  choice.shards =
      fields.one_of({"shards", "Distribution of keys: in turn, balanced by size, or each key split over all servers."},
                    {"round-robin", "balanced", "split"}, KeySharding::balanced);
  read_split(choice, fields);
  choice.rule = find_named(
      server_rules(),
      fields.choice({"rule", "A server runs the optimizer on the gradients, or only returns their sum or mean."},
                    names_of(server_rules()), choice.rule.name));
  choice.rule_place = fields.place_of("rule");
  read_replicas(choice, fields);
  choice.replicas_place = fields.place_of("replicas");
  if (const std::vector<Node>* nodes = fields.list({"nodes",
                                                    "Numbers of the nodes of the servers, for example [0, 1]. Default: "
                                                    "the first nodes; the last ones if servers are dedicated."}))
    for (const Node& item : *nodes)
      choice.nodes.push_back(
          static_cast<int>(whole_number(item, "plan.data_parallel.servers.nodes", 0, cluster.nodes - 1)));
  fields.finish();
}

/// Number of GPUs of the nodes before `node`.
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

/// Reads a number above 0 and up to 1 for each worker; empty: the key is absent.
std::vector<double> read_shares(Fields& fields, const Key& key) {
  std::vector<double> shares;
  const std::vector<Node>* list = fields.list(key);
  for (std::size_t i = 0; list && i < list->size(); ++i) {
    const Node& item = (*list)[i];
    double share = 0;
    try {
      share = parse_number(item.scalar);
    } catch (const UserError&) {
    }
    if (!(share > 0) || share > 1)
      fail(item.place,
           fmt::format("plan.data_parallel.{}: \"{}\"; a number above 0, at most 1, expected", key.name, item.scalar));
    shares.push_back(share);
  }
  return shares;
}

void read_consistency(ServerChoice& choice, Fields& fields) {
  choice.consistency = fields.one_of(
      {"consistency",
       "When servers answer a push: after the gradients of all workers, within a bound of staleness, or at once."},
      consistency_names(), Consistency::synchronous);
  fields.require_condition({"staleness",
                            "Number of steps that the fastest worker may be ahead of the slowest, for example 3. Each "
                            "worker's gradient is an update of its own, so that at 0 one can still miss those of the "
                            "others. Required with consistency stale."},
                           choice.consistency == Consistency::stale, "with consistency stale");
  fields.require_condition("backup_workers", choice.is_synchronous(), "with consistency synchronous");
  for (const char* key : {"worker_weights", "mixing_shares"})
    fields.require_condition(key, !choice.is_synchronous(), "with consistency stale or asynchronous");
  if (choice.consistency == Consistency::stale)
    choice.staleness = fields.integer_within<int>("staleness", 0, kMostStaleness);
  choice.backup_workers = fields.integer_within<int>(
      {"backup_workers", "Number of workers whose gradients a step does not wait for, for example 1."}, 0, kMostServers,
      0);
  choice.worker_weights = read_shares(fields, {"worker_weights",
                                               "List of the factor with which each worker's gradients count, above 0, "
                                               "at most 1, for example [0.5, 1]. Default: 1 for each."});
  choice.mixing_shares = read_shares(
      fields,
      {"mixing_shares",
       "Workers update their own weights and push these: list of the share with which each worker's weights enter "
       "those of the servers, above 0, at most 1, for example [0.5, 0.25]. Default: workers push gradients."});
  if (!choice.worker_weights.empty() && !choice.mixing_shares.empty())
    fields.refuse("worker_weights", "with mixing_shares workers push weights, and no gradients; leave out one of them");
}

}  // namespace

const std::vector<Key>& server_keys() {
  static const std::vector<Key> keys{"servers",        "server",         "consistency",   "staleness",
                                     "backup_workers", "worker_weights", "mixing_shares", "local_aggregation"};
  return keys;
}

ServerChoice read_servers(Fields& fields, const ClusterSpec& cluster) {
  ServerChoice choice;
  choice.place = fields.place();
  if (fields.has({"server", "Number of the node of a single parameter server, for example 1. Default: 0."})) {
    if (fields.has("servers"))
      fields.refuse("server", "is the node of a single server; with `servers`, set servers.nodes instead");
    const std::int64_t node = fields.integer("server", 0);
    if (node >= cluster.nodes)
      fields.refuse("server", fmt::format("node {}, but the cluster has nodes 0 to {}", node, cluster.nodes - 1));
    choice.nodes = {static_cast<int>(node)};
  }
  if (const Node* servers = fields.child_unless_null("servers")) {
    choice.place = servers->place;
    if (servers->kind == Node::Kind::map)
      read_map(choice, *servers, cluster);
    else if (is_label(servers->scalar))
      take_label(choice, servers->scalar, servers->place);
    else
      choice.count = fields.integer_within<int>("servers", 1, kMostServers);
  }
  if (choice.keys != ServerChoice::Keys::buckets)
    for (const char* key : {"bucket", "first_bucket", "bucket_boundaries"})
      if (fields.has(key))
        fields.refuse(key, fmt::format("servers hold {}; leave it out, or set plan.data_parallel.servers.keys: buckets",
                                       choice.keys == ServerChoice::Keys::tensors ? "tensors" : "layers"));
  read_consistency(choice, fields);
  if (!choice.rule.updates && (!choice.is_synchronous() || choice.backup_workers > 0))
    fail(choice.rule_place,
         fmt::format(
             "plan.data_parallel.servers.rule: {}: every worker updates its own weights with the gradients of all "
             "workers; this needs consistency synchronous and no backup_workers; otherwise use rule: optimizer",
             choice.rule.name));
  read_local(choice, fields);
  place_by_default(choice, cluster);
  if (choice.dedicated && !choice.workers)
    choice.workers = first_gpu_of(cluster, *std::ranges::min_element(choice.nodes));
  if (choice.dedicated && choice.workers.value_or(0) == 0)
    fail(choice.place,
         "plan.data_parallel.servers: dedicated servers take the first node; no GPU is left for workers, which are on "
         "the first nodes");
  return choice;
}

void check_servers(const ServerChoice& choice, Fields& fields, int workers, const ClusterSpec& cluster) {
  const Node* servers = fields.child(
      {"servers", "Parameter servers: their number, for example 2, or {count: 2, place: dedicated}. Default: 1."});
  const Node map = servers && servers->kind == Node::Kind::map ? servers_map(*servers) : Node{};
  const Node* label = servers && servers->kind == Node::Kind::map ? map.find("label") : servers;
  if (label && label->scalar.find('W') != std::string::npos && choice.workers != workers)
    fail(choice.place, fmt::format("plan.data_parallel.servers: the label says {}, but the plan has {}",
                                   counted_noun(*choice.workers, "worker"), counted_noun(workers, "rank")));
  const int last = cluster.node_of_gpu(workers - 1);
  for (const int node : choice.nodes) {
    if (choice.dedicated && node <= last)
      fail(choice.place, fmt::format("plan.data_parallel.servers: node {} is to be dedicated, but workers are on nodes "
                                     "0 to {}; set plan.data_parallel.size, or let them be colocated",
                                     node, last));
  }
  int processes = choice.device == ServerChoice::Device::gpus ? 0 : choice.count;
  for (int i = 0; choice.device == ServerChoice::Device::gpus && i < choice.count; ++i)
    processes += cluster.type_of(choice.nodes[static_cast<std::size_t>(i) % choice.nodes.size()]).gpus;
  if (choice.replication.copies > processes)
    fail(choice.replicas_place,
         fmt::format("plan.data_parallel.servers.replicas: each key on {} servers, but there {} {}; at most as many",
                     choice.replication.copies, processes == 1 ? "is" : "are", processes));
  if (choice.backup_workers >= workers)
    fields.refuse("backup_workers", fmt::format("{} of {}; at most {}", choice.backup_workers,
                                                counted_noun(workers, "worker"), workers - 1));
  for (const auto& [key, shares] :
       {std::pair{"worker_weights", &choice.worker_weights}, std::pair{"mixing_shares", &choice.mixing_shares}})
    if (!shares->empty() && static_cast<int>(shares->size()) != workers)
      fields.refuse(key, fmt::format("{} for {}", counted_noun(static_cast<std::int64_t>(shares->size()), "number"),
                                     counted_noun(workers, "worker")));
}

}  // namespace trainyard
