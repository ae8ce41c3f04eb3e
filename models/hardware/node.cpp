#include "models/hardware/node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

#include "models/hardware/hca.hpp"
#include "models/hardware/node_wiring.hpp"
#include "models/hardware/storage.hpp"

namespace trainyard {
namespace {

constexpr std::array<std::string_view, 6> kHcaFigures{"rate",      "efficiency",   "latency",
                                                      "transport", "nccl_network", "power"};
constexpr std::array<std::string_view, 5> kStorageFigures{"read", "write", "latency", "lanes", "capacity"};
// Devices of one server. A larger count is surely a mistake, and products of counts could overflow.
constexpr std::int64_t kMostDevices = 1024;

// Copies of a message by the CPU on each side. TCP: between user space and the kernel, and between the kernel and the
// adapter. TensorFlow's collectives over gRPC make three more. The sender copies the tensor into strings, packs them
// into a response and writes this into gRPC's buffers; the receiver parses these, unpacks the strings and copies them
// into its tensor (tensorflow/core/distributed_runtime/rpc/grpc_worker_service.cc, SetTensorInRecvBufResp, and
// collective_rma_distributed.cc, PopulateTensorFromExtra).
constexpr std::int64_t kTcpCopies = 2, kGrpcCopies = kTcpCopies + 3;

int count(Fields& fields, std::string_view key) { return fields.integer_within<int>(key, 1, kMostDevices); }

/// Returns the type in `gpu: {count, type, …}` with the other keys laid on it. `node.gpu.memory_capacity` can therefore
/// be set as well as `node.gpu.type.memory_capacity`.
Node gpu_reference(const Node& gpu, const Node& type) {
  Node changes = gpu;
  std::erase_if(changes.fields, [](const auto& f) { return f.first == "count" || f.first == "type"; });
  return changes.fields.empty() ? type : merge_nodes(type, changes);
}

void read_gpus(NodeType& node, const Node& gpu, const std::string& what, const Catalog& catalog) {
  Fields fields(gpu, what + ": gpu");
  node.gpus = count(fields, "count");
  const Node& type = fields.required_child("type");
  node.gpu = read_gpu(catalog.resolve("gpu", gpu_reference(gpu, type)));
}

/// Reads the HCA of each GPU. The result is empty if the node does not state it.
std::vector<int> read_hca_of_gpu(const NodeType& node, Fields& fields) {
  std::vector<int> hcas;
  const Node* list = fields.child("of_gpu");
  if (!list || list->kind == Node::Kind::null) return hcas;
  if (list->kind != Node::Kind::list || list->items.size() != static_cast<std::size_t>(node.gpus))
    fail(list->place, fmt::format("{}.of_gpu: expected a list of {} HCAs, one for each GPU", fields.what(), node.gpus));
  for (const Node& item : list->items)
    hcas.push_back(static_cast<int>(whole_number(item, fields.what() + ".of_gpu", 0, node.hcas - 1)));
  return hcas;
}

/// Do the figures of the part come from a catalog entry, that is, does it name a `type`?
bool has_type(Fields& fields) {
  const Node* type = fields.child("type");
  return type && type->kind != Node::Kind::null;
}

void read_hcas(NodeType& node, const Node& hca, const std::string& what, const Catalog& catalog) {
  Fields fields(hca, what + ": hca");
  node.hcas = count(fields, "count");
  if (has_type(fields)) {
    const Hca type = read_hca(catalog.resolve_typed("hca", hca, kHcaFigures));
    for (const std::string_view figure : kHcaFigures) fields.child(figure);
    node.hca_efficiency = type.efficiency;
    node.hca_rate = type.rate * type.efficiency;
    node.hca_latency = type.latency;
    node.network.tcp = type.tcp;
    node.network.grpc = type.grpc;
    node.network.nccl_network = type.nccl_network;
    node.hca_power = type.power;
    node.part_sources.insert(node.part_sources.end(), type.sources.begin(), type.sources.end());
  } else {
    node.hca_efficiency = read_hca_efficiency(fields);
    node.hca_rate = fields.bandwidth("rate") * node.hca_efficiency;
    node.hca_latency = read_latency(fields, "latency");
    const std::string transport = fields.choice("transport", transport_names(), "rdma");
    node.network.grpc = transport == "grpc";
    node.network.tcp = node.network.grpc || transport == "tcp";
    node.network.nccl_network = fields.text("nccl_network", "");
    node.hca_power = read_power(fields, fields.what());
  }
  node.network.gpudirect = fields.boolean("gpudirect", !node.network.tcp);
  if (node.network.tcp && node.network.gpudirect)
    fields.refuse("gpudirect", fmt::format("not with transport {}, whose data are copied by the CPU",
                                           node.network.grpc ? "grpc" : "tcp"));
  constexpr std::int64_t most_copies = 8;
  const std::int64_t copies = fields.integer("copies", 0, node.network.grpc ? kGrpcCopies : kTcpCopies);
  if (copies > most_copies || (fields.has("copies") && !node.network.tcp))
    fields.refuse("copies", fmt::format("with transport tcp, 0 to {}", most_copies));
  node.network.copies = static_cast<int>(copies);
  node.network.loss = read_frame_loss(fields, node.network.tcp, node.network.nccl_network);
  node.network.half_duplex = read_half_duplex(fields);
  node.network.hca_of_gpu = read_hca_of_gpu(node, fields);
  fields.finish();
}

void read_nccl_ratios(NcclRatios& ratios, const Node& node, const std::string& what) {
  constexpr double least = 0.05, most = 20;
  Fields fields(node, what);
  ratios.startup = fields.number("startup", least, most, ratios.startup);
  ratios.rate = fields.number("rate", least, most, ratios.rate);
  ratios.network_startup = fields.number("network_startup", least, most, ratios.network_startup);
  ratios.network_rate = fields.number("network_rate", least, most, ratios.network_rate);
  fields.finish();
}

void read_nvmes(NodeType& node, const Node& entry, const std::string& what, const Catalog& catalog) {
  Fields fields(entry, what + ": nvme");
  node.nvme.count = count(fields, "count");
  if (has_type(fields)) {
    const Storage type = read_storage(catalog.resolve_typed("storage", entry, kStorageFigures));
    for (const std::string_view figure : kStorageFigures) fields.child(figure);
    if (type.lanes == 0) fields.refuse("type", fmt::format("{} is no drive on PCIe", type.name));
    node.nvme = {node.nvme.count, type.read, type.write, type.latency, type.lanes, type.capacity};
    node.part_sources.insert(node.part_sources.end(), type.sources.begin(), type.sources.end());
    fields.finish();
    return;
  }
  node.nvme.read = fields.bandwidth("read");
  node.nvme.write = fields.bandwidth("write", node.nvme.read);
  node.nvme.latency = read_latency(fields, "latency");
  const std::int64_t lanes = fields.integer("lanes", 1, 4);
  if (lanes > kFullWidth || (lanes & (lanes - 1)) != 0)
    fields.refuse("lanes", fmt::format("{} lanes; 1, 2, 4, 8 or 16", lanes));
  node.nvme.lanes = static_cast<int>(lanes);
  node.nvme.capacity = fields.bytes("capacity", Bytes{0});
  fields.finish();
}

void read_host(NodeType& node, Fields& fields, const std::string& what, const Catalog& catalog) {
  if (const Node* cpu = fields.child("cpu"); cpu && cpu->kind != Node::Kind::null)
    node.cpu = read_cpu(catalog.resolve("cpu", *cpu));
  node.host_memory = fields.bytes("host_memory", Bytes{0});
  if (const Node* nvme = fields.child("nvme"); nvme && nvme->kind != Node::Kind::null)
    read_nvmes(node, *nvme, what, catalog);
  node.staging_chunk = fields.bytes("staging_chunk", node.staging_chunk);
  node.fabric = fields.text("fabric", "");
  node.gpu_speed = fields.number("gpu_speed", 1e-3, 1e3, 1.0);
  node.rest_power = read_power(fields, what);
}

/// Removes the figures of a part that its `type` lists with their sources.
void erase_typed_figures(Node& node, std::string_view part, std::span<const std::string_view> figures) {
  Node* typed = node.find(part);
  const Node* type = typed ? typed->find("type") : nullptr;
  if (!type || type->kind == Node::Kind::null) return;
  std::erase_if(typed->fields, [&figures](const auto& field) {
    return field.first == "type" || std::find(figures.begin(), figures.end(), field.first) != figures.end();
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
  const std::string what = entry_title("node", entry, "custom-node");
  Fields fields(entry, what);
  NodeType node;
  node.name = read_entry_name(fields, "custom-node");
  fields.require_all(required_keys(entry));
  read_gpus(node, fields.required_child("gpu"), what, catalog);
  node.interconnect = fields.text("interconnect");
  if (const Node* hca = fields.child("hca"); hca && hca->kind != Node::Kind::null) read_hcas(node, *hca, what, catalog);
  const Node* nccl = fields.child_unless_null("nccl");
  read_nccl_ratios(node.nccl, nccl ? *nccl : Node::empty_map(), what + ": nccl");
  read_host(node, fields, what, catalog);
  read_links(node, fields);
  fields.finish();
  node.sources = all_sources(entry, node, what);
  return node;
}

NodeType::NodeType(const NodeType&) = default;
NodeType::NodeType(NodeType&&) noexcept = default;
NodeType& NodeType::operator=(const NodeType&) = default;
NodeType& NodeType::operator=(NodeType&&) noexcept = default;
NodeType::~NodeType() = default;

}  // namespace trainyard
