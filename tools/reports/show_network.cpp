#include "tools/reports/show_network.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/reports/table.hpp"

namespace trainyard {
namespace {

/// The shape of the output of a transformer's layer for one sample; the last layer gives logits.
std::string transformer_output(const TransformerConfig& config, std::int64_t tokens, std::size_t layer,
                               std::size_t layers) {
  const bool last = layer + 1 == layers;
  if (last && config.num_labels > 0) return fmt::format("{}", config.num_labels);
  if (last && config.encoder_head == EncoderHead::pooler) return fmt::format("{}", config.hidden_size);
  const std::int64_t decoder = decoder_tokens(config, tokens);
  const auto decoder_begin = static_cast<std::size_t>(config.num_hidden_layers) + 2;  // after embedding, blocks, norm
  const std::int64_t rows = decoder > 0 && layer >= decoder_begin ? decoder : tokens;
  return fmt::format("{} x {}", rows, last ? config.vocab_size : config.hidden_size);
}

/// The shape of the output of a layer for one sample.
std::string output_text(const NetworkEntry& entry, const Network& network, std::size_t layer) {
  if (const Cnn* cnn = entry.cnn()) return cnn->layers[layer].operators.back().output.text();
  if (const MlpShape* mlp = entry.mlp()) return fmt::format("{}", mlp->widths[layer + 1]);
  if (entry.transformer()->lists) {  // the layers state their outputs, of one sample in fp32
    const double elements = network.layers[layer].output / element_size(Precision::fp32);
    return elements > 0 ? fmt::format("{:.0f}", elements) : "loss";
  }
  return transformer_output(*entry.transformer(), sample_tokens(entry), layer, network.layers.size());
}

struct LayerRow {
  std::string name, output;
  double parameters = 0;
  Flops flops;
  Bytes kept;
};

std::vector<LayerRow> layer_rows(const NetworkEntry& entry) {
  const Network network = make_network(entry, 1, sample_tokens(entry), Precision::fp32);
  std::vector<LayerRow> rows;
  for (std::size_t i = 0; i < network.layers.size(); ++i) {
    const Layer& layer = network.layers[i];
    rows.push_back({layer.name, output_text(entry, network, i), layer.parameter_elements(), layer.forward_flops(),
                    layer.activations()});
  }
  return rows;
}

bool alike(const LayerRow& a, const LayerRow& b) {
  return a.output == b.output && a.parameters == b.parameters && a.flops == b.flops && a.kept == b.kept;
}

std::vector<std::string> cells(const std::string& name, const LayerRow& row) {
  return {name, row.output, fmt::format("{:.0f}", row.parameters), show_flops(row.flops), show(row.kept)};
}

}  // namespace

std::string show_flops(Flops flops) {
  const std::string rate = show(FlopsPerSecond{flops.value});
  return rate.substr(0, rate.size() - 2);  // without "/s"
}

std::string layers_text(const NetworkEntry& entry) {
  const std::vector<LayerRow> rows = layer_rows(entry);
  TextTable table{"layer", ">output", ">parameters", ">forward FLOPs", ">kept"};
  LayerRow total;
  for (std::size_t i = 0; i < rows.size();) {
    std::size_t end = i + 1;  // layers with equal costs share a row
    while (end < rows.size() && alike(rows[i], rows[end])) ++end;
    const std::string name = end - i == 1 ? rows[i].name : fmt::format("{} … {}", rows[i].name, rows[end - 1].name);
    table.rows.push_back(cells(name, rows[i]));
    if (end - i > 1) table.rows.back()[2] += fmt::format(" x {}", end - i);
    for (; i < end; ++i) {
      total.parameters += rows[i].parameters;
      total.flops += rows[i].flops;
      total.kept += rows[i].kept;
    }
  }
  table.rows.push_back(cells("total", total));
  return fmt::format("one sample of {}, in fp32; a multiply-add is two FLOPs\n{}", sample_text(entry),
                     table.text("  "));
}

nlohmann::ordered_json layers_json(const NetworkEntry& entry) {
  auto out = nlohmann::ordered_json::array();
  for (const LayerRow& row : layer_rows(entry))
    out.push_back({{"layer", row.name},
                   {"output", row.output},
                   {"parameters", static_cast<std::int64_t>(row.parameters)},
                   {"forward_FLOPs", row.flops.value},
                   {"kept_bytes", row.kept.value}});
  return out;
}

}  // namespace trainyard
