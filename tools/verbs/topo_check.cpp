#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "sim/process/job.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/topo.hpp"
#include "tools/verbs/topo_machine.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/analysis/fabric_check.hpp"
#include "topologies/analysis/fabric_simulation.hpp"
#include "topologies/drawings/topology_text.hpp"
#include "topologies/nodes/pcie_tree.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

struct SocketLanes {
  int socket = 0, used = 0, available = 0;
};

/// PCIe lanes of each socket of a node type; empty if its sockets have no limit. The reader refuses exceeded budgets.
std::vector<SocketLanes> lanes_of(const NodeType& node) {
  std::vector<SocketLanes> lanes;
  if (!has_lane_plan(node)) return lanes;
  for (const int free_lanes : plan_lanes(node).lanes_left)
    lanes.push_back({static_cast<int>(lanes.size()), node.lanes_per_socket - free_lanes, node.lanes_per_socket});
  return lanes;
}

/// The check's report on a cluster. A single node has lanes only.
struct FabricReport {
  std::string name, cluster;
  FabricCheck check;
  double simulated = 0, simulated_as_routed = 0;  ///< slowdowns of the counterexamples
  std::vector<SocketLanes> lanes;
  std::vector<DeclaredHost> hosts;
  std::vector<std::string> devices;  ///< names of the devices by DeviceId; empty: there is no fabric

  const std::string& device(DeviceId d) const { return devices[d]; }
};

constexpr double kAgreement = 1e-9;

/// Simulates the pattern on its routes and returns its slowdown. Throws InternalError if the check computed another one.
double confirmed_slowdown(DeviceGraph& graph, const BlockedPattern& pattern, const std::string& name) {
  const double simulated = simulated_slowdown(graph, pattern.pairs);
  if (std::abs(simulated / pattern.slowdown - 1) > kAgreement)
    throw InternalError(fmt::format("{}: {} pairs across {} should be slowed down {} times, but simulated {} times",
                                    name, pattern.pairs.size(), pattern.link, exact(pattern.slowdown),
                                    exact(simulated)));
  return simulated;
}

FabricReport check_machine(const TopoMachine& machine) {
  FabricReport report;
  report.name = machine.name;
  report.cluster = describe(machine.cluster);
  report.lanes = lanes_of(machine.cluster.node);
  report.hosts = machine.cluster.hosts;
  if (machine.cluster.nodes == 1 && !machine.cluster.joins_chips()) {
    report.check.reason = "one node: no fabric";
    return report;
  }
  DeviceGraph graph = build_cluster(machine.cluster);
  for (const Device& device : graph.devices()) report.devices.push_back(device.name);
  report.check = check_cluster_fabric(graph, machine.cluster);
  if (report.check.is_unfinished) return report;
  if (report.check.counterexample)
    report.simulated = confirmed_slowdown(graph, *report.check.counterexample, machine.name);
  if (report.check.routing && report.check.routing->counterexample)
    report.simulated_as_routed = confirmed_slowdown(graph, *report.check.routing->counterexample, machine.name);
  return report;
}

std::string pattern_text(const FabricReport& report, const BlockedPattern& pattern, double simulated) {
  constexpr std::size_t kShown = 4;
  std::string pairs;
  for (std::size_t i = 0; i < std::min(kShown, pattern.pairs.size()); ++i)
    pairs += fmt::format("{}{} -> {}", i > 0 ? ", " : "", report.device(pattern.pairs[i].from),
                         report.device(pattern.pairs[i].to));
  if (pattern.pairs.size() > kShown) pairs += ", ...";
  return fmt::format("counterexample: {} at once ({}): simulated {:.4g} times slower than one alone\n",
                     counted_noun(pattern.pairs.size(), "pair"), pairs, simulated);
}

const char* answer_text(Nonblocking answer) {
  return answer == Nonblocking::yes ? "yes" : answer == Nonblocking::no ? "no" : "unknown";
}

std::string lanes_text(const std::vector<SocketLanes>& lanes) {
  if (lanes.empty())
    return "PCIe lanes: not counted, because the node does not state those of its CPUs (pcie.lanes_per_socket)\n";
  std::string text = "PCIe lanes:";
  for (const SocketLanes& s : lanes)
    text += fmt::format("{} socket {} uses {} of {}", s.socket > 0 ? "," : "", s.socket, s.used, s.available);
  return text + "\n";
}

/// The versions that preflight declares, equal on all hosts. The reader refuses hosts that differ.
std::string hosts_text(const std::vector<DeclaredHost>& hosts) {
  if (hosts.empty()) return "";
  std::string versions;
  for (const auto& [name, version] : hosts.front().versions)
    versions += fmt::format("{}{} {}", versions.empty() ? "; on all " : ", ", name, version);
  return fmt::format("preflight: {} as declared{}\n", counted_noun(static_cast<std::int64_t>(hosts.size()), "host"),
                     versions);
}

std::string check_text(const FabricReport& report) {
  const FabricCheck& check = report.check;
  std::string text = fmt::format("{}: {}\n", report.name, report.cluster);
  if (check.is_unfinished) text += "unfinished: a signal ended the check; this is what was found\n";
  if (report.devices.empty()) return text + check.reason + "\n" + lanes_text(report.lanes) + hosts_text(report.hosts);
  text += fmt::format("nonblocking with ideal splitting: {}: {}\n", answer_text(check.nonblocking), check.reason);
  if (check.counterexample) text += pattern_text(report, *check.counterexample, report.simulated);
  if (const std::optional<RoutingCheck>& routing = check.routing) {
    text += fmt::format("nonblocking as routed ({}, one path for each pair): {}: {}\n", routing->rule,
                        answer_text(routing->nonblocking), routing->reason);
    if (routing->counterexample) text += pattern_text(report, *routing->counterexample, report.simulated_as_routed);
  }
  if (check.bisection)
    text += fmt::format("bisection bandwidth: {}{}, one direction\n", check.bisection_exact ? "" : "at most ",
                        show(*check.bisection));
  else if (check.nonblocking == Nonblocking::no && !check.is_unfinished)
    text += fmt::format("bisection bandwidth: none is stated, because switches do not join all {}s\n", check.ends);
  if (check.diameter_hops && check.diameter_latency)
    text += fmt::format("diameter: {} links and {} between {}s\n", *check.diameter_hops,
                        latency_text(*check.diameter_latency), check.ends);
  if (!check.oversubscription.empty()) {
    TextTable table{"level", ">groups", ">HCAs", ">configured", ">attached", ">of HCAs"};
    for (const LevelOversubscription& level : check.oversubscription)
      table.rows.push_back({level.name, fmt::to_string(level.groups), fmt::to_string(level.hcas),
                            level.configured > 0 ? fmt::format("{:.4g}", level.configured) : "-",
                            fmt::format("{:.4g}", level.attached), fmt::format("{:.4g}", level.of_hcas)});
    text += "oversubscription of the fullest group (rate from below over rate up):\n" + table.text("  ");
  }
  return text + lanes_text(report.lanes) + hosts_text(report.hosts);
}

ordered_json counterexample_json(const FabricReport& report, const std::optional<BlockedPattern>& pattern,
                                 double simulated) {
  if (!pattern) return nullptr;
  ordered_json pairs = ordered_json::array();
  for (const HcaPair& pair : pattern->pairs) pairs.push_back({report.device(pair.from), report.device(pair.to)});
  return {
      {"pairs", pairs}, {"link", pattern->link}, {"slowdown", simulated}, {"predicted_slowdown", pattern->slowdown}};
}

ordered_json answer_json(Nonblocking answer) {
  if (answer == Nonblocking::unknown) return "unknown";
  return answer == Nonblocking::yes;
}

ordered_json routing_json(const FabricReport& report) {
  if (!report.check.routing) return nullptr;
  const RoutingCheck& routing = *report.check.routing;
  return {{"how", routing.rule},
          {"nonblocking", answer_json(routing.nonblocking)},
          {"reason", routing.reason},
          {"counterexample", counterexample_json(report, routing.counterexample, report.simulated_as_routed)}};
}

ordered_json check_json(const FabricReport& report) {
  const FabricCheck& check = report.check;
  ordered_json all;
  all["nonblocking"] = answer_json(check.nonblocking);
  all["reason"] = check.reason;
  if (check.is_unfinished) all["unfinished"] = true;
  all["routing"] = routing_json(report);
  all["bisection_Bps"] = nullptr;
  if (check.bisection) all["bisection_Bps"] = check.bisection->value;
  all["bisection_exact"] = check.bisection && check.bisection_exact;
  all["oversubscription"] = ordered_json::array();
  for (const LevelOversubscription& level : check.oversubscription) {
    ordered_json entry{{"level", level.name}, {"groups", level.groups}, {"hcas", level.hcas}, {"configured", nullptr}};
    if (level.configured > 0) entry["configured"] = level.configured;
    entry["attached"] = level.attached;
    entry["of_hcas"] = level.of_hcas;
    all["oversubscription"].push_back(entry);
  }
  all["diameter_hops"] = nullptr;
  if (check.diameter_hops) all["diameter_hops"] = *check.diameter_hops;
  all["diameter_latency_s"] = nullptr;
  if (check.diameter_latency) all["diameter_latency_s"] = check.diameter_latency->seconds().value;
  all["counterexample"] = counterexample_json(report, check.counterexample, report.simulated);
  all["lanes"] = ordered_json::array();
  for (const SocketLanes& s : report.lanes)
    all["lanes"].push_back({{"socket", s.socket}, {"used", s.used}, {"available", s.available}});
  all["hosts"] = ordered_json::array();
  for (const DeclaredHost& host : report.hosts) {
    ordered_json versions = ordered_json::object();
    for (const auto& [name, version] : host.versions) versions[name] = version;
    all["hosts"].push_back({{"name", host.name}, {"open_ports", host.open_ports}, {"versions", versions}});
  }
  return all;
}

int topo_check(const std::vector<std::string>& words) {
  Arguments arguments(
      "topo check",
      "Checks whether the fabric is nonblocking (with proof or counterexample), and shows its bisection bandwidth, "
      "oversubscription and diameter, and the PCIe lanes of the nodes. Nonblocking with ideal splitting: the fabric "
      "carries every permutation, and every matrix in which no NIC (or chip) sends or receives more than its rate, at "
      "full rate if messages may be split over all paths. Nonblocking as routed: the same if each pair keeps one path "
      "(hashed ECMP, torus, dragonfly, arbitrary links).\n\n"
      "--json: nonblocking (true, false, \"unknown\": with ideal splitting), reason, bisection_Bps (one direction), "
      "bisection_exact (false: at most), oversubscription (a list, by level; empty if there are no levels), "
      "diameter_hops, diameter_latency_s, counterexample (pairs, link, slowdown; null: none, or see routing), routing "
      "(null, or how, nonblocking, reason, counterexample), lanes, hosts (as the cluster's preflight declares them; an "
      "error if a training could not start on them).",
      "topo check scenarios/gpt2-xl-ddp-dgx-a100.yaml\n"
      "  trainyard topo check dgx-h100 --nodes 64 --fabric rail-optimized\n"
      "  trainyard topo check dgx-a100 --nodes 16 --fabric '{type: torus, dims: [4, 4], switch_latency: 100 ns}' "
      "--json -");
  TopoMachineArguments machine_arguments;
  std::string json;
  machine_arguments.add_to(arguments);
  arguments.output("--json", json, "write the report as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  watch_interrupts();
  const FabricReport report = check_machine(machine_arguments.read("topo check"));
  write_json(json, check_json(report));
  if (json != "-") write_atomically("-", check_text(report));
  if (!report.check.is_unfinished) return kGood;
  complain("interrupted: the report is unfinished");
  return kInterrupted;
}

const RegisterTopoVerb registered_topo_check{
    "check", "check whether the fabric is nonblocking; show bisection bandwidth, oversubscription, diameter, lanes",
    topo_check};

std::vector<FieldRow> check_json_rows() {
  return {{"nonblocking", "true|false", "the fabric is nonblocking with ideal splitting; \"unknown\": not decided", ""},
          {"reason", "text", "proof or cause in words", ""},
          {"unfinished", "true|false", "a signal ended the check", "if a signal ended the check"},
          {"routing", "object",
           "whether it is nonblocking if each pair keeps one path; null: the fabric has no such rule", ""},
          {"routing.how", "text", "rule by which a pair gets its path", "if there is such a rule"},
          {"routing.nonblocking", "true|false", "the fabric is nonblocking as routed; \"unknown\": not decided",
           "if there is such a rule"},
          {"routing.reason", "text", "proof or cause in words", "if there is such a rule"},
          {"routing.counterexample", "object", "pairs that slow each other as routed, as in counterexample; null: none",
           "if there is such a rule"},
          {"routing.counterexample.pairs", "[[text]]", "sender and receiver of each pair", "if a pattern is found"},
          {"routing.counterexample.link", "text", "link that the pairs share", "if a pattern is found"},
          {"routing.counterexample.slowdown", "number", "simulated time over that of one pair alone",
           "if a pattern is found"},
          {"routing.counterexample.predicted_slowdown", "number", "time over that of one pair alone by the check",
           "if a pattern is found"},
          {"bisection_Bps", "B/s", "bisection bandwidth in one direction; null: none is stated", ""},
          {"bisection_exact", "true|false", "false: bisection_Bps is an upper bound", ""},
          {"oversubscription", "list", "levels of the fabric", ""},
          {"oversubscription[].level", "text", "name of the level", ""},
          {"oversubscription[].groups", "number", "number of groups of the level", ""},
          {"oversubscription[].hcas", "number", "number of HCAs below the fullest group", ""},
          {"oversubscription[].configured", "number",
           "rate from below over rate up, as configured; null: not configured", ""},
          {"oversubscription[].attached", "number", "rate of attached links over rate up", ""},
          {"oversubscription[].of_hcas", "number", "rate of HCAs over rate up", ""},
          {"diameter_hops", "number", "links on the longest of the shortest paths; null: no fabric", ""},
          {"diameter_latency_s", "s", "latency of that path; null: no fabric", ""},
          {"counterexample", "object", "pairs that slow each other with ideal splitting; null: none", ""},
          {"counterexample.pairs", "[[text]]", "sender and receiver of each pair", "if a pattern is found"},
          {"counterexample.link", "text", "link or links that the pairs share", "if a pattern is found"},
          {"counterexample.slowdown", "number", "simulated time over that of one pair alone", "if a pattern is found"},
          {"counterexample.predicted_slowdown", "number", "time over that of one pair alone by the check",
           "if a pattern is found"},
          {"lanes", "list", "PCIe lanes of the sockets of a node", ""},
          {"lanes[].socket", "number", "number of the socket", ""},
          {"lanes[].used", "number", "lanes that devices use", ""},
          {"lanes[].available", "number", "lanes that the CPU has", ""},
          {"hosts", "list", "hosts that cluster.preflight declares", ""},
          {"hosts[].name", "text", "name of the host", ""},
          {"hosts[].open_ports", "[text]", "ports that are open", ""},
          {"hosts[].versions", "{key: text}", "version of each program", ""}};
}
const RegisterJsonReference check_json_reference{"topo check", "what the fabric of a machine can carry",
                                                 check_json_rows};

}  // namespace
}  // namespace trainyard
