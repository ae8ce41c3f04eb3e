#include "scenarios/src/reading/preflight.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace trainyard {
namespace {

constexpr std::int64_t kMostPort = 65535;

std::vector<int> read_ports(Fields& fields, Key key) {
  std::vector<int> ports;
  const std::vector<Node>* list = fields.list(key);
  if (!list) return ports;
  for (const Node& item : *list) {
    std::int64_t port = 0;
    try {
      port = parse_integer(item.scalar);
    } catch (const UserError&) {
    }
    if (port < 1 || port > kMostPort)
      fail(item.place, fmt::format("{}.{}: a port from 1 to {} expected, found \"{}\"", fields.what(), key.name,
                                   kMostPort, item.scalar));
    ports.push_back(static_cast<int>(port));
  }
  return ports;
}

/// A declared host, and the places of its entries in the file.
struct ReadHost {
  DeclaredHost host;
  const Node* node = nullptr;
  std::vector<Node> reaches;
  bool lists_reaches = false;
  Place ports, reaches_place, versions;

  Place place_of_version(const std::string& library) const {
    const Node* all = node->find("versions");
    const Node* version = all ? all->find(library) : nullptr;
    return version ? version->place : versions;
  }
  const std::string* version(const std::string& library) const {
    for (const auto& [name, text] : host.versions)
      if (name == library) return &text;
    return nullptr;
  }
};

ReadHost read_host(const Node& node, const std::string& what, const NodeType& type) {
  Fields fields(node, what);
  ReadHost read;
  read.node = &node;
  read.host.name = fields.text(
      {"name", "Name of a host, for example node1. The list `hosts` has one entry for each node of the cluster."});
  const auto gpus = fields.integer<int>(
      {"gpus", "Number of GPUs that the host has, for example 8. Default: as many as its type of node."}, 0, type.gpus);
  if (gpus < type.gpus)
    fields.refuse("gpus", fmt::format("host {} has {}, but a {} has {}", read.host.name, gpus, type.name, type.gpus));
  read.host.open_ports =
      read_ports(fields, {"open_ports", "Ports that are open on the host, for example [22, 29500]. Default: none."});
  read.ports = fields.place_of("open_ports");
  if (const std::vector<Node>* reaches =
          fields.list({"reaches", "Names of the hosts that this host reaches, for example [node2]. Default: all."})) {
    read.reaches = *reaches;
    read.lists_reaches = true;
    read.reaches_place = fields.place_of("reaches");
  }
  if (const Node* versions = fields.child(
          {"versions",
           "Versions of the libraries of the host, which must be those of the first host, for example {cuda: 12.2, "
           "nccl: 2.18.3}. Default: they are not compared."}))
    for (const auto& [name, value] : versions->fields) read.host.versions.emplace_back(name, value.scalar);
  read.versions = fields.place_of("versions");
  fields.finish();
  return read;
}

void require_open(const ReadHost& read, const std::vector<int>& ports) {
  const std::vector<int>& open = read.host.open_ports;
  for (const int port : ports)
    if (std::find(open.begin(), open.end(), port) == open.end())
      fail(read.ports, fmt::format("preflight: port {} is closed on host {}; open: {}", port, read.host.name,
                                   open.empty() ? "none" : fmt::format("{}", fmt::join(open, ", "))));
}

void require_reach(const ReadHost& read, const std::vector<ReadHost>& all) {
  if (!read.lists_reaches) return;
  std::vector<std::string> names;
  for (const ReadHost& other : all) names.push_back(other.host.name);
  for (const Node& item : read.reaches)
    if (std::find(names.begin(), names.end(), item.scalar) == names.end())
      fail(item.place, fmt::format("preflight: host {} reaches {}, which is no host of the cluster{}", read.host.name,
                                   item.scalar, hint(item.scalar, names)));
  for (const std::string& name : names)
    if (name != read.host.name && std::none_of(read.reaches.begin(), read.reaches.end(),
                                               [&name](const Node& item) { return item.scalar == name; }))
      fail(read.reaches_place, fmt::format("preflight: host {} does not reach host {}", read.host.name, name));
}

/// Throws UserError if a host has other libraries or versions than the first host: they may not work together.
void require_same_versions(const ReadHost& read, const ReadHost& first) {
  for (const auto& [name, version] : first.host.versions) {
    const std::string* mine = read.version(name);
    if (!mine)
      fail(read.versions, fmt::format("preflight: host {} states no version of {}; host {} has {}", read.host.name,
                                      name, first.host.name, version));
    if (*mine != version)
      fail(read.place_of_version(name), fmt::format("preflight: {} is {} on host {}, but {} on host {}", name, *mine,
                                                    read.host.name, version, first.host.name));
  }
  for (const auto& [name, version] : read.host.versions)
    if (!first.version(name))
      fail(first.versions, fmt::format("preflight: host {} states no version of {}; host {} has {}", first.host.name,
                                       name, read.host.name, version));
}

}  // namespace

std::vector<DeclaredHost> checked_hosts(const Node& preflight, const ClusterSpec& cluster) {
  Fields fields(preflight, "cluster.preflight");
  const std::vector<int> ports =
      read_ports(fields, {"ports", "Ports that must be open on all hosts, for example [22, 29500]. Default: none."});
  const std::vector<Node>* list =
      fields.list({"hosts",
                   "Hosts of the cluster, one for each node, which are checked before a launch, for example [{name: "
                   "node1, gpus: 8, open_ports: [22], versions: {cuda: 12.2}}]."});
  if (!list)
    fail(fields.place(), "cluster.preflight: missing key \"hosts\" (a list of {name, open_ports, versions, …})");
  fields.finish();
  if (static_cast<int>(list->size()) != cluster.nodes)
    fail(list->front().place,
         fmt::format("cluster.preflight.hosts: {} of {} nodes; one host a node expected", list->size(), cluster.nodes));
  std::vector<ReadHost> hosts;
  for (std::size_t i = 0; i < list->size(); ++i) {
    hosts.push_back(read_host((*list)[i], fmt::format("preflight host {}", i), cluster.type_of(static_cast<int>(i))));
    for (std::size_t j = 0; j < i; ++j)
      if (hosts[j].host.name == hosts[i].host.name)
        fail((*list)[i].place, fmt::format("cluster.preflight.hosts: two hosts are called {}", hosts[i].host.name));
  }
  std::vector<DeclaredHost> declared;
  for (const ReadHost& host : hosts) {
    require_open(host, ports);
    require_reach(host, hosts);
    require_same_versions(host, hosts.front());
    declared.push_back(host.host);
  }
  return declared;
}

}  // namespace trainyard
