// Reads Hugging Face's configs of networks that the catalog writes as operators: the section `hugging_face` of an entry
// maps the keys of a config to the entry's sizes.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/networks/transformers/family.hpp"
#include "models/networks/transformers/operator_lists.hpp"
#include "models/reading/catalog.hpp"
#include "sim/error.hpp"
#include "sim/units.hpp"

namespace trainyard {
namespace {

const Key kSection{"hugging_face",
                   "Which config.json has the layers of a network of operators, and from which of its keys the sizes "
                   "are read, for example {model_type: tiny, sizes: {hidden: d_model}}. Default: none."};

/// The field at a dotted path of keys and of numbers of a list's items; null if it is absent or null.
const Node* value_at(const Node& config, std::string_view path) {
  const Node* node = &config;
  while (node && !path.empty()) {
    const std::size_t dot = path.find('.');
    const std::string key(path.substr(0, dot));
    path = dot == std::string_view::npos ? "" : path.substr(dot + 1);
    if (node->kind == Node::Kind::list) {
      const bool is_number = std::ranges::all_of(key, [](unsigned char c) { return std::isdigit(c) != 0; });
      const std::size_t index = is_number && key.size() < 5 ? std::stoul(key) : node->items.size();
      node = index < node->items.size() ? &node->items[index] : nullptr;
    } else {
      node = node->find(key);
    }
  }
  return node && node->kind != Node::Kind::null ? node : nullptr;
}

/// The kind of config that a section is for: "model_type" or "_class_name", and its value.
struct ConfigKind {
  std::string key, value;
};
ConfigKind read_kind(Fields& section) {
  const char* key = section.has("_class_name") ? "_class_name" : "model_type";
  return {key, section.text(key)};
}

std::vector<const Node*> sections_of(const Node& entry) {
  const Node* section = entry.find(kSection);
  std::vector<const Node*> all;
  if (!section) return all;
  if (section->kind != Node::Kind::list) return {section};
  for (const Node& item : section->items) all.push_back(&item);
  return all;
}

/// Reads a config by one section, and replaces the sizes of the entry.
class ConfigReader {
 public:
  ConfigReader(const Node& config, const Node& section, Node& entry)
      : config_(config), section_(section, "model.hugging_face"), entry_(entry) {
    const ConfigKind kind = read_kind(section_);
    known_ = {kind.key, "name", "_source", "sizes"};
  }

  void read() {
    if (const Node* crossed = config_.find("add_cross_attention"); crossed && lower_case(crossed->scalar) == "true")
      fail(crossed->place,
           "model.add_cross_attention: cross-attention to another network is not modelled; expected false");
    for (const std::string& key : transformers::free_config_keys()) ignored_.insert(key);
    for (const std::string& key : section_.texts("ignored")) ignored_.insert(key);
    check_values();
    replace_sizes();
    replace_pattern();
    set_sizes_of_reader();
    check_unread(config_, "");
    for (const char* key : {"name", "_source"})
      if (const Node* value = config_.find(key)) *entry_.find(key) = *value;
    set_tokens();
    section_.finish();
  }

 private:
  const Node& config_;
  Fields section_;
  Node& entry_;
  std::set<std::string> known_, ignored_;

  const Node* look_up(const std::string& path) {
    known_.insert(path);
    return value_at(config_, path);
  }

  /// Refuses values for which the layers are not written.
  void check_values() {
    const Node* values = section_.child("values");
    if (!values) return;
    for (const auto& [path, legal] : values->fields) {
      known_.insert(path);
      const Node* stated = value_at(config_, path);
      if (!stated || stated->kind != Node::Kind::scalar) continue;
      std::vector<std::string> words{legal.scalar};
      if (legal.kind == Node::Kind::list) {
        words.clear();
        for (const Node& item : legal.items) words.push_back(item.scalar);
      }
      if (std::ranges::none_of(words, [&](const auto& w) { return lower_case(w) == lower_case(stated->scalar); }))
        fail(stated->place, fmt::format("model.{}: {} is not modelled; expected {}", path, stated->scalar,
                                        words.front().empty() ? "null" : words.front()));
    }
  }

  std::string number_text(const Node& value, const std::string& path) const {
    if (value.kind == Node::Kind::scalar) {
      if (lower_case(value.scalar) == "true") return "1";
      if (lower_case(value.scalar) == "false") return "0";
      try {
        if (parse_number(value.scalar) >= 0) return value.scalar;
      } catch (const UserError&) {
        // reported below
      }
    }
    fail(value.place, fmt::format("model.{}: expected a number of at least 0, got {}", path,
                                  value.kind == Node::Kind::scalar ? "\"" + value.scalar + "\"" : "a list or a map"));
  }

  /// `{key: hidden_act, words: {relu: 0, silu: 1}, default: 0}`, or `{count_of: whole_layers, default: 0}`, the number of
  /// items of a list.
  std::optional<std::string> size_of_word(const Node& source) {
    Fields fields(source, "model.hugging_face.sizes");
    if (fields.has("count_of")) {
      const Node* items = look_up(fields.text("count_of"));
      const std::string count = fields.formula("default");
      fields.finish();
      return items ? fmt::format("{}", items->items.size()) : count;
    }
    const std::string path = fields.text("key");
    const Node& words = fields.required_child("words");
    const std::string fallback = fields.formula("default", "");
    fields.finish();
    const Node* value = look_up(path);
    if (!value) {
      if (fallback.empty()) missing(path);
      return fallback;
    }
    std::vector<std::string> names;
    for (const auto& [word, size] : words.fields) {
      if (same_name(word, value->scalar)) return size.scalar;
      names.push_back(word);
    }
    fail(value->place,
         fmt::format("model.{}: \"{}\" is not modelled{}", path, value->scalar, hint(value->scalar, names)));
  }

  [[noreturn]] void missing(const std::string& path) const {
    fail(config_.place, fmt::format("model: missing key \"{}\"", path));
  }

  void replace_sizes() {
    const Node& sources = section_.required_child("sizes");
    for (const auto& [size, source] : sources.fields) {
      Node* node = entry_.find("sizes") ? entry_.find("sizes")->find(size) : nullptr;
      if (!node) fail(source.place, fmt::format("model.hugging_face.sizes: the network has no size \"{}\"", size));
      std::vector<std::string> paths;
      std::optional<std::string> text;
      if (source.kind == Node::Kind::scalar) paths = {source.scalar};
      if (source.kind == Node::Kind::list)  // keys in the order of their preference, and a default
        for (const Node& item : source.items) paths.push_back(item.scalar);
      if (source.kind == Node::Kind::map) text = size_of_word(source);
      const std::size_t keys = source.kind == Node::Kind::list && !paths.empty() ? paths.size() - 1 : paths.size();
      Place place = config_.place;
      for (std::size_t i = 0; i < keys; ++i)
        if (const Node* value = look_up(paths[i]); value && value->kind == Node::Kind::scalar && !text) {
          text = number_text(*value, paths[i]);
          place = value->place;
        }
      if (!text && keys < paths.size()) text = paths.back();
      if (!text) missing(paths.empty() ? size : paths.front());
      node->scalar = *text;
      node->place = place;
    }
  }

  /// The group of layers whose order the entry states.
  Node* group_with_pattern() {
    Node* layers = entry_.find("layers");
    for (Node& layer : layers->items)
      if (layer.find("pattern")) return &layer;
    return nullptr;
  }

  /// `{layers: blocks, keys: {compress_ratios: {0: window, 4: sparse}}}`: a list of the config has the kind of each layer.
  /// Items after the last layer are of others, such as those that predict further tokens.
  void replace_pattern() {
    const Node* source = section_.child("pattern");
    if (!source) return;
    Fields fields(*source, "model.hugging_face.pattern");
    const Node& lists = fields.required_child("keys");
    const std::string count = fields.text("layers");
    fields.finish();
    Node* group = group_with_pattern();
    const Node* size = entry_.find("sizes")->find(count);
    if (!group || !size)
      fail(source->place, fmt::format("model.hugging_face.pattern: the network has no group with a pattern, or no size "
                                      "\"{}\"",
                                      count));
    const auto length = static_cast<std::size_t>(parse_integer(size->scalar));
    const Node* found = nullptr;
    for (const auto& [path, words] : lists.fields) {
      const Node* list = look_up(path);
      if (!list || found) continue;
      found = list;
      if (list->items.size() < length)
        fail(list->place, fmt::format("model.{}: {} items for {} layers", path, list->items.size(), length));
      Node& pattern = *group->find("pattern");
      pattern = *list;
      pattern.items.resize(length);
      std::vector<std::string> names;
      for (const auto& word : words.fields) names.push_back(word.first);
      for (Node& item : pattern.items) {
        const Node* kind = words.find(item.scalar);
        if (!kind)
          fail(item.place,
               fmt::format("model.{}: \"{}\" is not modelled{}", path, item.scalar, hint(item.scalar, names)));
        item.scalar = kind->scalar;
      }
    }
    if (!found) missing(lists.fields.front().first);
  }

  /// Sets the sizes that `model: {config: …, sizes: {…}}` states: those of the network, such as the share of pictures.
  void set_sizes_of_reader() {
    const Node* stated = config_.find("sizes");
    if (!stated) return;
    Node& sizes = *entry_.find("sizes");
    std::vector<std::string> names;
    for (const auto& [name, node] : sizes.fields) names.push_back(name);
    for (const auto& [name, node] : stated->fields) {
      Node* size = sizes.find(name);
      if (!size) fail(node.key_place, fmt::format("model.sizes: unknown size \"{}\"{}", name, hint(name, names)));
      *size = node;
    }
  }

  bool is_ignored(const std::string& path, const std::string& key) const {
    return ignored_.count(path) > 0 || ignored_.count(key) > 0;
  }

  void check_unread(const Node& node, const std::string& above) const {
    for (const auto& [key, value] : node.fields) {
      const std::string path = above.empty() ? key : above + "." + key;
      if (known_.count(path) > 0 || is_ignored(path, key) || value.kind == Node::Kind::null) continue;
      if (value.kind != Node::Kind::scalar && value.items.empty() && value.fields.empty()) continue;
      const auto below = known_.lower_bound(path + ".");
      const bool has_known_below = below != known_.end() && below->starts_with(path + ".");
      if (has_known_below && value.kind == Node::Kind::list) continue;
      if (has_known_below && value.kind == Node::Kind::map) {
        check_unread(value, path);
        continue;
      }
      fail(value.key_place, fmt::format("unknown key \"{}\" in model{}", path,
                                        hint(path, std::vector<std::string>(known_.begin(), known_.end()))));
    }
  }

  /// Sets the sequence length: that of the entry, or a formula of the sizes.
  void set_tokens() {
    const std::string formula = section_.formula("tokens", "");
    if (formula.empty()) return;
    OperatorLists lists;
    for (const auto& [name, node] : entry_.find("sizes")->fields)
      lists.sizes.push_back({name, node.scalar, node.place});
    Node& tokens = *entry_.find("tokens");
    const SizeValues sizes = lists.values(static_cast<double>(parse_integer(tokens.scalar)));
    tokens.scalar = fmt::format("{:.0f}", size_value(formula, sizes, config_.place, "model: tokens"));
    tokens.place = config_.place;
  }
};

}  // namespace

std::vector<std::string> operator_configs(std::string_view key) {
  std::vector<std::string> all;
  const Catalog catalog;
  for (const std::string& name : catalog.names("network")) {
    const Node entry = catalog.entry("network", name, {});
    for (const Node* section : sections_of(entry))
      if (const Node* type = section->find(key)) all.push_back(type->scalar);
  }
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

void check_hugging_face(Fields& fields) {
  if (!fields.child(kSection)) return;
  Node holder = Node::empty_map();
  holder.fields.emplace_back(std::string(kSection.name), *fields.child(kSection));
  for (const Node* section : sections_of(holder)) {
    Fields keys(*section, "model.hugging_face");
    read_kind(keys);
    keys.required_child("sizes");
    keys.child("values");
    keys.texts("ignored");
    keys.child("pattern");
    keys.formula("tokens", "");
    keys.finish();
  }
}

std::optional<Node> operator_document(const Node& config) {
  if (!config.find("model_type") && !config.find("_class_name")) return std::nullopt;
  const Catalog catalog;
  for (const std::string& name : catalog.names("network")) {
    Node entry = catalog.entry("network", name, config.place);
    for (const Node* section : sections_of(entry))
      for (const char* key : {"_class_name", "model_type"}) {
        const Node* wanted = section->find(key);
        const Node* stated = config.find(key);
        if (!wanted || !stated || wanted->scalar != stated->scalar) continue;
        const Node mapping = *section;
        std::erase_if(entry.fields, [](const auto& field) { return field.first == kSection.name; });
        ConfigReader(config, mapping, entry).read();
        // Some sizes only say how the config is read, such as the number of positions.
        Node& sizes = *entry.find("sizes");
        for (const std::string& size : unread_sizes(sizes, {entry.find("layers")}))
          std::erase_if(sizes.fields, [&size](const auto& field) { return field.first == size; });
        return entry;
      }
  }
  return std::nullopt;
}

}  // namespace trainyard
