#include "models/reading/catalog.hpp"
#include "models/reading/shipped_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>
#include <unordered_set>

namespace trainyard {
namespace {

namespace fs = std::filesystem;

constexpr int kMostBases = 16;   // a longer chain of bases is a cycle
constexpr int kStampColumn = 0;  // marks the `name` that the catalog adds to an entry: no key of a file is in column 0

fs::path default_root() {
  const char* folder = std::getenv("TRAINYARD_CATALOG");
  return folder && *folder ? fs::path(folder) : shipped_file("models/catalog");
}

/// Returns the user's own catalogs: the folders of TRAINYARD_PATH (separated by ':'), and `trainyard/catalog` in the
/// XDG data folder. They have the same layout. There are none for a catalog in another folder than the default. (The
/// folder `catalog` beside the file that names an entry comes before them.)
std::vector<fs::path> own_roots(const fs::path& root) {
  if (root != default_root()) return {};
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  std::vector<fs::path> roots;
  const std::string list = variable("TRAINYARD_PATH"), home = variable("HOME");
  for (std::size_t from = 0, to = 0; from < list.size(); from = to + 1) {
    to = std::min(list.find(':', from), list.size());
    if (to > from) roots.emplace_back(list.substr(from, to - from));
  }
  std::string data = variable("XDG_DATA_HOME");
  if (data.empty() && !home.empty()) data = home + "/.local/share";
  if (!data.empty()) roots.push_back(fs::path(data) / "trainyard/catalog");
  std::error_code ignored;
  std::erase_if(roots, [&](const fs::path& folder) { return !fs::is_directory(folder, ignored); });
  return roots;
}

std::string folder_of(std::string_view kind) { return fmt::format("{}{}", kind, kind.ends_with("ch") ? "es" : "s"); }

bool is_entry(const fs::path& file) { return file.extension() == ".yaml" || file.extension() == ".json"; }

bool is_file_reference(const std::string& name) {
  return name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json");
}

/// Reads a file of the catalog, again only if it has changed. The points of a sweep name the same few files.
Node read_cached(const fs::path& file) {
  using Stamp = std::tuple<dev_t, ino_t, off_t, time_t, long>;
  static std::map<std::string, std::pair<Stamp, Node>> cache;
  static std::mutex mutex;
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0) return read_document(file);
  const Stamp stamp{status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  {
    const std::lock_guard lock(mutex);
    const auto entry = cache.find(file.native());
    if (entry != cache.end() && entry->second.first == stamp) return entry->second.second;
  }
  Node node = read_document(file);
  const std::lock_guard lock(mutex);
  return cache.insert_or_assign(file.native(), std::pair(stamp, std::move(node))).first->second.second;
}

/// Returns the folder of the files that are named at a place: the folder of the place's file, or the working directory
/// for an override, which is in no file.
fs::path folder_beside(const Place& place) {
  return place.line == 0 || !place.file ? fs::path() : fs::path(*place.file).parent_path();
}

/// Throws UserError if an unknown name lacks only the extension of a file beside `where`.
void refuse_half_a_file_name(std::string_view kind, std::string_view name, const Place& where) {
  std::error_code ignored;
  for (const char* extension : {".yaml", ".yml", ".json"})
    if (const std::string file = std::string(name) + extension;
        !name.empty() && fs::is_regular_file(folder_beside(where) / file, ignored))
      fail(where, fmt::format("unknown {} \"{}\"; did you mean \"{}\", the file beside?", kind, name, file));
}

void set_name(Node& entry, const std::string& name, const Place& place) {
  entry.fields.insert(entry.fields.begin(), {"name", Node::scalar_node(name, place)});
}

/// Reads an entry from a file that is not in the catalog.
Node file_entry(std::string_view kind, const Node& reference) {
  const fs::path file = folder_beside(reference.place) / reference.scalar;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored))
    fail(reference.place, fmt::format("{}: no such file (a {} of its own)", file.string(), kind));
  Node node = read_document(file);
  if (node.kind != Node::Kind::map) fail(node.place, fmt::format("expected a map, the figures of a {}", kind));
  if (!node.find("name")) set_name(node, file.stem().string(), node.place);
  return node;
}

/// The field at a path of two keys. Null: it is absent.
Node* find_below(Node& map, std::string_view key, std::string_view below) {
  Node* outer = map.find(key);
  return outer && outer->kind == Node::Kind::map ? outer->find(below) : nullptr;
}

/// The count that a node states at `part.count`; 0: it states none that is a whole number.
std::int64_t count_of(Node& node, std::string_view part) {
  Node* count = find_below(node, part, "count");
  if (count && count->kind == Node::Kind::map) count = count->find("value");
  if (!count || count->kind != Node::Kind::scalar) return 0;
  try {
    return parse_integer(count->scalar);
  } catch (const UserError&) {
    return 0;  // its reader reports it
  }
}

/// Returns true if a list item names a GPU from this number on.
bool is_gpu_from(const Node& item, std::int64_t gpus) {
  try {
    return item.kind == Node::Kind::scalar && parse_integer(item.scalar) >= gpus;
  } catch (const UserError&) {
    return false;  // its reader reports it
  }
}

/// A node with fewer GPUs than its base keeps the links of the base's mesh among them and their PCIe switches, if it does
/// not state its own.
void keep_links_of_gpus(Node& merged, Node base, Node changes) {
  const std::int64_t gpus = count_of(changes, "gpu");
  if (gpus <= 0 || gpus >= count_of(base, "gpu")) return;
  const auto list_of_base = [&](const char* part, const char* key) -> Node* {
    Node* list = find_below(changes, part, key) ? nullptr : find_below(merged, part, key);
    return list && list->kind == Node::Kind::map ? list->find("value") : list;
  };
  if (Node* mesh = list_of_base("nvlink", "mesh"))
    std::erase_if(mesh->items, [gpus](const Node& link) {
      return link.items.size() > 1 && (is_gpu_from(link.items[0], gpus) || is_gpu_from(link.items[1], gpus));
    });
  if (Node* switches = list_of_base("pcie", "switches"))
    for (Node& pcie_switch : switches->items)
      if (Node* below = pcie_switch.find("gpus"))
        std::erase_if(below->items, [gpus](const Node& gpu) { return is_gpu_from(gpu, gpus); });
}

/// A node with fewer GPUs than its base keeps the base's adapters for each GPU, rounded up, if it does not state adapters
/// and neither places single ones: a part of a rack has the adapters of its trays, not of the rack.
void keep_adapters_of_gpus(Node& merged, Node base, Node changes) {
  const std::int64_t gpus = count_of(changes, "gpu"), of_base = count_of(base, "gpu"), adapters = count_of(base, "hca");
  if (gpus <= 0 || gpus >= of_base || adapters <= 0) return;
  const Node* stated = changes.find("hca");
  const bool states_adapters = stated && (stated->kind == Node::Kind::null || find_below(changes, "hca", "count"));
  if (states_adapters || find_below(merged, "hca", "of_gpu") || find_below(merged, "pcie", "switches") ||
      merged.find("wires"))
    return;
  Node& count = *find_below(merged, "hca", "count");
  Node& value = count.kind == Node::Kind::map ? *count.find("value") : count;
  value.scalar = std::to_string((adapters * gpus + of_base - 1) / of_base);
}

/// Returns true if all keys of a map are quantities or lengths: `{1: 300, 64: 280}`, `{3 m: 100}`.
bool is_by_quantity(const Node& node) {
  return node.kind == Node::Kind::map && !node.fields.empty() &&
         std::ranges::all_of(node.fields, [](const auto& field) {
           const std::string& key = field.first;
           return find_number(key.ends_with(" m") ? key.substr(0, key.size() - 2) : key).has_value();
         });
}

/// Removes the prices that `changes` states by quantity or length, so that these replace them as a whole. The keys of
/// changes to a list are indices.
void remove_replaced_prices(Node& prices, const Node& changes) {
  std::erase_if(prices.fields, [&changes](const auto& field) {
    const Node* other = changes.find(field.first);
    return other && is_by_quantity(*other) && field.second.kind != Node::Kind::list;
  });
  for (auto& [key, price] : prices.fields)
    if (const Node* other = changes.find(key); other && price.kind == Node::Kind::map)
      remove_replaced_prices(price, *other);
}

/// Returns the entry that `reference` stands for, laid on its base. The base is laid on its own base in the same way.
Node entry_on_base(const Catalog& catalog, std::string_view kind, const Node& reference, int depth) {
  const auto lay = [&](const Node& over, const Node& base) {
    if (depth >= kMostBases) fail(base.place, fmt::format("bases of {} form a cycle", kind));
    Node changes = over;
    std::erase_if(changes.fields, [](const auto& field) { return field.first == "base"; });
    Node below = entry_on_base(catalog, kind, base, depth + 1);
    if (kind == "price") remove_replaced_prices(below, changes);
    Node merged = merge_nodes(below, changes);
    if (kind == "node") {
      keep_links_of_gpus(merged, below, changes);
      keep_adapters_of_gpus(merged, std::move(below), std::move(changes));
    }
    return merged;
  };
  if (reference.kind == Node::Kind::scalar) {
    const bool file = is_file_reference(reference.scalar);
    const Node entry = file ? file_entry(kind, reference) : catalog.entry(kind, reference.scalar, reference.place);
    const Node* base = entry.find("base");
    return base ? lay(entry, *base) : entry;
  }
  if (reference.kind != Node::Kind::map)
    fail(reference.place, fmt::format("expected a {}: a name of the catalog, or a map of its figures{}", kind,
                                      hint("", catalog.names(kind))));
  const Node* base = reference.find("base");
  return base ? lay(reference, *base) : reference;
}

/// Is this a figure without source: a number (with or without unit), true or false? Names and descriptions are not.
bool is_plain_figure(const Node& node) {
  if (node.kind != Node::Kind::scalar || node.scalar.empty() || node.quoted) return false;
  const char first = node.scalar.front();
  return (first >= '0' && first <= '9') || first == '-' || first == '.' || node.scalar == "true" ||
         node.scalar == "false";
}

bool is_list_of_figures(const Node& node) {
  return node.kind == Node::Kind::list && !node.items.empty() && std::ranges::all_of(node.items, [](const Node& item) {
           return is_plain_figure(item) || is_list_of_figures(item);
         });
}

/// Returns the text of a figure. A list (the links of a mesh, the switches of a node) is described by its length.
std::string value_text(const Node& value) {
  return value.kind == Node::Kind::list ? fmt::format("list of {}", value.items.size()) : value.scalar;
}

struct SourceReader {
  std::string what;
  const Node* texts;       // the entry's `sources`
  std::string entry_file;  // file of the catalog entry on which all is laid; empty: there is none
  Sources sources;

  /// Returns the text of a key in `sources`, or the text of `source` itself if there is no such key.
  std::string full_text(const Node& source) const {
    const Node* text = texts ? texts->find(source.scalar) : nullptr;
    return text ? text->scalar : source.scalar;
  }
  /// Returns the source of a figure that states none: "given in FILE:LINE", or "" in the entry's own file.
  std::string unsourced(const Node& node) const {
    if (!node.place.file || *node.place.file == entry_file) return {};
    return node.place.line == 0 ? "given by " + *node.place.file
                                : fmt::format("given in {}:{}", *node.place.file, node.place.line);
  }

  void read(const Node& node, const std::string& path) {
    const auto add = [&](const Node& value, std::string source, bool unverified) {
      sources.push_back({fmt::format("{}: {}", what, path), value_text(value), std::move(source), unverified});
    };
    if (is_plain_figure(node) || is_list_of_figures(node)) return add(node, unsourced(node), false);
    if (const Node* value = node.find("value")) {
      const Node* source = node.find("source");
      const Node* unverified = node.find("unverified");
      add(*value, source ? full_text(*source) : unsourced(node), unverified && unverified->scalar == "true");
      if (const Node* range = node.find("range"))
        for (const Node& end : range->items) sources.back().range.push_back(end.scalar);
      return;
    }
    for (std::size_t i = 0; i < node.items.size(); ++i) read(node.items[i], fmt::format("{}.{}", path, i));
    for (const auto& [key, field] : node.fields) read(field, path.empty() ? key : path + "." + key);
  }
};

/// Is the file in the catalog at `root` or in one of the user's own catalogs?
bool lies_in_catalog(std::string_view file, const fs::path& root) {
  const auto below = [file](const fs::path& folder) { return file.starts_with(folder.native() + "/"); };
  if (below(root)) return true;
  const std::vector<fs::path> roots = own_roots(root);
  return std::ranges::any_of(roots, below);
}

}  // namespace

Catalog::Catalog() : Catalog(default_root()) {}

Catalog::Catalog(fs::path root) : root_(std::move(root)) {
  std::error_code ignored;
  if (!fs::is_directory(root_, ignored))
    throw UserError(fmt::format("{}: no such catalog folder (TRAINYARD_CATALOG names it)", root_.string()));
}

std::vector<std::string> Catalog::names(std::string_view kind) const {
  std::vector<std::string> entry_names;
  std::error_code error;
  const auto add = [&](const fs::path& root) {
    for (fs::directory_iterator it(root / folder_of(kind), error), end; !error && it != end; it.increment(error))
      if (is_entry(it->path())) entry_names.push_back(it->path().stem().string());
  };
  add(root_);
  if (error == std::errc::too_many_files_open)
    throw MachineLimit(fmt::format("{}: cannot be read: {} (see ulimit -n)", root_.string(), error.message()));
  for (const fs::path& root : own_roots(root_)) add(root);
  std::ranges::sort(entry_names);
  entry_names.erase(std::unique(entry_names.begin(), entry_names.end()), entry_names.end());
  return entry_names;
}

Node Catalog::entry(std::string_view kind, std::string_view name, const Place& where) const {
  const fs::path file = file_of(kind, name, where);
  Node node = read_cached(file);
  if (node.kind != Node::Kind::map) fail(node.place, fmt::format("expected a map, the figures of a {}", kind));
  apply_trials(node, kind, file.stem().string());
  if (const Node* own_name = node.find("name"))
    fail(own_name->key_place, "an entry of the catalog is named by its file");
  set_name(node, file.stem().string(), {node.place.file, 1, kStampColumn});
  return node;
}

fs::path Catalog::file_of(std::string_view kind, std::string_view name, const Place& where) const {
  std::vector<fs::path> folders;
  if (where.line > 0) folders.push_back(folder_beside(where) / "catalog" / folder_of(kind));
  for (const fs::path& root : own_roots(root_)) folders.push_back(root / folder_of(kind));
  folders.push_back(root_ / folder_of(kind));
  std::error_code ignored;
  const auto find = [&](std::string_view stem, const char* extension) {
    for (const fs::path& folder : folders)
      if (fs::path file = folder / (std::string(stem) + extension); fs::is_regular_file(file, ignored)) return file;
    return fs::path();
  };
  const bool plain = name.find('/') == std::string_view::npos;
  if (fs::path direct = plain ? find(name, ".yaml") : fs::path(); !direct.empty()) return direct;
  const std::vector<std::string> entries = names(kind);
  const auto it = std::ranges::find_if(entries, [&](const auto& n) { return same_name(n, name); });
  if (it == entries.end()) {
    refuse_half_a_file_name(kind, name, where);
    fail(where, fmt::format("unknown {} \"{}\"{}", kind, name, hint(name, entries)));
  }
  const fs::path yaml = find(*it, ".yaml");
  return yaml.empty() ? find(*it, ".json") : yaml;
}

Node Catalog::document(const fs::path& file) const {
  return lies_in_catalog(file.native(), root_) ? read_cached(file) : read_document(file);
}

Node Catalog::resolve(std::string_view kind, const Node& reference) const {
  Node node = entry_on_base(*this, kind, reference, 0);
  if (!node.find("name")) set_name(node, fmt::format("custom-{}", kind), reference.place);
  // Cooling takes power in each site. One that does not state it is an average one.
  if (kind == "site" && !node.find("pue"))
    node = merge_nodes(entry_on_base(*this, kind, Node::scalar_node("average", reference.place), 0), node);
  return node;
}

bool Catalog::holds(const Place& place) const {
  return place.file && place.line > 0 && lies_in_catalog(*place.file, root_);
}

Node Catalog::resolve_typed(std::string_view kind, const Node& part, std::span<const std::string_view> figures) const {
  const Node& type = *part.find("type");
  Node changes = part;
  std::erase_if(changes.fields, [&](const auto& field) {
    const auto& [key, node] = field;
    const bool figure = std::ranges::find(figures, key) != figures.end();
    return !figure || (holds(node.place) && !holds(type.place));
  });
  return resolve(kind, changes.fields.empty() ? type : merge_nodes(type, changes));
}

std::string entry_title(const std::string& kind, const Node& entry) {
  const Node* name = entry.find("name");
  return kind + " " + (name ? name->scalar : "custom-" + kind);
}

std::string read_entry_name(Fields& fields, const std::string& kind) {
  std::string name = fields.text("name", "custom-" + kind);
  fields.text({"description", "Description in one line of text."}, "");
  fields.child("sources");
  return name;
}

Sources figure_sources(const Node& entry, const std::string& what) {
  SourceReader reader{what, entry.find("sources"), {}, {}};
  const Node* name = entry.find("name");
  if (name && name->place.file && name->place.line == 1 && name->place.column == kStampColumn)
    reader.entry_file = *name->place.file;
  static const std::unordered_set<std::string_view> words{"name",        "description", "architecture",
                                                          "measured_as", "fabric",      "sources"};
  for (const auto& [key, node] : entry.fields)
    if (!words.contains(key)) reader.read(node, key);
  return reader.sources;
}

}  // namespace trainyard
