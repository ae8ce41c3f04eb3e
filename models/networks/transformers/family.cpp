// Keys of Hugging Face's config.json that its families have in common.
#include "models/networks/transformers/family.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/networks/layers/sharding.hpp"
#include "models/networks/transformers/operator_lists.hpp"
#include "models/networks/transformers/transformer.hpp"
#include "models/reading/nearest.hpp"
#include "models/reading/not_modelled.hpp"
#include "models/reading/shipped_files.hpp"
#include "sim/json_text.hpp"

namespace trainyard::transformers {
namespace {

const std::vector<std::string> kActivations = {
    "gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "quick_gelu", "relu", "relu2", "silu", "swish", "tanh"};

/// Keys of a config that change neither shapes nor kernels: by model type, and for `any`. JSON is read at every start, and
/// faster than YAML.
const std::map<std::string, std::vector<std::string>>& unused_keys() {
  static const std::map<std::string, std::vector<std::string>> keys = [] {
    std::ifstream in(shipped_file("models/catalog/unused-config-keys.json"));
    return parse_json({std::istreambuf_iterator<char>(in), {}}).get<std::map<std::string, std::vector<std::string>>>();
  }();
  return keys;
}

}  // namespace

Registry<TransformerFamily>& transformer_families() {
  static Registry<TransformerFamily> families("model_type");
  return families;
}

const std::vector<std::string>& free_config_keys() { return unused_keys().at("any"); }

void ignore_unused_keys(Fields& f, const std::string& model_type) {
  refuse_true(f, "add_cross_attention", "cross-attention to another network is");
  for (const std::string& key : free_config_keys()) f.has(key);
  if (const auto found = unused_keys().find(model_type); found != unused_keys().end())
    for (const std::string& key : found->second) f.has(key);
}

std::int64_t read_size(Fields& f, const char* key) {
  return f.integer_within<std::int64_t>(key, 1, std::numeric_limits<std::int32_t>::max());
}

std::int64_t read_size(Fields& f, const char* key, std::int64_t fallback) {
  return f.has(key) ? read_size(f, key) : fallback;
}

std::int64_t read_size(Fields& f, std::initializer_list<const char*> keys) {
  const char* first = nullptr;
  std::int64_t value = 0;
  for (const char* key : keys) {
    if (!f.has(key)) continue;
    const std::int64_t size = read_size(f, key);
    if (first != nullptr && size != value)
      f.refuse(key, fmt::format("{}, but {}, the same size, is {}", size, first, value));
    first = key;
    value = size;
  }
  return first != nullptr ? value : read_size(f, *keys.begin());  // throws, because the key is missing
}

std::int64_t read_layers(Fields& f, std::initializer_list<const char*> keys) {
  constexpr std::int64_t most = 10000;
  const std::int64_t layers = read_size(f, keys);
  if (layers <= most) return layers;
  const char* stated_key = *keys.begin();
  for (const char* key : keys)
    if (f.has(key)) stated_key = key;
  fail(f.place_of(stated_key), fmt::format("{}: {} layers; at most {}", f.what(), layers, most));
}

std::int64_t read_layer_types(Fields& f, std::int64_t layers, std::int64_t fallback) {
  const std::vector<Node>* types = f.list("layer_types");
  if (!types) return fallback;
  std::int64_t every = 0;
  for (std::size_t i = 0; i < types->size(); ++i) {
    const bool full = (*types)[i].scalar == "full_attention";
    const auto number = static_cast<std::int64_t>(i) + 1;
    if (every == 0 && full) every = number;
    if (full != (every > 0 && number % every == 0))
      fail((*types)[i].place, f.path("layer_types") + ": expected full attention in every N-th layer");
  }
  if (static_cast<std::int64_t>(types->size()) != layers)
    f.refuse("layer_types", fmt::format("{} of {} layers", types->size(), layers));
  return every;
}

void refuse_true(Fields& f, const char* key, const char* what) {
  if (f.boolean(key, false)) f.refuse(key, fmt::format("{} not modelled; expected false", what));
}

double read_probability(Fields& f, const char* key, double fallback) { return f.number(key, 0, 1, fallback); }

std::string read_activation(Fields& f, const char* key, const char* fallback) {
  return f.choice(key, kActivations, fallback);
}

void finish_heads(Fields& f, TransformerConfig& c, const char* heads_key) {
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    fail(f.place_of("num_key_value_heads"),
         fmt::format("{}: num_key_value_heads {} does not divide {} attention heads; nearest: {}", f.what(),
                     c.num_key_value_heads, c.num_attention_heads,
                     nearest_divisors(c.num_attention_heads, c.num_key_value_heads)));
  if (c.head_dim != 0) return;
  if (c.hidden_size % c.num_attention_heads != 0) {
    // Key-value heads that are stated must divide the nearest number of heads, too.
    const std::int64_t unit = f.has("num_key_value_heads") ? c.num_key_value_heads : 1;
    const std::string nearest =
        c.hidden_size % unit == 0
            ? nearest_divisors(c.hidden_size, c.num_attention_heads, unit) + " heads"
            : fmt::format("hidden size {}", nearest_multiples(c.num_attention_heads, c.hidden_size));
    fail(f.place_of(heads_key), fmt::format("{}: hidden size {} is not a multiple of {} attention heads; nearest: {}",
                                            f.what(), c.hidden_size, c.num_attention_heads, nearest));
  }
  c.head_dim = c.hidden_size / c.num_attention_heads;
}

}  // namespace trainyard::transformers

namespace trainyard {

namespace {

/// Returns the text part of a network of text and images, with the name and source of the whole network.
Node text_part(const Node& config, const Node& text) {
  Node part = text;
  for (const char* key : {"_source", "name", "tie_word_embeddings"})
    if (const Node* value = config.find(key); value && !part.find(key)) part.fields.emplace_back(key, *value);
  return part;
}

}  // namespace

namespace {

/// Refuses a config of a network that is not modelled, and says what it is.
void refuse_other_networks(Fields& f) {
  if (!f.has("model_type") && f.has("_class_name"))
    fail(f.place_of("_class_name"),
         f.what() + ": " + f.text("_class_name") +
             " is part of a diffusion pipeline, which is no language model, and its config is not modelled yet" +
             hint(f.text("_class_name"), operator_configs("_class_name")));
  if (!f.has("model_type")) return;
  const std::string type = f.text("model_type");
  const std::vector<std::string> families = transformers::transformer_families().names();
  if (place_among(type, families) < families.size()) return;  // no row names a family
  for (const UnmodelledKey& row : not_modelled())
    if (row.path == std::string_view("model") && std::ranges::find(row.words, type) != row.words.end())
      fail(f.place_of("model_type"), f.what() + ".model_type: \"" + type + "\" (" + row.what +
                                         ") is not modelled yet; nearest: \"" + row.nearest.front() +
                                         "\" (trainyard help limits)");
}

TransformerConfig read_text(const Node& node) {
  Fields f(node, "model");
  TransformerConfig c;
  c.place = node.place;
  refuse_other_networks(f);
  const std::vector<std::string> families = transformers::transformer_families().names();
  if (!f.has("model_type")) fail(c.place, "model: missing key \"model_type\"" + hint("", families));
  if (const std::string type = f.text("model_type"); place_among(type, families) == families.size()) {
    std::vector<std::string> all = operator_configs("model_type");
    all.insert(all.end(), families.begin(), families.end());
    fail(f.place_of("model_type"), "model.model_type: unknown value \"" + type + "\"" + hint(type, all));
  }
  c.model_type = f.choice("model_type", families);
  c.name = f.text("name", f.text("_name_or_path", c.model_type));
  c.source = f.text("_source", "");
  transformers::transformer_families().find(c.model_type, f.place_of("model_type")).read(f, c);
  transformers::ignore_unused_keys(f, c.model_type);
  f.finish();
  return c;
}

}  // namespace

TransformerConfig read_transformer(const Node& config) {
  const Node* type = config.find("model_type");
  const bool has_family = type && !config.find("_class_name") &&
                          place_among(type->scalar, transformers::transformer_families().names()) <
                              transformers::transformer_families().names().size();
  if (const std::optional<Node> listed = has_family ? std::nullopt : operator_document(config))
    return read_text(*listed);
  const Node* text = config.find("text_config");
  if (!text || text->kind != Node::Kind::map) return read_text(config);
  try {
    TransformerConfig part = read_text(text_part(config, *text));
    part.name += " (text part)";
    return part;
  } catch (const UserError& e) {
    // Configs of other libraries often leave out keys that have a default in their library.
    const std::string error = e.what();
    if (error.find("missing key") == std::string::npos) throw;
    throw UserError(error +
                    " in text_config; images and sound are not modelled yet; nearest: the text part alone, as a "
                    "separate config with all its keys");
  }
}

std::int64_t decoder_tokens(const TransformerConfig& config, std::int64_t seq_length,
                            const TransformerOptions& options) {
  if (config.num_decoder_layers == 0) return 0;
  return options.decoder_seq_length > 0 ? options.decoder_seq_length : std::max<std::int64_t>(seq_length / 4, 1);
}

Network transformer_network(const TransformerConfig& config, std::int64_t micro_batch_size, std::int64_t seq_length,
                            Precision precision, const TransformerOptions& options) {
  check_micro_batch_size(micro_batch_size);
  if (seq_length < 1) throw UserError("seq_length is " + std::to_string(seq_length) + "; expected at least 1");
  const std::string positions = std::to_string(config.max_position_embeddings);
  if (config.fixed_seq_length && seq_length != config.max_position_embeddings)
    fail(config.place, "seq_length " + std::to_string(seq_length) + ": " + config.name + " has " + positions +
                           " tokens, an image's patches and the class token");
  if (config.position_embedding == PositionEmbedding::learned && seq_length > config.max_position_embeddings)
    fail(config.place, "seq_length " + std::to_string(seq_length) + " is above the " + positions +
                           " learned positions of " + config.name);
  transformers::check_sharding(config, seq_length, options);
  const std::int64_t decoder_seq = decoder_tokens(config, seq_length, options);
  const double mean = options.unpadded.mean;
  const transformers::TransformerLayout layout{config,
                                               options,
                                               precision,
                                               static_cast<double>(micro_batch_size),
                                               mean > 0 ? mean : static_cast<double>(seq_length),
                                               static_cast<double>(decoder_seq)};
  Network network;
  network.name = config.name;
  network.source = config.source;
  network.precision = precision;
  network.samples = micro_batch_size;
  network.tokens_per_sample = std::llround(layout.seq) + decoder_seq;
  network.routing = config.experts.routing();
  if (config.position_embedding == PositionEmbedding::rotary) network.tables = layout.rotary_table();
  network.layers = transformers::transformer_families().find(config.model_type, config.place).layers(layout);
  for (Layer& layer : network.layers) layer.output_in_parts = options.sharding.sequence && options.sharding.tensor > 1;
  return network;
}

}  // namespace trainyard
