#include "models/reading/catalog.hpp"
#include "models/reading/figure_trial.hpp"
#include "models/reading/shipped_files.hpp"
#include "sim/process/child.hpp"

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

constexpr int kMostBases = 16;   // an entry on an entry on …; more is a cycle
constexpr int kStampColumn = 0;  // no key of a file is in column 0: marks the `name` that a catalog entry was given

fs::path default_root() {
  const char* given = std::getenv("TRAINYARD_CATALOG");
  return given && *given ? fs::path(given) : shipped_file("models/catalog");
}

/// Catalogs of the user's own, laid out alike: the folders of TRAINYARD_PATH (with ':' between them), and `trainyard/catalog`
/// in the XDG data folder. None beside a catalog that was made of another folder than the default. (The folder `catalog`
/// beside the file that names an entry comes before them.)
std::vector<fs::path> own_roots(const fs::path& root) {
  if (root != default_root()) return {};
  const auto variable = [](const char* name) {
    const char* given = std::getenv(name);
    return std::string(given ? given : "");
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
  std::erase_if(roots, [&](const fs::path& own) { return !fs::is_directory(own, ignored); });
  return roots;
}

std::string folder_of(std::string_view kind) { return fmt::format("{}{}", kind, kind.ends_with("ch") ? "es" : "s"); }

bool is_entry(const fs::path& file) { return file.extension() == ".yaml" || file.extension() == ".json"; }

bool is_file_reference(const std::string& name) {
  return name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json");
}

/// A file of the catalog: read anew only when it has changed since. Points of a sweep name the same few.
Node remembered(const fs::path& file) {
  using Stamp = std::tuple<dev_t, ino_t, off_t, time_t, long>;
  static std::map<std::string, std::pair<Stamp, Node>> known;
  static std::mutex mutex;
  struct stat status = {};
  if (::stat(file.c_str(), &status) != 0) return read_document(file);
  const Stamp stamp{status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  {
    const std::lock_guard lock(mutex);
    const auto at = known.find(file.native());
    if (at != known.end() && at->second.first == stamp) return at->second.second;
  }
  Node node = read_document(file);
  const std::lock_guard lock(mutex);
  return known.insert_or_assign(file.native(), std::pair(stamp, std::move(node))).first->second.second;
}

/// Where files are looked for that are named there: beside the file (an override comes from none: in the working
/// directory).
fs::path folder_beside(const Place& place) {
  return place.line == 0 || !place.file ? fs::path() : fs::path(*place.file).parent_path();
}

/// Of a name that the catalog has not: is it a file's, without what it ends with? It is looked for beside `where`.
void refuse_half_a_file_name(std::string_view kind, std::string_view name, const Place& where) {
  std::error_code ignored;
  for (const char* extension : {".yaml", ".yml", ".json"})
    if (const std::string file = std::string(name) + extension;
        !name.empty() && fs::is_regular_file(folder_beside(where) / file, ignored))
      fail(where, fmt::format("unknown {} \"{}\"; did you mean \"{}\", the file beside?", kind, name, file));
}

/// An entry in a file of its own.
Node file_entry(std::string_view kind, const Node& reference) {
  const fs::path file = folder_beside(reference.place) / reference.scalar;
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored))
    fail(reference.place, fmt::format("{}: no such file (a {} of its own)", file.string(), kind));
  Node node = read_document(file);
  if (node.kind != Node::Kind::map) fail(node.place, fmt::format("expected a map, the figures of a {}", kind));
  if (!node.find("name"))
    node.fields.insert(node.fields.begin(), {"name", Node::of_text(file.stem().string(), node.place)});
  return node;
}

/// `map` laid on its base, that base on its own, and so on.
Node on_base(const Catalog& catalog, std::string_view kind, const Node& reference, int depth) {
  const auto lay = [&](const Node& over, const Node& base) {
    if (depth >= kMostBases) fail(base.place, fmt::format("bases of {} form a cycle", kind));
    Node own = over;
    std::erase_if(own.fields, [](const auto& field) { return field.first == "base"; });
    return merged(on_base(catalog, kind, base, depth + 1), own);
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

/// A figure written plainly: a number (with or without unit) or a switch. Names and descriptions are none.
bool is_plain_figure(const Node& node) {
  if (node.kind != Node::Kind::scalar || node.scalar.empty() || node.quoted) return false;
  const char first = node.scalar.front();
  return (first >= '0' && first <= '9') || first == '-' || first == '.' || node.scalar == "true" ||
         node.scalar == "false";
}

bool is_list_of_figures(const Node& node) {
  return node.kind == Node::Kind::list && !node.items.empty() &&
         std::all_of(node.items.begin(), node.items.end(),
                     [](const Node& item) { return is_plain_figure(item) || is_list_of_figures(item); });
}

/// A figure in a few words: long lists (the links of a mesh, the switches of a node) by their length.
std::string value_text(const Node& value) {
  return value.kind == Node::Kind::list ? fmt::format("list of {}", value.items.size()) : value.scalar;
}

struct SourceReader {
  std::string what;
  const Node* texts;       // the entry's `sources`
  std::string entry_file;  // of the catalog entry at the bottom; empty for an entry given in place
  Sources found;

  /// A key of `sources`, or where there is none of that name the text itself.
  std::string full_text(const Node& source) const {
    const Node* text = texts ? texts->find(source.scalar) : nullptr;
    return text ? text->scalar : source.scalar;
  }
  std::string unsourced(const Node& node) const {
    if (!node.place.file || *node.place.file == entry_file) return {};
    return node.place.line == 0 ? "given by " + *node.place.file
                                : fmt::format("given in {}:{}", *node.place.file, node.place.line);
  }

  void read(const Node& node, const std::string& path) {
    const auto add = [&](const Node& value, std::string source, bool unverified) {
      found.push_back({fmt::format("{}: {}", what, path), value_text(value), std::move(source), unverified});
    };
    if (is_plain_figure(node) || is_list_of_figures(node)) return add(node, unsourced(node), false);
    if (const Node* value = node.find("value")) {
      const Node* source = node.find("source");
      const Node* unverified = node.find("unverified");
      return add(*value, source ? full_text(*source) : unsourced(node), unverified && unverified->scalar == "true");
    }
    for (std::size_t i = 0; i < node.items.size(); ++i) read(node.items[i], fmt::format("{}.{}", path, i));
    for (const auto& [key, field] : node.fields) read(field, path.empty() ? key : path + "." + key);
  }
};

/// Is the file one of a catalog: of that at `root`, or of the user's own?
bool lies_in_catalog(std::string_view file, const fs::path& root) {
  const auto below = [file](const fs::path& folder) { return file.starts_with(folder.native() + "/"); };
  if (below(root)) return true;
  const std::vector<fs::path> own = own_roots(root);
  return std::any_of(own.begin(), own.end(), below);
}

}  // namespace

Catalog::Catalog() : Catalog(default_root()) {}

Catalog::Catalog(fs::path root) : root_(std::move(root)) {
  std::error_code ignored;
  if (!fs::is_directory(root_, ignored))
    throw UserError(fmt::format("{}: no such catalog folder (TRAINYARD_CATALOG names it)", root_.string()));
}

std::vector<std::string> Catalog::names(std::string_view kind) const {
  std::vector<std::string> found;
  std::error_code error;
  const auto add = [&](const fs::path& root) {
    for (fs::directory_iterator it(root / folder_of(kind), error), end; !error && it != end; it.increment(error))
      if (is_entry(it->path())) found.push_back(it->path().stem().string());
  };
  add(root_);
  if (error == std::errc::too_many_files_open)
    throw MachineLimit(fmt::format("{}: cannot be read: {} (see ulimit -n)", root_.string(), error.message()));
  for (const fs::path& own : own_roots(root_)) add(own);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

Node Catalog::entry(std::string_view kind, std::string_view name, const Place& where) const {
  const fs::path file = file_of(kind, name, where);
  Node node = remembered(file);
  if (node.kind != Node::Kind::map) fail(node.place, fmt::format("expected a map, the figures of a {}", kind));
  apply_trials(node, kind, file.stem().string());
  if (const Node* own = node.find("name")) fail(own->key_place, "an entry of the catalog is named by its file");
  node.fields.insert(node.fields.begin(),
                     {"name", Node::of_text(file.stem().string(), {node.place.file, 1, kStampColumn})});
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
  const std::vector<std::string> known = names(kind);
  const auto it = std::find_if(known.begin(), known.end(), [&](const auto& n) { return same_name(n, name); });
  if (it == known.end()) {
    refuse_half_a_file_name(kind, name, where);
    fail(where, fmt::format("unknown {} \"{}\"{}", kind, name, hint(name, known)));
  }
  const fs::path yaml = find(*it, ".yaml");
  return yaml.empty() ? find(*it, ".json") : yaml;
}

Node Catalog::document(const fs::path& file) const {
  return lies_in_catalog(file.native(), root_) ? remembered(file) : read_document(file);
}

Node Catalog::resolve(std::string_view kind, const Node& reference) const {
  Node node = on_base(*this, kind, reference, 0);
  if (!node.find("name"))
    node.fields.insert(node.fields.begin(), {"name", Node::of_text(fmt::format("custom-{}", kind), reference.place)});
  return node;
}

bool Catalog::holds(const Place& place) const {
  return place.file && place.line > 0 && lies_in_catalog(*place.file, root_);
}

Node Catalog::typed(std::string_view kind, const Node& part, std::span<const std::string_view> figures) const {
  const Node& type = *part.find("type");
  Node own = part;
  std::erase_if(own.fields, [&](const auto& field) {
    const auto& [key, node] = field;
    const bool figure = std::find(figures.begin(), figures.end(), key) != figures.end();
    return !figure || (holds(node.place) && !holds(type.place));
  });
  return resolve(kind, own.fields.empty() ? type : merged(type, own));
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
  return reader.found;
}

EntryFields::EntryFields(const Node& entry, std::string_view kind)
    : Fields(entry, fmt::format("{} {}", kind,
                                entry.find("name") ? entry.find("name")->scalar : fmt::format("custom-{}", kind))),
      entry_(entry),
      name_(text("name", fmt::format("custom-{}", kind))),
      description_(text("description", "")) {
  child("sources");
}

Sources EntryFields::finish() const {
  Fields::finish();
  return figure_sources(entry_, what());
}

}  // namespace trainyard
