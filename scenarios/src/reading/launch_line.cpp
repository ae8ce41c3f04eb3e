#include "scenarios/src/reading/launch_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "models/reading/document.hpp"

namespace trainyard {
namespace {

/// What launchers say under different flags, as written; empty: not said.
struct LaunchWords {
  std::string nodes, each, all, node_rank, address, port, hosts, ignored;
};
using LaunchWord = std::string LaunchWords::*;

/// A launcher: the words it begins with, and its flags (with '-' for '_').
struct Launcher {
  std::vector<std::string> words;
  std::map<std::string, LaunchWord> flags;
  std::vector<std::string> switches;  ///< flags without a value, which do not matter here
};

const std::vector<Launcher>& launchers() {
  using W = LaunchWords;
  const std::map<std::string, LaunchWord> torch{
      {"--nnodes", &W::nodes},          {"--nproc-per-node", &W::each}, {"--node-rank", &W::node_rank},
      {"--master-addr", &W::address},   {"--master-port", &W::port},    {"--rdzv-backend", &W::ignored},
      {"--rdzv-endpoint", &W::address}, {"--rdzv-id", &W::ignored},     {"--max-restarts", &W::ignored}};
  const std::map<std::string, LaunchWord> mpi{
      {"-np", &W::all},           {"-n", &W::all},           {"-H", &W::hosts},         {"--host", &W::hosts},
      {"-N", &W::each},           {"--npernode", &W::each},  {"-npernode", &W::each},   {"-x", &W::ignored},
      {"--bind-to", &W::ignored}, {"-bind-to", &W::ignored}, {"--map-by", &W::ignored}, {"-map-by", &W::ignored}};
  static const std::vector<Launcher> all{
      {{"torchrun"}, torch, {"--standalone"}},
      {{"python", "-m", "torch.distributed.launch"}, torch, {"--use-env"}},
      {{"python", "-m", "torch.distributed.run"}, torch, {"--standalone"}},
      {{"mpirun"}, mpi, {"--allow-run-as-root", "--oversubscribe"}},
      {{"mpiexec"}, mpi, {"--allow-run-as-root", "--oversubscribe"}},
      {{"horovodrun"},
       {{"-np", &W::all}, {"--num-proc", &W::all}, {"-H", &W::hosts}, {"--hosts", &W::hosts}, {"-p", &W::ignored}},
       {"--gloo", "--mpi", "--verbose"}},
      {{"deepspeed"},
       {{"--num-nodes", &W::nodes},
        {"--num-gpus", &W::each},
        {"--node-rank", &W::node_rank},
        {"--master-addr", &W::address},
        {"--master-port", &W::port}},
       {"--no-ssh"}},
      {{"accelerate", "launch"},
       {{"--num-machines", &W::nodes},
        {"--num-processes", &W::all},
        {"--machine-rank", &W::node_rank},
        {"--main-process-ip", &W::address},
        {"--main-process-port", &W::port},
        {"--mixed-precision", &W::ignored}},
       {"--multi-gpu"}}};
  return all;
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

/// Flags up to the script; "--flag=value" and "--flag value", '_' as '-'.
LaunchWords flags_of(const Launcher& launcher, const std::vector<std::string>& words) {
  LaunchWords said;
  for (std::size_t i = launcher.words.size(); i < words.size() && words[i].starts_with("-"); ++i) {
    const std::size_t equals = words[i].find('=');
    std::string flag = words[i].substr(0, equals);
    std::replace(flag.begin(), flag.end(), '_', '-');
    if (std::find(launcher.switches.begin(), launcher.switches.end(), flag) != launcher.switches.end()) continue;
    const auto known = launcher.flags.find(flag);
    if (known == launcher.flags.end()) {
      std::vector<std::string> names = launcher.switches;
      for (const auto& [name, word] : launcher.flags) names.push_back(name);
      throw UserError(fmt::format("launch: {} has no flag {}{}", launcher_name(launcher), flag, hint(flag, names)));
    }
    if (equals == std::string::npos && i + 1 == words.size())
      throw UserError(fmt::format("launch: {}: a value expected", flag));
    said.*known->second = equals == std::string::npos ? words[++i] : words[i].substr(equals + 1);
  }
  return said;
}

int whole(const std::string& what, const std::string& text, int least) {
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

/// "host1:4,host2:4"; without a number, one process.
std::vector<LaunchLine::Host> named_hosts(const std::string& text) {
  std::vector<LaunchLine::Host> hosts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    const std::size_t colon = part.find(':');
    hosts.push_back({part.substr(0, colon), colon == std::string::npos ? 1 : whole("host", part.substr(colon + 1), 1)});
  }
  return hosts;
}

std::vector<LaunchLine::Host> counted_hosts(const LaunchWords& said) {
  const int nodes = said.nodes.empty() ? 1 : whole("nodes", said.nodes, 1);
  const int all = said.all.empty() ? 0 : whole("processes", said.all, 1);
  const int each = !said.each.empty() ? whole("processes a node", said.each, 1) : std::max(1, all / nodes);
  const int count = said.nodes.empty() && all > 0 ? (all + each - 1) / each : nodes;
  if (all > 0 && all != count * each)
    throw UserError(fmt::format("launch: {} processes are not {} on each of {} machines", all, each, count));
  std::vector<LaunchLine::Host> hosts;
  for (int i = 0; i < count; ++i) hosts.push_back({fmt::format("node {}", i), each});
  return hosts;
}

}  // namespace

int LaunchLine::first_rank(std::size_t host) const {
  int rank = 0;
  for (std::size_t i = 0; i < host; ++i) rank += hosts[i].processes;
  return rank;
}
int LaunchLine::world_size() const { return first_rank(hosts.size()); }

LaunchLine read_launch_line(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  const Launcher& launcher = launcher_of(words);
  const LaunchWords said = flags_of(launcher, words);
  LaunchLine launch;
  launch.launcher = launcher_name(launcher);
  launch.names_hosts = !said.hosts.empty();
  launch.hosts = said.hosts.empty() ? counted_hosts(said) : named_hosts(said.hosts);
  const int slots = launch.world_size(), all = said.all.empty() ? slots : whole("processes", said.all, 1);
  if (all != slots) throw UserError(fmt::format("launch: {} processes, but the hosts have {} slots", all, slots));
  if (!said.node_rank.empty()) {
    launch.node_rank = whole("rank of the node", said.node_rank, 0);
    if (launch.node_rank >= static_cast<int>(launch.hosts.size()))
      throw UserError(
          fmt::format("launch: node {} of {} nodes, which count from 0", launch.node_rank, launch.hosts.size()));
  }
  launch.master = said.address + (said.port.empty() ? "" : ":" + said.port);
  return launch;
}

}  // namespace trainyard
