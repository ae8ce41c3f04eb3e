#include "scenarios/src/reading/read_network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "models/networks/layers/sharding.hpp"
#include "models/reading/nearest.hpp"
#include "strategies/plan/mesh.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;

/// Returns the path of a config file: beside the scenario, or else in the catalog.
fs::path config_path(const Place& place, const std::string& file) {
  const fs::path direct = fs::path(*place.file).parent_path() / file;
  std::error_code ignored;  // a name that the file system does not accept counts as missing
  if (fs::exists(direct, ignored)) return direct;
  const fs::path in_catalog = Catalog().root() / "networks" / file;
  return fs::exists(in_catalog, ignored) ? in_catalog : direct;
}

}  // namespace

Node model_document(const Node& node, const Catalog& catalog) {
  if (const Node* config = node.find("config")) {
    Fields fields(node, "model");
    const std::string file = fields.text("config");
    // An override has no file: the path that it names is relative to the working directory.
    Place base = config->place;
    if (base.line == 0) base.file = std::make_shared<const std::string>("");
    Node entry;
    try {
      entry = catalog.document(config_path(base, file));
    } catch (const UserError& e) {
      std::error_code ignored;
      if (fs::is_regular_file(config_path(base, file), ignored)) throw;  // the error has the place in that file
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
    Node merged = merge_nodes(entry, over);
    merged.place = entry.place;  // a missing key is missing in the config
    return merged;
  }
  if (!node.find("base") && (node.find("cnn") || node.find("mlp"))) return node;  // given in place
  return catalog.resolve("network", node);
}

namespace {

/// Returns the key of the plan for the part that a ShardingError names.
std::string key_of_part(const std::string& part) {
  return part == "recompute" || part == "linear_split" ? part : part + "_parallel";
}

/// Reads a length in tokens, bounded so that its square is exact as a double.
std::int64_t read_length(Fields& plan, Key key, std::int64_t fallback) {
  constexpr std::int64_t longest = 1 << 26;
  const std::int64_t length = plan.integer(key, 1, fallback);
  if (length > longest) plan.refuse(key, fmt::format("{} tokens; at most {}", length, longest));
  return length;
}

/// Reads `seq_length`, by default all positions, and for an encoder-decoder `decoder_seq_length`.
std::int64_t read_lengths(const TransformerConfig& config, Fields& plan, TransformerOptions& options) {
  const std::int64_t positions = config.max_position_embeddings;
  const std::int64_t seq = read_length(plan, "seq_length", positions);
  if (config.fixed_seq_length && seq != positions)
    plan.refuse("seq_length", fmt::format("{} tokens, but {} has {}: an image's patches and the class token; leave it "
                                          "out, or change image_size or patch_size",
                                          seq, config.name, positions));
  if (config.lists && positions == 1 && seq != 1)
    plan.refuse("seq_length",
                fmt::format("{} tokens, but {} has one row a sample and no sequence; leave it out", seq, config.name));
  if (config.position_embedding == PositionEmbedding::learned && seq > positions)
    plan.refuse("seq_length", fmt::format("{} tokens, but {} has {} learned positions", seq, config.name, positions));
  const bool has_decoder_length = plan.has({"decoder_seq_length",
                                            "Number of tokens of a sample in the decoder of an encoder-decoder, for "
                                            "example 128. Default: a quarter of seq_length."});
  if (has_decoder_length && config.num_decoder_layers == 0)
    plan.refuse("decoder_seq_length", fmt::format("{} has no decoder beside an encoder", config.name));
  if (has_decoder_length) options.decoder_seq_length = read_length(plan, "decoder_seq_length", 1);
  return seq;
}

/// Reads `unpadded: {mean_length, attended_length}`, both at most `seq_length` tokens.
UnpaddedLengths read_unpadded(const Node& node, std::int64_t seq_length) {
  Fields fields(node, "plan.unpadded");
  UnpaddedLengths lengths;
  const double most = static_cast<double>(seq_length);
  lengths.mean = fields.number(
      {"mean_length", "Mean length in tokens of sequences that are packed, or run without padding, for example 300."},
      1, most);
  lengths.attended = fields.number(
      {"attended_length",
       "Mean over tokens of the length of the sequence that holds the token, for example 350. Default: mean_length."},
      lengths.mean, most, lengths.mean);
  fields.finish();
  return lengths;
}

/// Reads `plan.lora`, in the words of NeMo's LoRA. By default all linear layers of blocks have an adapter.
Adapters read_lora(const Node& node) {
  Fields fields(node, "plan.lora");
  Adapters adapters;
  adapters.rank = fields.integer_within<int>(
      {"rank", "Rank of the LoRA adapters, for example 16. The network itself is frozen."}, 1, 1 << 20);
  const bool all_layers = !fields.has("targets");
  for (const std::size_t target : fields.choices({"targets",
                                                  "Linear layers with an adapter: linear_qkv, linear_proj, linear_fc1, "
                                                  "linear_fc2; for example [linear_qkv, linear_proj]. Default: all."},
                                                 {"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"}))
    adapters.has_adapter[target + 1] = true;
  if (all_layers) std::fill(adapters.has_adapter.begin() + 1, adapters.has_adapter.end(), true);
  adapters.dropout =
      fields.number({"dropout", "Share of an adapter's input that is dropped, 0 to 1, for example 0.1."}, 0, 1, 0);
  adapters.base = fields.one_of({"base",
                                 "How the frozen matrices lie in memory: as-trained, fp8, nf4 (4 bits, QLoRA), or "
                                 "nvfp4 (quantized once for products in nvfp4)."},
                                {"as-trained", "fp8", "nf4", "nvfp4"}, Adapters::Base{});
  fields.finish();
  return adapters;
}

/// Is the layer of that name one block of many? Their names begin with "block " or end in a number ("mamba 3").
bool is_block(const std::string& name) {
  const std::string last = name.substr(name.rfind(' ') + 1);
  return name.starts_with("block ") ||
         (!last.empty() && last.size() < name.size() && last.find_first_not_of("0123456789") == std::string::npos);
}

/// Takes the first and the last blocks from a network whose products are all in 16 bits.
void widen_blocks(Network& network, Network wide, const ModelChoice& model) {
  std::vector<std::size_t> blocks;
  for (std::size_t layer = 0; layer < network.layers.size(); ++layer)
    if (is_block(network.layers[layer].name)) blocks.push_back(layer);
  const auto first = static_cast<std::size_t>(model.wide_blocks_first),
             last = static_cast<std::size_t>(model.wide_blocks_last);
  if (first + last > blocks.size())
    fail(model.wide_blocks_place,
         fmt::format("plan.bf16_blocks: {} blocks, but the network has {}", first + last, blocks.size()));
  for (std::size_t k = 0; k < blocks.size(); ++k)
    if (k < first || k >= blocks.size() - last) network.layers[blocks[k]] = std::move(wide.layers[blocks[k]]);
}

}  // namespace

LayerCount layer_count(const Node& model, const Catalog& catalog) {
  LayerCount layers;
  const Node entry = model_document(model, catalog);
  const NetworkEntry network = read_network_entry(entry);
  if (!network.transformer()) return layers;
  layers.count = network.transformer()->num_hidden_layers;
  for (const char* list : {"hybrid_override_pattern", "layers_block_type"})
    if (entry.find(list)) return layers;  // such a list names each layer, so a number alone cannot change it
  for (const char* key : {"n_layer", "num_hidden_layers", "num_layers", "num_decoder_layers"})
    if (entry.find(key)) layers.keys.emplace_back(key);
  return layers;
}

RanksRoom ranks_room_of(const Node& model, const Catalog& catalog) {
  try {
    return ranks_room(read_network_entry(model_document(model, catalog)));
  } catch (const UserError&) {
    return {};  // the error about the model comes later
  }
}

std::optional<std::int64_t> most_positions(const Node& model, const Catalog& catalog) {
  const NetworkEntry network = read_network_entry(model_document(model, catalog));
  if (!network.transformer()) return std::nullopt;
  return network.transformer()->max_position_embeddings;
}

ModelChoice read_model(const Node& node, const Catalog& catalog, Fields& plan, const Fusions& fusions,
                       const NetworkEntry* entry) {
  ModelChoice model;
  model.entry = entry ? *entry : read_network_entry(model_document(node, catalog));
  static_cast<Fusions&>(model.options) = fusions;
  model.options.flash_attention = plan.boolean(
      {"flash_attention", "Whether attention runs without a matrix of scores in memory. Default: the stack's."},
      fusions.flash_attention);
  if (const Node* lora =
          plan.child_unless_null({"lora",
                                  "Training of low-rank adapters in place of the network, for example {rank: 16, "
                                  "targets: [linear_qkv]}. Default: the network itself is trained."})) {
    if (!model.entry.transformer())
      fail(lora->place, "plan.lora: only the linear layers of a transformer have adapters");
    model.options.adapters = read_lora(*lora);
  }
  if (const TransformerConfig* config = model.entry.transformer())
    model.seq_length = read_lengths(*config, plan, model.options);
  if (const Node* unpadded =
          plan.child_unless_null({"unpadded",
                                  "Sequences of different lengths without padding, for example {mean_length: "
                                  "300}. Default: each has plan.seq_length tokens."})) {
    if (!model.entry.transformer())
      fail(unpadded->place, "plan.unpadded: only the sequences of a transformer have padding");
    model.options.unpadded = read_unpadded(*unpadded, model.seq_length);
  }
  if (const Node* wide =
          plan.child_unless_null({"bf16_blocks",
                                  "Blocks at either end whose products stay in bf16 under fp8 or fewer bits, for "
                                  "example {first: 1, last: 1}. Default: none."})) {
    Fields fields(*wide, "plan.bf16_blocks");
    constexpr std::int64_t most = 1 << 20;
    model.wide_blocks_first =
        fields.integer_within<std::int64_t>({"first",
                                             "Number of blocks at the beginning whose products stay in bf16, for "
                                             "example 1, in a plan of fp8 or fewer bits."},
                                            0, most, 0);
    model.wide_blocks_last = fields.integer_within<std::int64_t>(
        {"last", "Number of blocks at the end whose products stay in bf16, for example 1."}, 0, most, 0);
    fields.finish();
    model.wide_blocks_place = wide->place;
  }
  model.place = node.place;
  if (!model.entry.transformer() && plan.has("seq_length"))
    plan.refuse("seq_length", fmt::format("{} has no sequence of tokens; leave it out", model.entry.name));
  model.seq_length_place =
      model.entry.transformer() &&
              plan.has({"seq_length",
                        "Number of tokens of a sample, for example 1024. Default: all positions of the network."})
          ? plan.place_of("seq_length")
          : node.place;
  for (const char* part : {"tensor", "sequence", "context", "expert", "recompute", "linear_split"})
    if (const std::string key = key_of_part(part); plan.has(key))
      model.split_keys[part] = {"plan." + key, plan.place_of(key)};
  return model;
}

void find_places(ModelChoice& model, const Mesh& mesh, std::int64_t gpus) {
  if (!mesh.widths.empty()) return;
  const std::int64_t stage = std::int64_t{1} * mesh.tensor * mesh.context * mesh.data;
  const auto set = [&model](const char* part, std::int64_t all, std::int64_t others) {
    if (all % others == 0) model.places[part] = all / others;
  };
  set("tensor", gpus, std::int64_t{1} * mesh.context * mesh.pipeline);
  set("context", gpus, std::int64_t{1} * mesh.tensor * mesh.pipeline);
  set("expert", stage, mesh.expert_tensor > 0 ? mesh.expert_tensor : mesh.tensor);
  set("expert_tensor", stage, mesh.expert);
}

bool ties_head(const ModelChoice& model) {
  const TransformerConfig* config = model.entry.transformer();
  return config && config->tie_word_embeddings;
}

Network network_of(const ModelChoice& model, std::int64_t micro_batch_size, Precision precision) {
  return network_of(model, micro_batch_size, precision, {}, false);
}

namespace {

/// Returns the reason of the error. The nearest numbers of ranks also divide the GPUs over which they lie.
std::string reason_on(const ModelChoice& model, const Sharding& sharding, const ShardingError& error) {
  constexpr std::string_view mark = "; nearest: ";
  const std::size_t end = error.reason.find(mark);
  const auto places = model.places.find(error.part);
  if (error.room == 0 || places == model.places.end() || end == std::string::npos) return error.reason;
  const int ranks = error.part == "tensor"    ? sharding.tensor
                    : error.part == "context" ? sharding.context
                    : error.part == "expert"  ? sharding.expert
                                              : sharding.expert_tensor;
  const std::int64_t room = std::gcd(error.room, places->second);
  return error.reason.substr(0, end + mark.size()) +
         (error.part == "context" ? nearest_ranks(room, ranks) : nearest_divisors(room, ranks));
}

/// Returns true if an error begins with a place in the file of the network.
bool names_place(const UserError& error, const TransformerConfig& config) {
  return config.place.file && std::string_view(error.what()).starts_with(*config.place.file + ":");
}

}  // namespace

Network network_of(const ModelChoice& model, std::int64_t micro_batch_size, Precision precision,
                   const Sharding& sharding, bool own_head) {
  NetworkEntry entry = model.entry;
  if (auto* transformer = std::get_if<TransformerConfig>(&entry.shape); transformer && own_head)
    transformer->tie_word_embeddings = false;
  TransformerOptions options = model.options;
  options.sharding = sharding;
  try {
    Network network = make_network(entry, micro_batch_size, model.seq_length, precision, options);
    if (network.name.empty() && entry.transformer()) network.name = "model";
    if (options.fp8 && model.wide_blocks_first + model.wide_blocks_last > 0) {
      options.fp8 = false;
      widen_blocks(network, make_network(entry, micro_batch_size, model.seq_length, precision, options), model);
    }
    return network;
  } catch (const ShardingError& e) {
    const auto found = model.split_keys.find(e.part == "expert_tensor" ? "expert" : e.part);
    if (found != model.split_keys.end())
      fail(found->second.second, fmt::format("{}: {}", found->second.first, reason_on(model, sharding, e)));
    fail(model.place, e.reason);
  } catch (const UserError& e) {
    if (!entry.transformer() || names_place(e, *entry.transformer())) throw;
    fail(model.seq_length_place, e.what());
  }
}

}  // namespace trainyard
