#include "scenarios/src/running/faster_fields.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/hardware/adapter_rate.hpp"
#include "models/reading/catalog.hpp"
#include "topologies/fabric.hpp"

namespace trainyard {
namespace {

constexpr const char *kCompute = "compute", *kMemory = "memory", *kMeasured = "measured step", *kLatency = "latency",
                     *kFramework = "framework", *kDecoding = "decode";

/// Formats a quantity in a unit, with as few digits as identify it: "31.5 GB/s".
std::string text_of(double value, double unit, const char* name) {
  const double v = value / unit;
  std::string text = fmt::format("{:.12g}", v);
  if (std::abs(std::stod(text) - v) > 1e-15 * v) text = fmt::format("{:.17g}", v);
  return text + " " + name;
}

/// Collects the fields of one resource.
class FasterFields {
 public:
  FasterFields(const Scenario& s, const std::string& resource, double factor)
      : s_(s), resource_(resource), factor_(factor) {
    const std::vector<const NodeType*> types = s.cluster.types();
    const Node* nodes = s.document.find("cluster")->find("nodes");
    const bool list = nodes && nodes->kind == Node::Kind::list;
    for (std::size_t i = 0; i < types.size(); ++i)
      add_node(list ? fmt::format("cluster.nodes.{}", i) : std::string("cluster"), *types[i]);
    if (s.cluster.fabric) add_fabric();
    add_software();
    if (resource == kMeasured) add_measured();
    if (s.input.is_used()) add_input();
    if (resource == kStragglers && !s.slow.stragglers.empty()) sets_.emplace_back("faults.stragglers", "null");
    if (resource == kSlowLinks && !s.slow.links.empty()) sets_.emplace_back("faults.links", "null");
  }

  Overrides sets() && { return std::move(sets_); }

 private:
  const Scenario& s_;
  const std::string& resource_;
  const double factor_;
  Overrides sets_;

  bool is(LinkKind kind) const { return resource_ == name_of(kind); }
  bool is(const char* name) const { return resource_ == name; }

  void rate(const std::string& path, BytesPerSecond value) {
    if (value.value > 0) sets_.emplace_back(path, text_of(value.value * factor_, 1e9, "GB/s"));
  }
  /// Adds a rate in Gbit/s, the unit of networks.
  void network_rate(const std::string& path, BytesPerSecond value) {
    if (value.value > 0) sets_.emplace_back(path, text_of(value.value * factor_, 1e9 / 8, "Gbit/s"));
  }
  void time(const std::string& path, Seconds value) {
    if (value.value > 0) sets_.emplace_back(path, text_of(value.value / factor_, 1e-6, "us"));
  }
  void number(const std::string& path, double value) {
    if (value > 0) sets_.emplace_back(path, fmt::format("{}", value * factor_));
  }

  void add_node(const std::string& path, const NodeType& node) {
    const Gpu& gpu = node.gpu;
    if (is(kCompute))
      for (std::size_t p = 0; p < kPrecisions; ++p)
        if (gpu.peak[p].value > 0)
          sets_.emplace_back(fmt::format("{}.gpu.peak.{}", path, name_of(static_cast<Precision>(p))),
                             text_of(gpu.peak[p].value * factor_, 1e12, "TFLOP/s"));
    if (resource_ == kMemoryCapacity)
      sets_.emplace_back(path + ".gpu.memory_capacity", text_of(gpu.memory_capacity.value * factor_, 1 << 20, "MiB"));
    if (is(kMemory)) rate(path + ".gpu.memory_bandwidth", gpu.memory_bandwidth);
    if (is(LinkKind::nvlink)) {
      rate(path + ".gpu.nvlink", gpu.nvlink);
      rate(path + ".nvlink.link_rate", node.nvlink_rate);
    }
    if (is(LinkKind::ici)) {
      if (gpu.chip_links.count > 0) rate(path + ".gpu.chip_links.rate", gpu.chip_links.rate);
    }
    if (is(LinkKind::pcie)) {
      rate(path + ".pcie.rate", node.pcie_rate);
      rate(path + ".pcie.gpu_rate", node.gpu_pcie_rate);
    }
    if (is(LinkKind::socket)) rate(path + ".socket_link.rate", node.socket_rate);
    if (is(LinkKind::nvme) || (is(LinkKind::storage) && s_.input.supply.store == SampleStore::drives)) {
      rate(path + ".nvme.read", node.nvme.read);
      rate(path + ".nvme.write", node.nvme.write);
    }
    if (is(LinkKind::host_memory)) rate(path + ".cpu.memory_bandwidth", node.cpu.memory_bandwidth);
    if (is(LinkKind::cpu_copies)) rate(path + ".cpu.copy_rate", node.cpu.copy_rate);
    if (is(LinkKind::hca) && node.hcas > 0) network_rate(path + ".hca.rate", node.hca_rate / node.hca_efficiency);
    if (is(kLatency)) add_latencies(path, node);
    if (resource_ == kStorageLatency && s_.input.supply.store == SampleStore::drives)
      time(path + ".nvme.latency", node.nvme.latency.seconds());
    for (std::size_t i = 0; i < node.wires.size(); ++i) {
      const std::string wire = fmt::format("{}.node.wires.{}", path, i);
      if (is(node.wires[i].kind)) rate(wire + ".rate", node.wires[i].rate);
      if (is(kLatency)) time(wire + ".latency", node.wires[i].latency.seconds());
    }
  }

  void add_latencies(const std::string& path, const NodeType& node) {
    time(path + ".nvlink.latency", node.nvlink_latency.seconds());
    time(path + ".pcie.latency", node.pcie_latency.seconds());
    time(path + ".socket_link.latency", node.socket_latency.seconds());
    if (node.hcas > 0) time(path + ".hca.latency", node.hca_latency.seconds());
    if (node.nvme.count > 0 && s_.plan.offload.drives()) time(path + ".nvme.latency", node.nvme.latency.seconds());
  }

  /// Adds the figures that the fabric states itself; others derive from the adapters. Distances stay, because the speed
  /// of light cannot be raised.
  void add_fabric() {
    const std::size_t before = sets_.size();
    const Node *cluster = s_.document.find("cluster"), *named = cluster->find("fabric");
    const std::vector<ClusterSpec> parts = s_.cluster.parts();
    for (const ClusterSpec& part : parts)
      if (part.island > 0)
        add_island(part,
                   Catalog().resolve(
                       "fabric", *cluster->find("nodes")->items[static_cast<std::size_t>(part.island)].find("fabric")));
    const std::string& node_fabric = s_.cluster.node.fabric;
    const Node entry = Catalog().resolve("fabric", named ? *named : Node::scalar_node(node_fabric, s_.document.place));
    if (is(kLatency)) time("cluster.fabric.switch_latency", s_.cluster.switch_latency.seconds());
    add_links("cluster.fabric", parts.front(), entry);
    if (!named && sets_.size() > before)
      sets_.emplace(sets_.begin() + static_cast<std::ptrdiff_t>(before), "cluster.fabric", node_fabric);
  }

  /// Adds the figures of the fabric of an island, and of its cables to the first nodes.
  void add_island(const ClusterSpec& part, const Node& entry) {
    const std::string path = fmt::format("cluster.nodes.{}.", part.island);
    const IslandLinks& links = s_.cluster.others[static_cast<std::size_t>(part.island) - 1].links;
    if (is(LinkKind::uplink)) network_rate(path + "links.rate", links.rate);
    add_links(path + "fabric", part, entry);
    if (!is(kLatency)) return;
    time(path + "links.latency", links.latency.seconds());
    time(path + "fabric.switch_latency", part.switch_latency.seconds());
  }

  /// Adds the rates of the links inside a fabric.
  void add_links(const std::string& path, const ClusterSpec& part, const Node& entry) {
    const Fabric& fabric = *part.fabric;
    const bool is_torus = fabric.type() == "torus" || fabric.type() == "ring";
    if (is(fabric.joins_chips() ? LinkKind::ici : LinkKind::uplink)) {
      BytesPerSecond links = stated_rate(entry, "link_rate");
      if (links.value == 0 && !fabric.joins_chips() &&
          (is_torus || fabric.type() == "dragonfly" || !fabric.levels().empty()))
        links = is_torus ? fastest_node(part) : fastest_port(part);
      network_rate(path + ".link_rate", links);
      network_rate(path + ".global_rate", stated_rate(entry, "global_rate"));
    }
    if (const Node* links = entry.find("links"))
      for (std::size_t i = 0; i < links->items.size(); ++i)
        add_cable(links->items[i], fmt::format("{}.links.{}", path, i));
  }

  /// Returns the rate that a map states; 0: it states none.
  static BytesPerSecond stated_rate(const Node& map, const char* key) {
    const Node* node = map.find(key);
    if (const Node* value = node ? node->find("value") : nullptr) node = value;
    return node && node->kind == Node::Kind::scalar ? parse_bandwidth(node->scalar) : BytesPerSecond{0};
  }

  void add_cable(const Node& cable, const std::string& path) {
    const auto at_hca = [&cable](const char* end) {
      const Node* node = cable.find(end);
      return node && node->scalar.find('/') != std::string::npos;
    };
    if (is(at_hca("from") || at_hca("to") ? LinkKind::hca : LinkKind::uplink))
      network_rate(path + ".rate", stated_rate(cable, "rate"));
    if (const Node* latency = cable.find("latency"); latency && is(kLatency))
      time(path + ".latency", parse_seconds(latency->scalar));
  }

  /// Adds the times of the software. A measured step includes host work, which then has no fields.
  void add_software() {
    if (!is(kFramework)) return;
    const std::size_t before = sets_.size();
    const SoftwareStack& stack = s_.software;
    if (!s_.measured.is_given()) {
      time("software.kernel_dispatch", stack.kernel_dispatch);
      time("software.step_overhead", stack.step_overhead);
      time("software.host.micro_batch", stack.host.micro_batch);
    }
    time("software.collective_launch", stack.collective_launch);
    const bool is_slice_step = s_.cluster.joins_chips() && stack.slice_step;
    time(is_slice_step ? "software.slice_step" : "software.network_step", stack.network_step);
    time("software.cycle_time", stack.cycle_time);
    if (!s_.document.find("software") && sets_.size() > before)
      sets_.emplace(sets_.begin() + static_cast<std::ptrdiff_t>(before), "software", stack.name);
  }

  void add_measured() {
    std::string table;
    for (const MeasuredSteps::Row& row : s_.measured.rows)
      table +=
          fmt::format("{}{}: {}", table.empty() ? "" : ", ", row.batch, text_of(row.time.value / factor_, 1e-3, "ms"));
    sets_.emplace_back("plan.measured_step.table", "{" + table + "}");
  }

  void add_input() {
    const InputSupply& supply = s_.input.supply;
    if (is(LinkKind::storage) && supply.store != SampleStore::drives) {
      rate("input.storage.read", supply.storage.read);
      number("input.storage.iops", supply.storage.iops);
      time("input.storage.seek", supply.storage.seek);
    }
    if (resource_ == kStorageLatency && supply.store != SampleStore::drives)
      time("input.storage.latency", supply.storage.latency.seconds());
    if (resource_ == kReaders) number("input.readers", supply.readers);
    if (!is(kDecoding) || supply.workers == 0) return;
    const Node* decode = s_.document.find("input")->find("decode");
    if (decode->find("time"))
      time("input.decode.time", Seconds{1 / supply.rate});
    else
      number("input.decode.rate", supply.rate);
  }
};

/// Returns true if the scenario uses links of this kind, so that faster ones could help.
bool has_links(const Scenario& s, LinkKind kind) {
  const ClusterSpec& spec = s.cluster;
  const std::vector<const NodeType*> types = spec.types();
  const auto any = [&types](auto has) {
    return std::ranges::any_of(types, [&](const NodeType* type) { return has(*type); });
  };
  const std::vector<LinkKind> joined = spec.fabric ? spec.fabric->link_kinds() : std::vector<LinkKind>{};
  const bool is_joining_islands = kind == LinkKind::uplink && spec.has_islands();
  const bool in_fabric = is_joining_islands || std::ranges::find(joined, kind) != joined.end(),
             several = spec.gpus() > 1;
  const bool offloads = s.plan.offload.copies();
  switch (kind) {
    case LinkKind::nvlink:
      return several && any(has_nvlink);
    case LinkKind::pcie:
      return several || offloads;
    case LinkKind::socket:
      return several && any([](const NodeType& t) { return t.sockets > 1; });
    case LinkKind::nvme:
      return s.plan.offload.drives();
    case LinkKind::host_memory:
      return (several || offloads) && any([](const NodeType& t) { return t.cpu.memory_bandwidth.value > 0; });
    case LinkKind::cpu_copies:
      return spec.nodes > 1 && any([](const NodeType& t) { return t.network.tcp && t.cpu.copy_rate.value > 0; });
    case LinkKind::ici:
      return several && in_fabric;
    case LinkKind::hca:
    case LinkKind::uplink:
      return spec.nodes > 1 && in_fabric;
    case LinkKind::storage:
      return s.input.is_used();
    default:
      return false;
  }
}

}  // namespace

std::vector<std::string> resource_classes(const Scenario& s) {
  std::vector<std::string> classes;
  if (s.measured.is_given())
    classes.emplace_back(kMeasured);
  else
    classes = {kCompute, kMemory};
  std::vector<std::string> sample_classes;
  for (const LinkKind kind : all_link_kinds())
    if (has_links(s, kind)) (kind == LinkKind::storage ? sample_classes : classes).emplace_back(name_of(kind));
  if (s.cluster.gpus() > 1) classes.emplace_back(kLatency);
  classes.emplace_back(kFramework);
  classes.insert(classes.end(), sample_classes.begin(), sample_classes.end());
  for (const std::string& resource : {std::string(kDecoding), kStorageLatency, kReaders, kStragglers, kSlowLinks})
    classes.push_back(resource);
  std::erase_if(classes, [&s](const std::string& resource) { return faster(s, resource, 2).empty(); });
  return classes;
}

Overrides faster(const Scenario& s, const std::string& resource_class, double factor) {
  return FasterFields(s, resource_class, factor).sets();
}

std::vector<Scenario> barely_faster(const Scenario& s) {
  constexpr double kFactor = 1 + 1e-13;
  std::vector<Scenario> all;
  for (const std::string& resource : resource_classes(s))
    if (resource != kReaders && resource != kStragglers && resource != kSlowLinks)
      all.push_back(read_again(s, faster(s, resource, kFactor)));
  return all;
}

std::vector<std::string> as_sets(const Overrides& overrides) {
  std::vector<std::string> sets;
  for (const auto& [path, value] : overrides) sets.push_back(path + "=" + value);
  return sets;
}

std::string what_if_in_words(const std::string& resource_class, double factor) {
  if (resource_class == kLatency) return fmt::format("1/{} of the network latency", factor);
  if (resource_class == kStorageLatency) return fmt::format("1/{} of the storage latency", factor);
  if (resource_class == kReaders) return fmt::format("{}x readers", factor);
  if (resource_class == kFramework) return fmt::format("1/{} of the software overheads", factor);
  if (resource_class == kMeasured) return fmt::format("1/{} of the measured step", factor);
  if (resource_class == kCompute) return fmt::format("{}x GPU FLOP/s", factor);
  if (resource_class == kMemory) return fmt::format("{}x GPU memory bandwidth", factor);
  for (const LinkKind kind : all_link_kinds())
    if (resource_class == name_of(kind)) return fmt::format("{}x {}", factor, words_of(kind).upgraded);
  if (resource_class == kMeshOrder) return "pipelines within sites";
  if (resource_class == kLoopSoftware) return fmt::format("1/{} of the software of the loop", factor);
  if (resource_class == kStragglers) return "no stragglers";
  if (resource_class == kSlowLinks) return "all links at their full rate";
  if (resource_class == kToolCalls) return fmt::format("1/{} of the time of calls of tools", factor);
  if (resource_class == kFirstStaleness) return "a " + kFirstStaleness;
  if (resource_class == kStartedOrder) return "training on answers as they started";
  for (const std::string& change :
       {kMoreGeneratingNodes, kMoreTrainingNodes, kMoreCriticNodes, kMoreNodes, kStaleness, kSandboxes})
    if (resource_class == change) return fmt::format("{}x {}", factor, change);
  return fmt::format("{}x {} rate", factor, resource_class);
}

std::string limit_in_words(const std::string& resource_class) {
  if (resource_class == kStaleness || resource_class == kFirstStaleness) return "the bound on staleness";
  if (resource_class == kMoreGeneratingNodes || resource_class == kMoreTrainingNodes ||
      resource_class == kMoreCriticNodes)
    return "the number of " + resource_class;
  if (resource_class == kSandboxes) return "the number of sandboxes";
  if (resource_class == kReaders) return "the number of readers";
  if (resource_class == kCompute) return "GPU FLOP/s";
  if (resource_class == kMemory) return "GPU memory bandwidth";
  if (resource_class == kLatency) return "network latency";
  if (resource_class == kFramework) return "software overheads";
  if (resource_class == kLoopSoftware) return "the software of the loop";
  return resource_class;
}

}  // namespace trainyard
