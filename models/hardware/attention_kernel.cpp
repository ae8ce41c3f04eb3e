#include "models/hardware/attention_kernel.hpp"

namespace trainyard {
namespace {

void read_architectures(AttentionKernel& kernel, const Node& architectures, const Sources& sources) {
  constexpr double least = 1e-6;
  Fields fields(architectures, "attention kernel " + kernel.name + ": architectures");
  for (const auto& [architecture, node] : architectures.fields) {
    fields.child(architecture);
    Fields rates(node, fields.what() + "." + architecture);
    AttentionKernel::Rates& r = kernel.of_architecture[architecture];
    r.forward = rates.number("forward", least, 1);
    r.backward = rates.number("backward", least, 1);
    if (rates.has("tail")) r.tiles = read_attention_model(node, rates.what());
    for (const char* key : {"memory", "tail"}) rates.child(key);
    rates.finish();
    for (const FigureSource& source : sources)
      if (source.figure.find("architectures." + architecture + ".") != std::string::npos) r.sources.push_back(source);
  }
  fields.finish();
}

}  // namespace

AttentionKernel read_attention_kernel(const Node& entry) {
  Fields fields(entry, "attention kernel");
  AttentionKernel kernel;
  kernel.name = fields.text("name", "custom-attention");
  kernel.description = fields.text("description", "");
  fields.child("sources");
  const Sources sources = figure_sources(entry, "attention " + kernel.name);
  if (const Node* architectures = fields.child("architectures")) read_architectures(kernel, *architectures, sources);
  fields.finish();
  return kernel;
}

void AttentionKernel::drive(Gpu& gpu, Sources& sources) const {
  const auto entry = of_architecture.find(gpu.architecture);
  if (entry == of_architecture.end()) return;
  gpu.attention = entry->second.tiles;
  gpu.efficiency[static_cast<std::size_t>(Kernel::attention)].flops = entry->second.forward;
  gpu.efficiency[static_cast<std::size_t>(Kernel::attention_backward)].flops = entry->second.backward;
  std::erase_if(sources, [](const FigureSource& source) {
    return source.figure.ends_with("efficiency.attention.flops") ||
           source.figure.ends_with("efficiency.attention_backward.flops") ||
           source.figure.find(": attention.") != std::string::npos;
  });
  sources.insert(sources.end(), entry->second.sources.begin(), entry->second.sources.end());
}

}  // namespace trainyard
