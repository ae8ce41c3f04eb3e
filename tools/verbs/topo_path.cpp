#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "scenarios/src/answer/json_fields.hpp"
#include "tools/reports/table.hpp"
#include "tools/verbs/topo.hpp"
#include "tools/verbs/topo_machine.hpp"
#include "tools/verbs/verbs.hpp"
#include "topologies/device_noun.hpp"
#include "topologies/drawings/topology_text.hpp"

namespace trainyard {
namespace {

using nlohmann::ordered_json;

const std::map<std::string, PathClass> kPathClasses{{"", PathClass::automatic},
                                                    {"nvlink", PathClass::nvlink},
                                                    {"pcie", PathClass::pcie},
                                                    {"network", PathClass::network}};

std::string locality_in_words(const std::string& locality) {
  if (locality == "NV") return "NVLink";
  if (locality == "PIX") return "PIX: one PCIe switch";
  if (locality == "PXB") return "PXB: several PCIe switches";
  if (locality == "PHB") return "PHB: through the CPU";
  if (locality == "SYS") return "SYS: through more than one socket";
  if (locality == "ICI") return "ICI: links of the chips themselves";
  return "NET: between nodes";
}

struct PathAnswer {
  std::string from, to;
  DevicePath path;
  Picoseconds software;  ///< the software's part of the latency
};

PathAnswer answer_of(const TopoMachine& machine, const std::string& a, const std::string& b, PathClass path) {
  DeviceGraph graph = build_cluster(machine.cluster);
  Routing routing(graph, machine.cluster);
  const DeviceId from = find_device(graph, a), to = find_device(graph, b);
  const Device &start = graph.devices()[from], &end = graph.devices()[to];
  if (from == to) throw UserError(fmt::format("{} to itself: there is no path", start.name));
  const Path route = routing.path(from, to, path);
  if (!route.reachable) throw UserError(fmt::format("no such path leads from {} to {}", start.name, end.name));
  PathAnswer answer{start.name, end.name, path_of(graph, route), {}};
  const auto works = [](const Device& d) { return d.kind == DeviceKind::gpu || d.kind == DeviceKind::cpu; };
  if (works(start) && works(end) && start.node != end.node && route.locality == "NET")
    answer.software = to_picoseconds(machine.network_step);
  answer.path.latency += answer.software;
  return answer;
}

std::string path_text(const TopoMachine& machine, const PathAnswer& answer) {
  const DevicePath& path = answer.path;
  const bool legs = path.chunk.value > 0;
  TextTable table{"from", "to", "link", ">rate", ">latency"};
  if (legs) table.add_column("leg", false);
  for (const PathHop& hop : path.hops) {
    table.rows.push_back(
        {hop.from, hop.to, in_words_of(machine.cluster, hop.kind), show(hop.rate), latency_text(hop.latency)});
    if (legs) table.rows.back().push_back(hop.leg);
  }
  std::string text =
      fmt::format("{} to {} of {} ({}{}{})\n{}", answer.from, answer.to, machine.name, locality_in_words(path.locality),
                  path.means.empty() ? "" : ", ", path.means, table.text("  "));
  text += fmt::format("at most {}, the rate of {} ({}); latency {}", show(path.rate), path.limit_kind, path.limit,
                      latency_text(path.latency));
  if (answer.software.count > 0) text += fmt::format(", of which software {}", latency_text(answer.software));
  if (legs) text += fmt::format("\nmessages up to {} go leg by leg, larger ones in such chunks", show(path.chunk));
  return text + "\n";
}

JsonFields<PathAnswer> path_fields() {
  const auto hop =
      JsonFields<PathHop>()
          .value("from", "", &PathHop::from, "device at which the hop begins")
          .value("to", "", &PathHop::to, "device at which the hop ends")
          .value("kind", "", &PathHop::kind, "kind of link")
          .value("rate_Bps", "B/s", &PathHop::rate, "rate of the link, per direction")
          .value(
              "latency_s", "s", [](const PathHop& h) { return h.latency.seconds(); }, "latency of the link")
          .value("leg", "", &PathHop::leg, "number of the leg, in a path with memory on its way");
  using A = PathAnswer;
  using P = DevicePath;
  return JsonFields<A>()
      .value("from", "", &A::from, "device at which the path begins")
      .value("to", "", &A::to, "device at which the path ends")
      .inlined(&A::path,
               JsonFields<P>()
                   .value("locality", "", &P::locality, "locality in the words of nvidia-smi topo -m, or NET, ICI")
                   .list("hops", &P::hops, hop, "links of the path, in order")
                   .value("how", "", &P::means, "how the message is sent, such as RDMA")
                   .value("chunk_bytes", "bytes", &P::chunk,
                          "size of the pieces in which buffers pass the message on; 0: no such buffers")
                   .value("limit", "", &P::limit, "link that limits the rate")
                   .value("limit_kind", "", &P::limit_kind, "kind of that link")
                   .value("rate_Bps", "B/s", &P::rate, "rate of a long message"))
      .value(
          "latency_s", "s", [](const A& a) { return a.path.latency.seconds(); }, "latency of links and software")
      .value(
          "software_latency_s", "s", [](const A& a) { return a.software.seconds(); },
          "latency of the software on the path");
}

const RegisterJsonReference topo_path_json{"topo path", "the path between two devices", path_fields};

int topo_path(const std::vector<std::string>& words) {
  Arguments arguments(
      "topo path", "Shows how a message goes from one device to another: its hops, its slowest link, rate and latency.",
      "topo path dgx-1v gpu0 gpu5\n  trainyard topo path scenarios/gpt2-xl-ddp-dgx-a100.yaml 0 8");
  TopoMachineArguments machine_arguments;
  std::string a, b, path, json;
  machine_arguments.add_to(arguments);
  arguments.positional("A", a, "device, for example node0/gpu3, hca0 (of node0) or a rank");
  arguments.positional("B", b, "device");
  arguments.choice("--path", path, {"nvlink", "pcie", "network"}, "CLASS",
                   "use only links of this class: nvlink, pcie or network (all but NVLink)");
  arguments.output("--json", json, "write the path as JSON; - is stdout");
  if (!arguments.parse(words)) return kGood;
  const TopoMachine machine = machine_arguments.read("topo path");
  const PathAnswer answer = answer_of(machine, a, b, kPathClasses.at(path));
  write_json(json, path_fields().json(answer));
  if (json != "-") write_atomically("-", in_words_of(machine.cluster, path_text(machine, answer)));
  return kGood;
}

const RegisterTopoVerb registered_topo_path{
    "path", "show the hops between two devices, the slowest link, rate and latency", topo_path};

}  // namespace
}  // namespace trainyard
