#include "topologies/drawings/simgrid_platform.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "models/reading/xml_text.hpp"
#include "topologies/machines/cluster_machine.hpp"

namespace trainyard {
namespace {

/// SimGrid refuses links without a bandwidth; no link of ours comes near this rate.
constexpr double kNeverTheLimit = 1e18;
constexpr const char* kSoftwareLink = "software between nodes";

/// The peak rate of the usual training precision: a platform file has one speed for each host.
double simgrid_speed(const NodeType& type) {
  for (const Precision p : {Precision::bf16, Precision::fp16, Precision::fp32}) {
    const double peak = type.gpu.peak[static_cast<std::size_t>(p)].value;
    if (peak > 0) return peak * type.gpu_speed;
  }
  double most = 0;
  for (const FlopsPerSecond& peak : type.gpu.peak) most = std::max(most, peak.value);
  return most * type.gpu_speed;
}

/// Link ids must be unique, but parallel links have the same name.
std::vector<std::string> simgrid_link_ids(std::span<const Link> links) {
  std::vector<std::string> ids;
  std::map<std::string, int> uses_of_name;
  for (const Link& link : links) {
    const int before = uses_of_name[link.name]++;
    ids.push_back(xml_escaped(before == 0 ? link.name.text() : fmt::format("{} ({})", link.name, before + 1)));
  }
  return ids;
}

/// Formats numbers with enough digits to read the same double again.
std::string simgrid_link(const std::string& id, double rate, Seconds latency, const char* policy) {
  return fmt::format("    <link id=\"{}\" bandwidth=\"{}Bps\" latency=\"{}s\" sharing_policy=\"{}\"/>\n", id, rate,
                     latency.value, policy);
}

/// Link name for the time until a long message has filled the buffers on its path.
std::string simgrid_filling(const Route& route) {
  return fmt::format("filling {}", to_picoseconds(route.fill_time()).count);
}

/// Latency of a route beyond that of its wires: the software adds it.
Picoseconds beyond_wires(const DeviceGraph& graph, const Route& route) {
  Picoseconds latency = route.latency;
  for (const LinkUse& use : route.links)
    if (graph.is_wire(use.link))
      latency.count -= static_cast<std::int64_t>(use.weight) * graph.ends(use.link).latency.count;
  return latency;
}

std::string simgrid_route(const ClusterMachine& machine, const std::vector<std::string>& ids, DeviceId from,
                          DeviceId to, int a, int b, std::map<std::string, Seconds>& delays) {
  const std::span<const Device> devices = machine.graph().devices();
  const Device &source = devices[from], &target = devices[to];
  const Route route = machine.route(a, b, PathClass::automatic);
  if (!route.reachable) throw UserError(fmt::format("no path leads from {} to {}", source.name, target.name));
  std::string text = fmt::format("    <route src=\"{}\" dst=\"{}\" symmetrical=\"NO\">", xml_escaped(source.name),
                                 xml_escaped(target.name));
  for (const LinkUse& use : route.links)
    if (use.weight < 1)
      throw UserError(
          fmt::format("{} stripes messages over several HCAs, which a SimGrid platform cannot express", source.name));
  for (const LinkUse& use : route.links)
    for (double i = 0; i < use.weight; ++i) text += fmt::format("<link_ctn id=\"{}\"/>", ids[use.link]);
  const auto wait = [&](const std::string& id, Picoseconds time) {
    delays[id] = time.seconds();
    text += fmt::format("<link_ctn id=\"{}\"/>", id);
  };
  if (const Picoseconds software = beyond_wires(machine.graph(), route); software.count > 0)
    wait(kSoftwareLink, software);
  if (route.legs.size() > 1) wait(simgrid_filling(route), to_picoseconds(route.fill_time()));
  return text + "</route>\n";
}

}  // namespace

std::string simgrid_platform(const ClusterSpec& spec, Seconds network_step) {
  if (spec.gpus() > kMostSimgridGpus)
    throw UserError(
        fmt::format("{} GPUs are too many for a SimGrid platform, which gets a route for each pair; the most is {}",
                    spec.gpus(), kMostSimgridGpus));
  SoftwareStack stack;
  stack.network_step = network_step;
  const ClusterMachine machine(spec, stack);
  const DeviceGraph& graph = machine.graph();
  const std::vector<DeviceId> gpus = graph.devices_of_kind(DeviceKind::gpu);
  const std::vector<std::string> ids = simgrid_link_ids(graph.links());
  std::string text =
      "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
      "<!-- To get transfers that take latency + bytes / rate, run SimGrid with: network/model:CM02\n"
      "     network/TCP-gamma:0 network/crosstraffic:0 network/weight-S:0 network/latency-factor:1\n"
      "     network/bandwidth-factor:1. Transfers that share a link are weighted there by the latency of\n"
      "     their routes, as TCP's are; Trainyard gives them equal shares. If buffers in host\n"
      "     memory forward a message, its time is that of a message longer than a chunk. -->\n"
      "<platform version=\"4.1\">\n";
  text += fmt::format("  <zone id=\"{}\" routing=\"Full\">\n", xml_escaped(spec.node.name));
  for (const DeviceId gpu : gpus)
    text += fmt::format("    <host id=\"{}\" speed=\"{}f\"/>\n", xml_escaped(graph.devices()[gpu].name),
                        simgrid_speed(spec.type_of(graph.devices()[gpu].node)));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto link = static_cast<LinkId>(i);
    const Picoseconds latency = graph.is_wire(link) ? graph.ends(link).latency : Picoseconds{};
    text += simgrid_link(ids[i], graph.links()[i].capacity.value, latency.seconds(), "SHARED");
  }
  std::string routes;
  std::map<std::string, Seconds> delays;
  for (std::size_t a = 0; a < gpus.size(); ++a)
    for (std::size_t b = 0; b < gpus.size(); ++b)
      if (a != b)
        routes += simgrid_route(machine, ids, gpus[a], gpus[b], static_cast<int>(a), static_cast<int>(b), delays);
  for (const auto& [id, latency] : delays) text += simgrid_link(id, kNeverTheLimit, latency, "FATPIPE");
  return text + routes + "  </zone>\n</platform>\n";
}

}  // namespace trainyard
