#include "scenarios/read_network.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "models/mlp.hpp"
#include "models/transformer.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

struct ModelChoice {
  const Node* node;
  Node entry;  // the network's own fields
  bool mlp = false;
};

fs::path beside(const Place& place, const std::string& file) {
  const fs::path direct = fs::path(*place.file).parent_path() / file;
  std::error_code ignored;  // a name that no file system takes is not there
  if (fs::exists(direct, ignored)) return direct;
  const fs::path in_catalog = Catalog().root() / "networks" / file;
  return fs::exists(in_catalog, ignored) ? in_catalog : direct;
}

ModelChoice find_model(const Node& node, const Catalog& catalog) {
  if (const Node* config = node.find("config")) {
    Fields fields(node, "model");
    const std::string file = fields.text("config");
    // An override comes from no file: what it names is looked up from the working directory.
    Place base = config->place;
    if (base.line == 0) base.file = std::make_shared<const std::string>("");
    Node entry;
    try {
      entry = read_document(beside(base, file));
    } catch (const UserError& e) {
      std::error_code ignored;
      if (fs::is_regular_file(beside(base, file), ignored)) throw;  // its own place is in the error
      fail(config->place, fmt::format("model.config: {}", e.what()));
    }
    if (entry.kind != Node::Kind::map)
      fail(config->place, fmt::format("model.config: {} is not a Hugging Face config", file));
    if (!entry.find("name")) {
      Node name = *config;
      name.scalar = fs::path(file).stem().string();
      entry.fields.emplace_back("name", name);
    }
    Node over = node;
    std::erase_if(over.fields, [](const auto& field) { return field.first == "config"; });
    return {&node, merged(entry, over), false};
  }
  if (node.find("mlp")) return {&node, node, true};
  return {&node, catalog.resolve("network", node), false};
}

Network mlp_of(const Node& node, const NetworkSettings& settings) {
  Fields fields(node, "model");
  Fields mlp(fields.required_child("mlp"), "model.mlp");
  const Node& widths = mlp.required_child("widths");
  if (widths.kind != Node::Kind::list) fail(widths.place, "model.mlp.widths: expected a list such as [784, 128, 10]");
  MlpShape shape;
  for (const Node& width : widths.items) {
    try {
      const std::int64_t w = parse_integer(width.scalar);
      if (w < 1 || w > 1 << 24) throw UserError(fmt::format("{} is not between 1 and 16777216", w));
      shape.widths.push_back(static_cast<int>(w));
    } catch (const UserError& e) {
      fail(width.place, fmt::format("model.mlp.widths: {}", e.what()));
    }
  }
  constexpr std::size_t most_widths = 10000;
  if (shape.widths.size() > most_widths)
    fail(widths.place, fmt::format("model.mlp.widths: {} widths; at most {}", shape.widths.size(), most_widths));
  if (shape.widths.size() < 2) fail(widths.place, "model.mlp.widths: expected at least an input and an output width");
  const std::string loss = mlp.choice("loss", {"mean_squared_error", "softmax_cross_entropy"}, "mean_squared_error");
  shape.loss = loss == "mean_squared_error" ? MlpLoss::mean_squared_error : MlpLoss::softmax_cross_entropy;
  mlp.finish();
  fields.finish();
  return mlp_network(shape, settings.micro_batch_size, settings.precision);
}

/// A length in tokens, bounded so that squares of it stay exact.
std::int64_t read_length(Fields& plan, std::string_view key, std::int64_t fallback) {
  constexpr std::int64_t longest = 1 << 26;
  const std::int64_t length = plan.integer(key, 1, fallback);
  if (length > longest) fail(plan.place_of(key), fmt::format("plan.{}: {} tokens; at most {}", key, length, longest));
  return length;
}

/// `seq_length`, by default all positions; of an encoder-decoder `decoder_seq_length` too.
std::int64_t read_lengths(const TransformerConfig& config, Fields& plan, TransformerOptions& options) {
  const std::int64_t positions = config.max_position_embeddings;
  const std::int64_t seq = read_length(plan, "seq_length", positions);
  if (config.fixed_seq_length && seq != positions)
    fail(plan.place_of("seq_length"), fmt::format("plan.seq_length: {} tokens, but {} has {}, an image's patches and "
                                                  "the class token; leave it out, or change image_size or patch_size",
                                                  seq, config.name, positions));
  if (config.position_embedding == PositionEmbedding::learned && seq > positions)
    fail(plan.place_of("seq_length"),
         fmt::format("plan.seq_length: {} tokens, but {} has {} learned positions", seq, config.name, positions));
  const bool given = plan.has("decoder_seq_length");
  if (given && config.num_decoder_layers == 0)
    fail(plan.place_of("decoder_seq_length"),
         fmt::format("plan.decoder_seq_length: {} has no decoder beside an encoder", config.name));
  if (given) options.decoder_seq_length = read_length(plan, "decoder_seq_length", 1);
  return seq;
}

}  // namespace

Network read_network(const Node& node, const Catalog& catalog, Fields& plan, const NetworkSettings& settings) {
  const ModelChoice model = find_model(node, catalog);
  const bool flash = plan.boolean("flash_attention", true);
  if (model.mlp) return mlp_of(model.entry, settings);
  const TransformerConfig config = read_transformer(model.entry);
  TransformerOptions options;
  options.flash_attention = flash;
  options.fused_loss = settings.fused_loss;
  const std::int64_t seq = read_lengths(config, plan, options);
  try {
    Network network = transformer_network(config, settings.micro_batch_size, seq, settings.precision, options);
    if (network.name.empty()) network.name = "model";
    return network;
  } catch (const UserError& e) {
    fail(plan.has("seq_length") ? plan.place_of("seq_length") : node.place, e.what());
  }
}

}  // namespace trainyard
