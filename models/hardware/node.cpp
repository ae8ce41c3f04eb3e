#include "models/hardware/node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "models/hardware/node_parts.hpp"
#include "models/hardware/node_wiring.hpp"

namespace trainyard {
namespace {

constexpr std::array<std::string_view, 7> kHcaFigures{"rate",         "efficiency", "latency", "transport",
                                                      "nccl_network", "sharp",      "power"};
constexpr std::array<std::string_view, 5> kStorageFigures{"read", "write", "latency", "lanes", "capacity"};
// Devices of one server. A larger count is surely a mistake, and products of counts could overflow.
constexpr std::int64_t kMostDevices = 1024;

// Copies of a message by the CPU on each side. TCP: between user space and the kernel, and between the kernel and the
// adapter. TensorFlow's collectives over gRPC make three more. The sender copies the tensor into strings, packs them
// into a response and writes this into gRPC's buffers; the receiver parses these, unpacks the strings and copies them
// into its tensor (tensorflow/core/distributed_runtime/rpc/grpc_worker_service.cc, SetTensorInRecvBufResp, and
// collective_rma_distributed.cc, PopulateTensorFromExtra).
constexpr std::int64_t kTcpCopies = 2, kGrpcCopies = kTcpCopies + 3;

int count(Fields& fields, Key key) { return fields.integer_within<int>(key, 1, kMostDevices); }

/// Returns the type in `gpu: {count, type, …}` with the other keys laid on it. `node.gpu.memory_capacity` can therefore
/// be set as well as `node.gpu.type.memory_capacity`.
Node gpu_reference(const Node& gpu, const Node& type) {
  Node changes = gpu;
  std::erase_if(changes.fields, [](const auto& f) { return f.first == "count" || f.first == "type"; });
  return changes.fields.empty() ? type : merge_nodes(type, changes);
}

void read_gpus(NodeType& node, const Node& gpu, Fields& fields, const Catalog& catalog) {
  node.gpus = count(fields, {"count", "Number of devices."});
  const Node& type = fields.required_child(
      {"type", "Type of the devices: a name, a file, or a map on {base: NAME} (trainyard list gpus)."});
  node.gpu = read_gpu(catalog.resolve("gpu", gpu_reference(gpu, type)));
}

/// Reads the HCA of each GPU. The result is empty if the node does not state it.
std::vector<int> read_hca_of_gpu(const NodeType& node, Fields& fields) {
  std::vector<int> hcas;
  const Node* list = fields.child_unless_null({"of_gpu", "Adapter of each device, for example [0, 0, 1, 1]."});
  if (!list) return hcas;
  if (list->kind != Node::Kind::list || list->items.size() != static_cast<std::size_t>(node.gpus))
    fail(list->place,
         fmt::format("{}: expected a list of {} HCAs, one for each GPU", fields.path("of_gpu"), node.gpus));
  for (const Node& item : list->items)
    hcas.push_back(static_cast<int>(whole_number(item, fields.path("of_gpu"), 0, node.hcas - 1)));
  return hcas;
}

void read_hcas(NodeType& node, const Node& entry, Fields& fields, const Catalog& catalog) {
  node.hcas = count(fields, {"count", "Number of network adapters."});
  Hca hca;
  if (fields.has({"type", "Adapter in the catalog, with rate, latency, transport and power (trainyard list hcas)."})) {
    hca = read_hca(catalog.resolve_typed("hca", entry, kHcaFigures));
    for (const std::string_view figure : kHcaFigures) fields.child(figure);
    node.part_sources.insert(node.part_sources.end(), hca.sources.begin(), hca.sources.end());
  } else {
    read_hca_figures(hca, fields);
  }
  node.hca_efficiency = hca.efficiency;
  node.hca_rate = hca.rate * hca.efficiency;
  node.hca_latency = hca.latency;
  node.network.tcp = hca.tcp;
  node.network.grpc = hca.grpc;
  node.network.nccl_network = hca.nccl_network;
  node.network.sharp = hca.sharp && !hca.tcp && (hca.nccl_network.empty() || hca.nccl_network == "infiniband");
  node.hca_power = hca.power;
  node.network.gpudirect = fields.boolean(
      {"gpudirect", "Whether adapters read device memory; false: data pass through host memory."}, !node.network.tcp);
  if (node.network.tcp && node.network.gpudirect)
    fields.refuse("gpudirect", fmt::format("not with transport {}, whose data are copied by the CPU",
                                           node.network.grpc ? "grpc" : "tcp"));
  constexpr std::int64_t most_copies = 8;
  const std::int64_t copies =
      fields.integer({"copies", "Copies of each message by the CPU on each side, with transport tcp (2) or grpc (5)."},
                     0, node.network.grpc ? kGrpcCopies : kTcpCopies);
  if (copies > most_copies || (fields.has("copies") && !node.network.tcp))
    fields.refuse("copies", fmt::format("with transport tcp, 0 to {}", most_copies));
  node.network.copies = static_cast<int>(copies);
  node.network.loss = read_frame_loss(fields, node.network.tcp, node.network.nccl_network);
  node.network.half_duplex = read_half_duplex(fields);
  node.network.hca_of_gpu = read_hca_of_gpu(node, fields);
}

void read_sizes(NcclRatios::Sizes& sizes, Key key, Fields& fields) {
  fields.read_map(key, [&sizes](Fields& range) {
    sizes.least = range.bytes({"least", "Smallest of them, for example 8 B."});
    sizes.most = range.bytes({"most", "Largest of them, for example 8 GiB."});
    if (sizes.most < sizes.least) range.refuse("most", fmt::format("{} is less than least", show(sizes.most)));
  });
}

void read_nccl_ratios(NcclRatios& ratios, Fields& fields) {
  constexpr double least = 0.05, most = 20;
  fields.read({"startup", "Ratio of NCCL's start-ups in a node to those of the catalog (trainyard anchor)."},
              ratios.startup, least, most);
  fields.read({"rate", "Ratio of the rates that NCCL reaches in a node to those of the catalog (trainyard anchor)."},
              ratios.rate, least, most);
  fields.read(
      {"network_startup", "Ratio of NCCL's start-ups between nodes to those of the catalog (trainyard anchor)."},
      ratios.network_startup, least, most);
  fields.read({"network_rate",
               "Ratio of the rates that NCCL reaches between nodes to those of the catalog, "
               "for example 0.9 (trainyard anchor)."},
              ratios.network_rate, least, most);
  read_sizes(ratios.measured,
             {"measured",
              "Sizes of the collectives in a node that trainyard anchor fitted the ratios to, so that intervals of "
              "such sizes are narrower: a map, for example {least: 8 B, most: 8 GiB}."},
             fields);
  read_sizes(ratios.network_measured,
             {"network_measured", "Such sizes of collectives between nodes, for example {least: 8 B, most: 8 GiB}."},
             fields);
}

void read_nvmes(NodeType& node, const Node& entry, Fields& fields, const Catalog& catalog) {
  node.nvme.count = count(fields, {"count", "Number of NVMe drives."});
  if (fields.has({"type", "Drive in the catalog (trainyard list storages)."})) {
    const Storage type = read_storage(catalog.resolve_typed("storage", entry, kStorageFigures));
    for (const std::string_view figure : kStorageFigures) fields.child(figure);
    if (type.lanes == 0) fields.refuse("type", fmt::format("{} is no drive on PCIe", type.name));
    node.nvme = {node.nvme.count, type.read, type.write, type.latency, type.lanes, type.capacity};
    node.part_sources.insert(node.part_sources.end(), type.sources.begin(), type.sources.end());
    return;
  }
  node.nvme.read = fields.bandwidth({"read", "Rate of reads from a drive."});
  node.nvme.write = fields.bandwidth({"write", "Rate of writes to a drive."}, node.nvme.read);
  node.nvme.latency = read_latency(fields, {"latency", "Latency of an access to a drive."});
  node.nvme.lanes = read_lanes(fields, {"lanes", "PCIe lanes of a drive: 1, 2, 4, 8 or 16."}, node.nvme.lanes);
  node.nvme.capacity = fields.bytes({"capacity", "Capacity of a drive; 0: not stated."}, Bytes{0});
}

void read_host(NodeType& node, Fields& fields, const Catalog& catalog) {
  if (const Node* cpu = fields.child_unless_null(
          {"cpu",
           "CPU in each socket: a name, a file, or a map on {base: NAME} (trainyard list cpus). thread_speed: speed of "
           "the thread that launches kernels, as a multiple of a Xeon Platinum 8480+, for example 0.65; default 1."}))
    node.cpu = read_cpu(catalog.resolve("cpu", *cpu));
  node.host_memory = fields.bytes({"host_memory", "Host memory of the node; 0: not stated."}, Bytes{0});
  fields.read_map("nvme", [&](Fields& nvme) { read_nvmes(node, *fields.child("nvme"), nvme, catalog); });
  fields.read(
      {"staging_chunk", "Size of a staging buffer in host memory: larger messages are pipelined in such chunks."},
      node.staging_chunk);
  node.fabric =
      fields.text({"fabric", "Fabric between such nodes if the cluster names none (trainyard list fabrics)."}, "");
  node.gpu_speed = fields.number({"gpu_speed", "Compute speed of the devices relative to their type."}, 1e-3, 1e3, 1.0);
  node.rest_power =
      read_power(fields, "Power of all but devices, CPUs and HCAs: memory, NVSwitches, drives, fans, losses.",
                 "The same power without work.");
  constexpr std::int64_t most_units = 1000;  // a node may fill several racks
  node.rack_units =
      static_cast<int>(fields.integer({"rack_units", "Height of the node in units of a rack."}, 0, std::int64_t{0}));
  if (node.rack_units > most_units) fields.refuse("rack_units", "more than all racks of any node");
  // Only limits and rents of a site need it, which take it from the entry (`provided_power`).
  fields.power({"rated_power", "Most power of the whole node as its maker rates it, which a site provides."}, Watts{0});
}

/// Removes the figures of a part that its `type` lists with their sources.
void erase_typed_figures(Node& node, std::string_view part, std::span<const std::string_view> figures) {
  Node* typed = node.find(part);
  const Node* type = typed ? typed->find("type") : nullptr;
  if (!type || type->kind == Node::Kind::null) return;
  std::erase_if(typed->fields, [&figures](const auto& field) {
    return field.first == "type" || std::ranges::find(figures, field.first) != figures.end();
  });
}

/// Returns the sources of the node's own figures, then those of its GPU, its CPU and its typed parts. Each figure is
/// listed once.
Sources all_sources(const Node& entry, const NodeType& node, const std::string& what) {
  Node node_figures = entry;
  if (Node* gpu = node_figures.find("gpu"))
    std::erase_if(gpu->fields, [](const auto& field) { return field.first != "count"; });
  std::erase_if(node_figures.fields, [](const auto& field) { return field.first == "cpu"; });
  erase_typed_figures(node_figures, "hca", kHcaFigures);
  erase_typed_figures(node_figures, "nvme", kStorageFigures);
  Sources sources = figure_sources(node_figures, what);
  for (const Sources* more : {&node.gpu.sources, &node.cpu.sources, &node.part_sources})
    sources.insert(sources.end(), more->begin(), more->end());
  return sources;
}

/// Returns the keys that every node must have, and those that its other keys make necessary.
std::vector<std::string> required_keys(const Node& entry) {
  std::vector<std::string> keys{"gpu.count", "gpu.type", "interconnect"};
  const Node* interconnect = entry.find("interconnect");
  const std::string joined = interconnect ? interconnect->scalar : "";
  if (joined == "graph") keys.emplace_back("wires");
  if (joined != "graph") keys.emplace_back("pcie.latency");
  if (joined == "nvswitch" || joined == "nvlink-mesh") keys.emplace_back("nvlink.latency");
  if (joined == "nvlink-mesh") keys.insert(keys.end(), {"nvlink.link_rate", "nvlink.mesh"});
  for (const char* part : {"hca", "nvme"}) {
    const Node* map = entry.find(part);
    if (!map || map->kind != Node::Kind::map) continue;
    keys.push_back(std::string(part) + ".count");
    if (const Node* type = map->find("type"); type && type->kind != Node::Kind::null) continue;
    keys.push_back(std::string(part) + (std::string_view(part) == "hca" ? ".rate" : ".read"));
    keys.push_back(std::string(part) + ".latency");
  }
  return keys;
}

}  // namespace

NodeType read_node(const Node& entry, const Catalog& catalog) {
  Fields fields(entry, entry_title("node", entry));
  NodeType node;
  node.name = read_entry_name(fields, "node");
  fields.require_all(required_keys(entry));
  const Node& gpu = fields.required_child("gpu");
  Fields gpu_fields(gpu, fields.path("gpu"));  // its other keys are read as those of the GPU's entry
  read_gpus(node, gpu, gpu_fields, catalog);
  node.interconnect = fields.text({"interconnect", "Links between the devices (trainyard list interconnects)."});
  fields.read_map("hca", [&](Fields& hca) { read_hcas(node, *fields.child("hca"), hca, catalog); });
  const Node* stated_ratios = fields.child_unless_null("nccl");
  const Node no_ratios = Node::empty_map();  // is read too, so that the keys are listed for entries without it
  Fields ratios(stated_ratios ? *stated_ratios : no_ratios, fields.path("nccl"));
  read_nccl_ratios(node.nccl, ratios);
  ratios.finish();
  read_host(node, fields, catalog);
  read_links(node, fields);
  fields.finish();
  node.sources = all_sources(entry, node, fields.what());
  return node;
}

NodeType::NodeType(const NodeType&) = default;
NodeType::NodeType(NodeType&&) noexcept = default;
NodeType& NodeType::operator=(const NodeType&) = default;
NodeType& NodeType::operator=(NodeType&&) noexcept = default;
NodeType::~NodeType() = default;

}  // namespace trainyard
