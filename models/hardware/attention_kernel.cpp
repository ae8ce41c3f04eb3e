#include "models/hardware/attention_kernel.hpp"

namespace trainyard {
namespace {

/// Reads the rates on each of the chips that a map names. `key` is the key of the map, `sources` are those of the entry.
std::map<std::string, AttentionKernel::Rates> read_chips(Fields& entry, const std::string& key,
                                                         const Sources& sources) {
  constexpr double least = 1e-6;
  std::map<std::string, AttentionKernel::Rates> chips;
  entry.read_map(key, [&](Fields& fields) {
    for (const auto& [name, node] : entry.child(key)->fields)
      fields.read_required_map(name, [&, name = name](Fields& rates) {
        AttentionKernel::Rates& r = chips[name];
        r.forward = rates.number("forward", least, 1);
        r.backward = rates.number("backward", least, 1);
        r.sustained = rates.number("sustained", 0, 1, 0);
        if (rates.has("tail")) r.tiles = read_attention_model(rates);
        for (const FigureSource& source : sources)
          if (source.figure.find(key + "." + name + ".") != std::string::npos) r.sources.push_back(source);
      });
  });
  return chips;
}

}  // namespace

AttentionKernel read_attention_kernel(const Node& entry) {
  AttentionKernel kernel;
  const Node* name = entry.find("name");
  Fields fields(entry, "attention kernel" + (name ? " " + name->scalar : ""));
  kernel.name = fields.text("name", "custom-attention");
  kernel.description = fields.text("description", "");
  fields.child("sources");
  const Sources sources = figure_sources(entry, "attention " + kernel.name);
  kernel.by_architecture = read_chips(fields, "architectures", sources);
  kernel.by_gpu = read_chips(fields, "gpus", sources);
  fields.finish();
  return kernel;
}

void AttentionKernel::drive(Gpu& gpu, Sources& sources) const {
  const auto on_gpu = by_gpu.find(gpu.name), shared = by_architecture.find(gpu.architecture);
  if (on_gpu == by_gpu.end() && shared == by_architecture.end()) return;
  const Rates& rates = on_gpu != by_gpu.end() ? on_gpu->second : shared->second;
  gpu.attention = rates.tiles;
  gpu.sustained_attention = rates.sustained;
  gpu.efficiency[static_cast<std::size_t>(Kernel::attention)].flops = rates.forward;
  gpu.efficiency[static_cast<std::size_t>(Kernel::attention_backward)].flops = rates.backward;
  std::erase_if(sources, [](const FigureSource& source) {
    return source.figure.ends_with("efficiency.attention.flops") ||
           source.figure.ends_with("efficiency.attention_backward.flops") ||
           source.figure.find(": attention.") != std::string::npos;
  });
  sources.insert(sources.end(), rates.sources.begin(), rates.sources.end());
}

}  // namespace trainyard
