#include "models/node.hpp"

#include <fmt/format.h>

namespace trainyard {
namespace {

constexpr std::int64_t kMostDevices = 1024;  // of one server; more is a slip, and counts are multiplied later

int count(Fields& fields, std::string_view key) {
  const std::int64_t v = fields.integer(key, 1);
  if (v > kMostDevices)
    fail(fields.place_of(key),
         fmt::format("{}.{}: {} is too many; the most is {}", fields.what(), key, v, kMostDevices));
  return static_cast<int>(v);
}

/// `gpu: {count, type, …}`: every other key changes a figure of the type, so that `node.gpu.memory_capacity` can be set
/// as well as `node.gpu.type.memory_capacity`.
Node gpu_reference(const Node& gpu, const Node& type) {
  Node changes = gpu;
  std::erase_if(changes.fields, [](const auto& f) { return f.first == "count" || f.first == "type"; });
  return changes.fields.empty() ? type : merged(type, changes);
}

void read_gpus(NodeType& node, const Node& gpu, const std::string& what, const Catalog& catalog) {
  Fields fields(gpu, what + ": gpu");
  node.gpus = count(fields, "count");
  const Node& type = fields.required_child("type");
  node.gpu = read_gpu(catalog.resolve("gpu", gpu_reference(gpu, type)));
}

void read_hcas(NodeType& node, const Node& hca, const std::string& what) {
  Fields fields(hca, what + ": hca");
  node.hcas = count(fields, "count");
  node.hca_rate = fields.bandwidth("rate");
  node.hca_latency = read_latency(fields, "latency");
  fields.finish();
}

/// The node's own figures, then its GPU's (which `gpu.type` would repeat).
Sources all_sources(const Node& entry, const NodeType& node, const std::string& what) {
  Node own = entry;
  if (Node* gpu = own.find("gpu")) std::erase_if(gpu->fields, [](const auto& field) { return field.first != "count"; });
  Sources sources = figure_sources(own, what);
  sources.insert(sources.end(), node.gpu.sources.begin(), node.gpu.sources.end());
  return sources;
}

}  // namespace

NodeType read_node(const Node& entry, const Catalog& catalog) {
  const Node* name = entry.find("name");
  const std::string what = "node " + (name ? name->scalar : "custom-node");
  Fields fields(entry, what);
  NodeType node;
  node.name = fields.text("name", "custom-node");
  fields.text("description", "");
  fields.child("sources");
  read_gpus(node, fields.required_child("gpu"), what, catalog);
  node.interconnect = fields.text("interconnect");
  if (const Node* hca = fields.child("hca"); hca && hca->kind != Node::Kind::null) read_hcas(node, *hca, what);
  read_links(node, fields);
  fields.finish();
  node.sources = all_sources(entry, node, what);
  return node;
}

}  // namespace trainyard
