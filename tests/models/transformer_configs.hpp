#pragma once
#include <algorithm>
#include <filesystem>
#include <string>

#include "models/networks/transformers/transformer.hpp"
#include "models/reading/catalog.hpp"
#include "models/reading/document.hpp"
#include "models/software/stack.hpp"

namespace trainyard {

/// Returns the config of a network in the catalog.
inline TransformerConfig catalog_config(const std::string& name, const std::string& over = "{}") {
  const auto file = std::filesystem::path(TRAINYARD_SOURCE_DIR) / "models/catalog/networks" / (name + ".json");
  return read_transformer(merge_nodes(read_document(file), parse_document(over, "over.json")));
}
inline TransformerConfig parsed_config(const std::string& text) {
  return read_transformer(parse_document(text, "config.json"));
}
/// Returns a stack of the catalog.
inline SoftwareStack catalog_stack(const std::string& name) {
  return read_stack(Catalog().resolve("stack", Node::scalar_node(name)));
}
inline Network network_of(const TransformerConfig& config, std::int64_t samples, std::int64_t seq) {
  return transformer_network(config, samples, seq, Precision::bf16);
}
inline Network network_of(const std::string& name) {
  const TransformerConfig config = catalog_config(name);
  return network_of(config, 1, config.max_position_embeddings);
}

/// Does every gradient become ready exactly once? Frozen tensors, and tables that a kernel updates, have none.
inline bool gradients_are_ready_once(const Network& network) {
  for (const Layer& layer : network.layers) {
    std::vector<int> ready, trained;
    for (const auto& kernel : layer.backward)
      ready.insert(ready.end(), kernel.gradients_ready.begin(), kernel.gradients_ready.end());
    std::sort(ready.begin(), ready.end());
    for (std::size_t i = 0; i < layer.parameters.size(); ++i)
      if (!layer.parameters[i].frozen) trained.push_back(static_cast<int>(i));
    if (ready != trained) return false;
  }
  return true;
}

/// Options of unfused attention.
inline TransformerOptions without_flash_attention() {
  TransformerOptions options;
  options.flash_attention = false;
  return options;
}

/// Returns the names of kernels, exchanges or tensors.
template <class Items>
std::vector<std::string> names(const Items& items) {
  std::vector<std::string> all;
  for (const auto& item : items) all.push_back(item.name);
  return all;
}

inline const Exchange& exchange_of(const std::vector<Exchange>& exchanges, const std::string& name) {
  for (const Exchange& exchange : exchanges)
    if (exchange.name == name) return exchange;
  throw UserError("no exchange " + name);
}

/// Do exchanges begin in their order, and before the kernels that wait for them?
inline bool in_order(const std::vector<Exchange>& exchanges, std::size_t kernels) {
  int before = 0;
  for (const Exchange& e : exchanges) {
    if (e.kernels_before < before || e.needed_by < e.kernels_before || e.needed_by > static_cast<int>(kernels))
      return false;
    before = e.kernels_before;
  }
  return true;
}

template <class Kernels>
Work work_of(const Kernels& kernels, const std::string& name) {
  for (const auto& kernel : kernels)
    if (kernel.name == name) return kernel.work;
  throw UserError("no kernel " + name);
}

}  // namespace trainyard
