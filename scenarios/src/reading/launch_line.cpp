#include "scenarios/src/reading/launch_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "models/reading/document.hpp"

namespace trainyard {
namespace {

/// The values that launchers take under different flags, as written; empty: not given.
struct LaunchWords {
  std::string nodes, per_node, total, node_rank, address, port, hosts, mapping, ignored;
};
using LaunchWord = std::string LaunchWords::*;

/// A launcher: the words that its command begins with, and its flags (with '-' for '_').
struct Launcher {
  std::vector<std::string> words;
  std::map<std::string, LaunchWord> flags;
  std::vector<std::string> switches;  ///< flags without a value, which are ignored
};

const std::vector<Launcher>& launchers() {
  using W = LaunchWords;
  const std::map<std::string, LaunchWord> torch{
      {"--nnodes", &W::nodes},          {"--nproc-per-node", &W::per_node}, {"--node-rank", &W::node_rank},
      {"--master-addr", &W::address},   {"--master-port", &W::port},        {"--rdzv-backend", &W::ignored},
      {"--rdzv-endpoint", &W::address}, {"--rdzv-id", &W::ignored},         {"--max-restarts", &W::ignored}};
  const std::map<std::string, LaunchWord> mpi{
      {"-np", &W::total},          {"-n", &W::total},         {"-H", &W::hosts},
      {"--host", &W::hosts},       {"-N", &W::per_node},      {"--npernode", &W::per_node},
      {"-npernode", &W::per_node}, {"-x", &W::ignored},       {"--bind-to", &W::ignored},
      {"-bind-to", &W::ignored},   {"--map-by", &W::mapping}, {"-map-by", &W::mapping}};
  static const std::vector<Launcher> known_launchers{
      {{"torchrun"}, torch, {"--standalone"}},
      {{"python", "-m", "torch.distributed.launch"}, torch, {"--use-env"}},
      {{"python", "-m", "torch.distributed.run"}, torch, {"--standalone"}},
      {{"mpirun"}, mpi, {"--allow-run-as-root", "--oversubscribe"}},
      {{"mpiexec"}, mpi, {"--allow-run-as-root", "--oversubscribe"}},
      {{"horovodrun"},
       {{"-np", &W::total}, {"--num-proc", &W::total}, {"-H", &W::hosts}, {"--hosts", &W::hosts}, {"-p", &W::ignored}},
       {"--gloo", "--mpi", "--verbose"}},
      {{"deepspeed"},
       {{"--num-nodes", &W::nodes},
        {"--num-gpus", &W::per_node},
        {"--node-rank", &W::node_rank},
        {"--master-addr", &W::address},
        {"--master-port", &W::port}},
       {"--no-ssh"}},
      {{"accelerate", "launch"},
       {{"--num-machines", &W::nodes},
        {"--num-processes", &W::total},
        {"--machine-rank", &W::node_rank},
        {"--main-process-ip", &W::address},
        {"--main-process-port", &W::port},
        {"--mixed-precision", &W::ignored}},
       {"--multi-gpu"}}};
  return known_launchers;
}

std::string launcher_name(const Launcher& launcher) { return fmt::format("{}", fmt::join(launcher.words, " ")); }

const Launcher& launcher_of(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const Launcher& launcher : launchers()) {
    if (words.size() >= launcher.words.size() &&
        std::equal(launcher.words.begin(), launcher.words.end(), words.begin()))
      return launcher;
    names.push_back(launcher_name(launcher));
  }
  const std::string first = words.empty() ? "" : words.front();
  throw UserError(fmt::format("launch: unknown launcher \"{}\"{}", first, hint(first, names)));
}

/// Reads the flags before the script: "--flag=value" or "--flag value", with '_' for '-'.
LaunchWords flags_of(const Launcher& launcher, const std::vector<std::string>& words) {
  LaunchWords values;
  for (std::size_t i = launcher.words.size(); i < words.size() && words[i].starts_with("-"); ++i) {
    const std::size_t equals = words[i].find('=');
    std::string flag = words[i].substr(0, equals);
    std::replace(flag.begin(), flag.end(), '_', '-');
    if (std::ranges::find(launcher.switches, flag) != launcher.switches.end()) continue;
    const auto found = launcher.flags.find(flag);
    if (found == launcher.flags.end()) {
      std::vector<std::string> names = launcher.switches;
      for (const auto& [name, word] : launcher.flags) names.push_back(name);
      throw UserError(fmt::format("launch: {} has no flag {}{}", launcher_name(launcher), flag, hint(flag, names)));
    }
    if (equals == std::string::npos && i + 1 == words.size())
      throw UserError(fmt::format("launch: {}: a value expected", flag));
    values.*found->second = equals == std::string::npos ? words[++i] : words[i].substr(equals + 1);
  }
  return values;
}

/// Splits a line at spaces, but not within quotes, as a shell does.
std::vector<std::string> shell_words(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool is_open = false;  // a word has begun
  char quote = 0;
  for (const char c : line) {
    if (quote != 0 ? c == quote : c == '"' || c == '\'') {
      quote = quote != 0 ? '\0' : c;
      is_open = true;
    } else if (quote != 0 || std::string_view(" \t\n").find(c) == std::string_view::npos) {
      word += c;
      is_open = true;
    } else if (is_open) {
      words.push_back(std::exchange(word, ""));
      is_open = false;
    }
  }
  if (quote != 0) throw UserError(fmt::format("launch: a quote {} is not closed in this line: {}", quote, line));
  if (is_open) words.push_back(word);
  return words;
}

int whole_number_of(const std::string& what, const std::string& text, int least) {
  constexpr int kMostProcesses = 1 << 20;
  const std::int64_t value = find_integer(text).value_or(-1);
  if (value < least || value > kMostProcesses)
    throw UserError(
        fmt::format("launch: {} {}: a whole number from {} to {} expected", what, text, least, kMostProcesses));
  return static_cast<int>(value);
}

/// Returns the value of one of the script's own flags, "--flag=value" or "--flag value"; empty: the line has none.
std::string script_flag(const std::vector<std::string>& words, std::initializer_list<std::string_view> names) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    std::string flag = words[i].substr(0, equals);
    std::replace(flag.begin(), flag.end(), '_', '-');
    if (std::ranges::find(names, flag) == names.end()) continue;
    if (equals != std::string::npos) return words[i].substr(equals + 1);
    if (i + 1 == words.size()) throw UserError(fmt::format("launch: {}: a value expected", flag));
    return words[i + 1];
  }
  return "";
}

/// Sets the backend and the method by which ranks find each other. Defaults are those of PyTorch on GPUs.
void read_process_group(const std::vector<std::string>& words, LaunchLine& launch) {
  const auto has = [&words](const char* word) { return std::ranges::find(words, word) != words.end(); };
  const bool mpi = launch.launcher.starts_with("mpi"), horovod = launch.launcher == "horovodrun";
  launch.backend = script_flag(words, {"--backend", "--dist-backend"});
  launch.init_method = script_flag(words, {"--init-method", "--dist-url"});
  const std::vector<std::string> backends{"nccl", "gloo", "mpi"};
  if (!launch.backend.empty() && std::ranges::find(backends, launch.backend) == backends.end())
    throw UserError(fmt::format("launch: unknown backend \"{}\"{}", launch.backend, hint(launch.backend, backends)));
  if (launch.backend.empty())
    launch.backend = horovod && has("--gloo") ? "gloo" : horovod && has("--mpi") ? "mpi" : mpi || horovod ? "" : "nccl";
  if (launch.init_method.empty() && !mpi && !horovod) launch.init_method = "env://";
  const std::string& method = launch.init_method;
  if (!method.empty() && method != "env://" && !method.starts_with("tcp://") && !method.starts_with("file://"))
    throw UserError(fmt::format("launch: init_method {}: env://, tcp://HOST:PORT or file://PATH expected", method));
  if (launch.master.empty() && method.starts_with("tcp://"))
    launch.master = method.substr(std::string("tcp://").size());
}

/// Reads "host1:4,host2:4". A host without a number has one process.
std::vector<LaunchLine::Host> named_hosts(const std::string& text) {
  std::vector<LaunchLine::Host> hosts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    const std::size_t colon = part.find(':');
    hosts.push_back(
        {part.substr(0, colon), colon == std::string::npos ? 1 : whole_number_of("host", part.substr(colon + 1), 1)});
  }
  return hosts;
}

std::vector<LaunchLine::Host> counted_hosts(const LaunchWords& values) {
  const int nodes = values.nodes.empty() ? 1 : whole_number_of("nodes", values.nodes, 1);
  const int total = values.total.empty() ? 0 : whole_number_of("processes", values.total, 1);
  const int per_node =
      !values.per_node.empty() ? whole_number_of("processes a node", values.per_node, 1) : std::max(1, total / nodes);
  const int count = values.nodes.empty() && total > 0 ? (total + per_node - 1) / per_node : nodes;
  if (total > 0 && total != count * per_node)
    throw UserError(fmt::format("launch: {} processes are not {} on each of {} machines; nearest: {}", total, per_node,
                                count, count * per_node));
  std::vector<LaunchLine::Host> hosts;
  for (int i = 0; i < count; ++i) hosts.push_back({fmt::format("node {}", i), per_node});
  return hosts;
}

/// Applies Open MPI's --map-by: "ppr:N:node" runs N processes on each host. Other policies fill the hosts one after
/// another, except "node", which deals ranks out to them.
void map_processes(const std::string& mapping, std::vector<LaunchLine::Host>& hosts) {
  const std::string policy = mapping.substr(0, mapping.find(':'));
  if (policy == "node")
    throw UserError(
        "launch: --map-by node: ranks that are dealt out to the hosts are not modelled; nearest is --map-by slot");
  if (policy != "ppr") return;
  const std::string rest = mapping.substr(std::min(mapping.size(), policy.size() + 1));
  const std::size_t colon = rest.find(':');
  if (colon == std::string::npos || rest.substr(colon + 1) != "node")
    throw UserError(fmt::format("launch: --map-by {}: not modelled; nearest is --map-by ppr:1:node", mapping));
  const int processes = whole_number_of("processes a node", rest.substr(0, colon), 1);
  for (LaunchLine::Host& host : hosts) {
    if (processes > host.processes)
      throw UserError(fmt::format("launch: --map-by {}: {} has {} slots; expected at most ppr:{}:node", mapping,
                                  host.name, host.processes, host.processes));
    host.processes = processes;
  }
}

/// Leaves the first `total` processes: they fill the hosts one after another.
void keep_processes(int total, std::vector<LaunchLine::Host>& hosts) {
  for (LaunchLine::Host& host : hosts) {
    host.processes = std::min(host.processes, total);
    total -= host.processes;
  }
  std::erase_if(hosts, [](const LaunchLine::Host& host) { return host.processes == 0; });
}

constexpr std::int64_t kMostPort = 65535;

std::vector<int> read_ports(Fields& fields, Key key) {
  std::vector<int> ports;
  const std::vector<Node>* list = fields.list(key);
  if (!list) return ports;
  for (const Node& item : *list) {
    const std::int64_t port = find_integer(item.scalar).value_or(0);
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
  if (const Node* versions =
          fields.child({"versions",
                        "Versions of the libraries of the host, which must be those of the first host, for example "
                        "{cuda: 12.2, nccl: 2.18.3}. Default: they are not compared."}))
    for (const auto& [name, value] : versions->fields) read.host.versions.emplace_back(name, value.scalar);
  read.versions = fields.place_of("versions");
  fields.finish();
  return read;
}

void require_open(const ReadHost& read, const std::vector<int>& ports) {
  const std::vector<int>& open = read.host.open_ports;
  for (const int port : ports)
    if (std::ranges::find(open, port) == open.end())
      fail(read.ports, fmt::format("preflight: port {} is closed on host {}; open: {}", port, read.host.name,
                                   open.empty() ? "none" : fmt::format("{}", fmt::join(open, ", "))));
}

void require_reach(const ReadHost& read, const std::vector<ReadHost>& all) {
  if (!read.lists_reaches) return;
  std::vector<std::string> names;
  for (const ReadHost& other : all) names.push_back(other.host.name);
  for (const Node& item : read.reaches)
    if (std::ranges::find(names, item.scalar) == names.end())
      fail(item.place, fmt::format("preflight: host {} reaches {}, which is no host of the cluster{}", read.host.name,
                                   item.scalar, hint(item.scalar, names)));
  for (const std::string& name : names)
    if (name != read.host.name &&
        std::ranges::none_of(read.reaches, [&name](const Node& item) { return item.scalar == name; }))
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

int LaunchLine::first_rank(std::size_t host) const {
  int rank = 0;
  for (std::size_t i = 0; i < host; ++i) rank += hosts[i].processes;
  return rank;
}
int LaunchLine::world_size() const { return first_rank(hosts.size()); }

double LaunchLine::rendezvous_requests() const {
  const double ranks = world_size();
  if (init_method.empty()) return 0;
  return backend == "nccl" ? ranks + ranks : backend == "gloo" ? ranks + ranks * ranks : 0;
}

LaunchLine read_launch_line(const std::string& line) {
  const std::vector<std::string> words = shell_words(line);
  const Launcher& launcher = launcher_of(words);
  const LaunchWords values = flags_of(launcher, words);
  LaunchLine launch;
  launch.launcher = launcher_name(launcher);
  launch.names_hosts = !values.hosts.empty();
  launch.hosts = values.hosts.empty() ? counted_hosts(values) : named_hosts(values.hosts);
  if (!values.mapping.empty()) map_processes(values.mapping, launch.hosts);
  const int slots = launch.world_size(),
            total = values.total.empty() ? slots : whole_number_of("processes", values.total, 1);
  if (total > slots)
    throw UserError(fmt::format(
        "launch: {} processes, but the hosts have {} slots; expected at most {}{}", total, slots, slots,
        std::ranges::find(words, "--oversubscribe") == words.end() ? "" : ", because --oversubscribe is not modelled"));
  keep_processes(total, launch.hosts);
  if (!values.node_rank.empty()) {
    launch.node_rank = whole_number_of("rank of the node", values.node_rank, 0);
    if (launch.node_rank >= static_cast<int>(launch.hosts.size()))
      throw UserError(fmt::format("launch: node {} of {} nodes, which count from 0; the last is {}", launch.node_rank,
                                  launch.hosts.size(), launch.hosts.size() - 1));
  }
  launch.master = values.address + (values.port.empty() ? "" : ":" + values.port);
  read_process_group(words, launch);
  return launch;
}

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
