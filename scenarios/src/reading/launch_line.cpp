#include "scenarios/src/reading/launch_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "models/reading/document.hpp"

namespace trainyard {
namespace {

/// The values that launchers take under different flags, as written; empty: not given.
struct LaunchWords {
  std::string nodes, per_node, total, node_rank, address, port, hosts, ignored;
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
      {"-bind-to", &W::ignored},   {"--map-by", &W::ignored}, {"-map-by", &W::ignored}};
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
    if (std::find(launcher.switches.begin(), launcher.switches.end(), flag) != launcher.switches.end()) continue;
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

int whole_number_of(const std::string& what, const std::string& text, int least) {
  constexpr int kMostProcesses = 1 << 20;
  std::int64_t value = -1;
  try {
    value = parse_integer(text);
  } catch (const UserError&) {
  }
  if (value < least || value > kMostProcesses)
    throw UserError(fmt::format("launch: {} {}: a whole number from {} expected", what, text, least));
  return static_cast<int>(value);
}

/// Returns the value of one of the script's own flags, "--flag=value" or "--flag value"; empty: the line has none.
std::string script_flag(const std::vector<std::string>& words, std::initializer_list<std::string_view> names) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    std::string flag = words[i].substr(0, equals);
    std::replace(flag.begin(), flag.end(), '_', '-');
    if (std::find(names.begin(), names.end(), flag) == names.end()) continue;
    if (equals != std::string::npos) return words[i].substr(equals + 1);
    if (i + 1 == words.size()) throw UserError(fmt::format("launch: {}: a value expected", flag));
    return words[i + 1];
  }
  return "";
}

/// Sets the backend and the method by which ranks find each other. Defaults are those of PyTorch on GPUs.
void read_process_group(const std::vector<std::string>& words, LaunchLine& launch) {
  const auto has = [&words](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  const bool mpi = launch.launcher.starts_with("mpi"), horovod = launch.launcher == "horovodrun";
  launch.backend = script_flag(words, {"--backend", "--dist-backend"});
  launch.init_method = script_flag(words, {"--init-method", "--dist-url"});
  const std::vector<std::string> backends{"nccl", "gloo", "mpi"};
  if (!launch.backend.empty() && std::find(backends.begin(), backends.end(), launch.backend) == backends.end())
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
    throw UserError(fmt::format("launch: {} processes are not {} on each of {} machines", total, per_node, count));
  std::vector<LaunchLine::Host> hosts;
  for (int i = 0; i < count; ++i) hosts.push_back({fmt::format("node {}", i), per_node});
  return hosts;
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
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  const Launcher& launcher = launcher_of(words);
  const LaunchWords values = flags_of(launcher, words);
  LaunchLine launch;
  launch.launcher = launcher_name(launcher);
  launch.names_hosts = !values.hosts.empty();
  launch.hosts = values.hosts.empty() ? counted_hosts(values) : named_hosts(values.hosts);
  const int slots = launch.world_size(),
            total = values.total.empty() ? slots : whole_number_of("processes", values.total, 1);
  if (total != slots) throw UserError(fmt::format("launch: {} processes, but the hosts have {} slots", total, slots));
  if (!values.node_rank.empty()) {
    launch.node_rank = whole_number_of("rank of the node", values.node_rank, 0);
    if (launch.node_rank >= static_cast<int>(launch.hosts.size()))
      throw UserError(
          fmt::format("launch: node {} of {} nodes, which count from 0", launch.node_rank, launch.hosts.size()));
  }
  launch.master = values.address + (values.port.empty() ? "" : ":" + values.port);
  read_process_group(words, launch);
  return launch;
}

}  // namespace trainyard
