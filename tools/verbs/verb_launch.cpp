#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "scenarios/src/reading/launch_line.hpp"
#include "scenarios/src/reading/scenario.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/device_noun.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

/// Throws UserError unless the scenario's cluster has a device for each process.
void require_gpus(const LaunchLine& launch, const Scenario& scenario) {
  const ClusterSpec& cluster = scenario.cluster;
  const int gpus = cluster.gpus(), world = launch.world_size();
  if (world > gpus)
    throw UserError(fmt::format("launch: {}, but the cluster of {} has {}", counted_noun(world, "process", "processes"),
                                scenario.name, counted_noun(gpus, "GPU")));
  for (const LaunchLine::Host& host : launch.hosts)
    if (host.processes > cluster.node.gpus)
      throw UserError(fmt::format("launch: {} on {}, but a {} has {}",
                                  counted_noun(host.processes, "process", "processes"), host.name, cluster.node.name,
                                  counted_noun(cluster.node.gpus, "GPU")));
}

/// Throws UserError unless the line agrees with what preflight declares: names of the hosts, and the port of rank 0.
void require_declared(const LaunchLine& launch, const Scenario& scenario) {
  const std::vector<DeclaredHost>& declared = scenario.cluster.hosts;
  if (declared.empty()) return;
  std::vector<std::string> names;
  for (const DeclaredHost& host : declared) names.push_back(host.name);
  for (const LaunchLine::Host& host : launch.hosts)
    if (launch.names_hosts && std::ranges::find(names, host.name) == names.end())
      throw UserError(
          fmt::format("launch: {} declares no host {}{}", scenario.name, host.name, hint(host.name, names)));
  const std::size_t colon = launch.master.rfind(':');
  if (colon == std::string::npos) return;
  const auto port = static_cast<int>(parse_integer(launch.master.substr(colon + 1)));
  const std::vector<int>& open = declared.front().open_ports;
  if (std::ranges::find(open, port) == open.end())
    throw UserError(fmt::format("launch: rank 0 listens on port {}, which is closed on host {}; open: {}", port,
                                names.front(), open.empty() ? "none" : fmt::format("{}", fmt::join(open, ", "))));
}

ordered_json launch_json(const LaunchLine& launch, Seconds request) {
  ordered_json hosts = ordered_json::array();
  for (std::size_t i = 0; i < launch.hosts.size(); ++i)
    hosts.push_back({{"name", launch.hosts[i].name},
                     {"processes", launch.hosts[i].processes},
                     {"first_rank", launch.first_rank(i)}});
  return {{"launcher", launch.launcher},
          {"world_size", launch.world_size()},
          {"node_rank", launch.node_rank},
          {"master", launch.master},
          {"backend", launch.backend},
          {"init_method", launch.init_method},
          {"rendezvous_requests", launch.rendezvous_requests()},
          {"rendezvous_time_s", (request * launch.rendezvous_requests()).value},
          {"hosts", hosts}};
}

std::string launch_text(const LaunchLine& launch, Seconds request) {
  std::string text =
      fmt::format("{}: {} on {}{}\n", launch.launcher, counted_noun(launch.world_size(), "process", "processes"),
                  counted_noun(static_cast<std::int64_t>(launch.hosts.size()), "machine"),
                  launch.master.empty() ? "" : ", rank 0 at " + launch.master);
  if (launch.rendezvous_requests() > 0)
    text += fmt::format("backend {}, init_method {}: rendezvous by {:.0f} requests to the store, {} at {} each\n",
                        launch.backend, launch.init_method, launch.rendezvous_requests(),
                        show(request * launch.rendezvous_requests()), show(request));
  TextTable table{"", "machine", "ranks", "local ranks (cuda:N)"};
  for (std::size_t i = 0; i < launch.hosts.size(); ++i) {
    const int first = launch.first_rank(i), count = launch.hosts[i].processes;
    table.rows.push_back({static_cast<int>(i) == launch.node_rank ? ">" : "", launch.hosts[i].name,
                          fmt::format("{}-{}", first, first + count - 1), fmt::format("0-{}", count - 1)});
  }
  return text + table.text();
}

int launch(const std::vector<std::string>& words) {
  Arguments arguments("launch",
                      "Reads the command line that starts a training (torchrun, torch.distributed.launch, horovodrun, "
                      "mpirun, deepspeed, accelerate), and shows which rank runs where.",
                      "launch \"torchrun --nnodes=16 --nproc-per-node=4 --node-rank=3 train.py\"");
  std::string line, on, json, request = "50 us";
  arguments.positional("LINE", line, "the command line, in quotes");
  arguments.option("--on", on, "SCENARIO",
                   "refuse the line unless this scenario's cluster has a device for each process, and its preflight "
                   "declares the hosts and the port");
  arguments.option(
      "--request", request, "TIME",
      "time in which the store of the rendezvous serves one request, one after another (default 50 us, an example)");
  arguments.output("--json", json, "write the ranks as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  const LaunchLine read = read_launch_line(line);
  const Seconds served = read_flag("--request", request, parse_seconds);
  if (served.value < 0) throw UserError(fmt::format("--request {}: a time of at least 0 s expected", request));
  if (!on.empty()) {
    const Scenario scenario = read_scenario(on, {});
    errors_in_words_of(device_noun(scenario.cluster), [&] { require_gpus(read, scenario); });
    require_declared(read, scenario);
  }
  write_json(json, launch_json(read, served));
  if (json != "-") write_atomically("-", launch_text(read, served));
  return kGood;
}

std::vector<FieldRow> launch_rows() {
  return {
      {"launcher", "text", "command that starts the processes, such as torchrun", ""},
      {"world_size", "number", "number of processes, one for each device", ""},
      {"node_rank", "number", "number of the machine where the line is typed; -1: it starts all machines", ""},
      {"master", "text", "address of rank 0; empty: the line does not say", ""},
      {"backend", "text", "library of the collectives: nccl, gloo or mpi; empty: the line does not say", ""},
      {"init_method", "text", "how ranks find each other: env://, tcp://HOST:PORT or file://PATH; empty: by MPI", ""},
      {"rendezvous_requests", "number", "requests of all ranks to the store of the rendezvous; 0: there is none", ""},
      {"rendezvous_time_s", "s", "time in which the store serves them one after another", ""},
      {"hosts", "list", "machines on which processes run", ""},
      {"hosts[].name", "text", "name in the line, or the machine's number", ""},
      {"hosts[].processes", "number", "number of processes on the machine; their local ranks count from 0", ""},
      {"hosts[].first_rank", "number", "lowest rank on the machine", ""}};
}
const RegisterJsonReference launch_reference{"launch", "which rank runs where", launch_rows};
const RegisterVerb registered_launch{"launch", VerbGroup::prepare,
                                     "show which rank runs where for a command line of torchrun, mpirun, …", launch};

}  // namespace
}  // namespace trainyard
