#include "tools/reports/entry_yaml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "models/hardware/node.hpp"
#include "models/reading/asked_fields.hpp"
#include "models/reading/document_text.hpp"

namespace trainyard {
namespace {

/// Turns a reader's words "node dgx-a100: pcie" into the path node.pcie. Returns "" for other kinds and items of lists.
std::string section_of(const std::string& kind, const std::string& what) {
  if (!what.starts_with(kind + " ")) return "";
  const std::size_t part = what.find(": ");
  const std::string section = part == std::string::npos ? kind : kind + "." + what.substr(part + 2);
  const bool item = section.find_first_of("0123456789", section.rfind('.')) != std::string::npos;
  return item && !section.ends_with("_3x3") ? "" : section;
}

/// The value of a node that may hold {value, source}. Null: there is no value.
const Node* plain(const Node* node) {
  if (!node || node->kind == Node::Kind::null) return nullptr;
  const Node* value = node->kind == Node::Kind::map ? node->find("value") : nullptr;
  return value ? value : node;
}

/// Turns a description into a phrase: without its full stop, and with a small letter first unless the first word is a
/// name such as PCIe.
std::string phrase_of(std::string words) {
  if (words.empty()) return words;
  words.pop_back();
  const auto second = static_cast<unsigned char>(words[1]);
  if (std::islower(second) || second == ' ')
    words[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(words[0])));
  return words;
}

/// The comment on a key: its meaning, type and default, separated by semicolons.
std::string comment_on(const EntryKey& key, bool beside_type) {
  const std::string type = key.choices.empty() ? key.type : fmt::format("{}", fmt::join(key.choices, " | "));
  std::string text;
  const auto add = [&text](const std::string& part) { text += part.empty() ? "" : (text.empty() ? "" : "; ") + part; };
  add(phrase_of(key.words));
  add(type);
  add(key.required           ? (beside_type ? "required without a type" : "required")
      : key.fallback.empty() ? ""
                             : "default " + key.fallback);
  return text;
}

class EntryWriter {
 public:
  EntryWriter(const std::vector<EntryKey>& keys, std::string indent) : keys_(keys), indent_(std::move(indent)) {}

  /// The keys directly below `section`, with their values in `map`. Null `map`: all keys are comments.
  std::string text(const std::string& section, const Node* map) const {
    std::string lines;
    for (const EntryKey& key : keys_) {
      if (key.path.substr(0, key.path.rfind('.')) != section) continue;
      const std::string name = key.path.substr(section.size() + 1);
      const Node* value = plain(map ? map->find(name) : nullptr);
      const bool inside = key.section && (!value || value->kind == Node::Kind::map);
      const std::string mark = value ? "" : "# ";
      const bool of_type = is_key(section + ".type") && name != "count" && name != "type";
      const std::string comment = comment_on(key, of_type);
      std::string line = indent_ + mark + name + ":";
      if (value && !inside) line += " " + flow_text(*value);
      if (!comment.empty())
        line += std::string(line.size() < kComment ? kComment - line.size() : 1, ' ') + " # " + comment;
      lines += line + "\n";
      if (inside) lines += EntryWriter(keys_, indent_ + mark + "  ").text(key.path, value);
    }
    for (const auto& [name, value] : map ? map->fields : kNone)  // other keys, such as a figure of a part's type
      if (!is_key(section + "." + name) && name != "name" && name != "sources" && plain(&value))
        lines += indent_ + name + ": " + flow_text(*plain(&value)) + "\n";
    return lines;
  }

 private:
  static constexpr std::size_t kComment = 36;  // the column where comments begin if the line is not longer
  inline static const decltype(Node::fields) kNone{};
  const std::vector<EntryKey>& keys_;
  std::string indent_;

  bool is_key(const std::string& path) const {
    return std::ranges::any_of(keys_, [&path](const EntryKey& key) { return key.path == path; });
  }
};

}  // namespace

std::vector<EntryKey> entry_keys(const std::string& kind, const Catalog& catalog) {
  const AskedFields fields_read;
  const auto read = [&](const Node& reference) {
    const Node entry = catalog.resolve(kind, reference);
    if (kind == "node")
      read_node(entry, catalog);
    else
      read_gpu(entry);
  };
  for (const std::string& name : catalog.names(kind)) read(Node::scalar_node(name, Place::named("trainyard")));
  if (kind == "node")  // parts that the catalog's entries may lack
    for (const char* more : {"{base: pcie-4, nvme: {count: 1, read: 1 GB/s, latency: 1 us}}",
                             "{base: pcie-4, nvme: {count: 1, read: 2 GB/s, latency: 1 us}}",
                             "{gpu: {count: 1, type: t4}, interconnect: graph, wires: [{from: gpu0, to: cpu0, rate: 16 "
                             "GB/s, latency: 1 us}]}"})
      read(parse_override(more, "trainyard"));
  std::vector<EntryKey> keys;
  const std::set<std::string> not_of_files{kind + ".name", kind + ".sources"};
  for (const AskedField& field : fields_read.fields()) {
    const std::string section = section_of(kind, field.what);
    if (section.empty() || not_of_files.contains(section + "." + field.key)) continue;
    const EntryKey key{
        section + "." + field.key, field.type, field.fallback, field.required, false, field.choices, field.words};
    const auto known_key = std::ranges::find_if(keys, [&](const EntryKey& k) { return k.path == key.path; });
    if (known_key == keys.end()) {
      keys.push_back(key);
      continue;
    }
    if (known_key->words.empty()) known_key->words = key.words;
    if (!key.type.empty()) {
      const bool first = known_key->type.empty(), required = key.required && (first || known_key->required);
      const bool varies = !first && known_key->fallback != key.fallback;
      const std::string words = std::move(known_key->words);
      *known_key = key;
      known_key->words = words;
      if (varies) known_key->fallback.clear();
      known_key->required = required;
    }
  }
  for (EntryKey& key : keys)
    key.section =
        std::ranges::any_of(keys, [&](const EntryKey& other) { return other.path.starts_with(key.path + "."); });
  return keys;
}

std::string entry_yaml(const std::string& kind, const Node& reference, const Catalog& catalog) {
  const Node entry = catalog.resolve(kind, reference);
  return fmt::format(
             "# A {0} of your own, at first equal to {1}. A scenario in the same folder uses it by {2}. All possible "
             "keys are here; those after # are left out.\n"
             "# A figure may carry its source: {{value: 25 GB/s, source: where it is from}}.\n",
             kind == "gpu" ? "GPU" : kind, entry.find("name")->scalar,
             kind == "gpu" ? "`cluster: {gpu: {type: FILE.yaml}}` or a node's file `gpu: {count: 4, type: FILE.yaml}`"
                           : "`cluster: {node: FILE.yaml}`") +
         EntryWriter(entry_keys(kind, catalog), "").text(kind, &entry);
}

}  // namespace trainyard
