#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "models/reading/figure.hpp"

namespace trainyard {

/// The folder of datasheet and fitted figures, with one YAML file for each entry: `<folder>/<kind>s/<name>.yaml`
/// (kinds: gpu, cpu, storage, hca, node, switch, fabric, network, site, stack, nccl, nccl-network, attention,
/// batch-error, dispatcher, engine, rl-stack, weight-transfer; the folder of switch is `switches`). The folder is
/// TRAINYARD_CATALOG or the one that comes with the program. Entries in the user's own folders come first: those of
/// TRAINYARD_PATH, then `trainyard/catalog` in the XDG data folder.
class Catalog {
 public:
  Catalog();
  explicit Catalog(std::filesystem::path root);

  std::vector<std::string> names(std::string_view kind) const;  ///< sorted
  /// Returns the entry as a document. '-' and '_' are the same in names. Throws UserError at `where` with the nearest
  /// name if there is no such entry.
  Node entry(std::string_view kind, std::string_view name, const Place& where) const;
  /// Returns the entry that `reference` stands for. A scalar is the name of an entry, or of a file (.yaml, .json) in
  /// the folder of the file that holds the scalar. A map is an entry itself; if it has a `base`, its fields are laid on
  /// that entry. The result has a field `name` and never a `base`.
  Node resolve(std::string_view kind, const Node& reference) const;
  /// Reads a file in any folder. A file of the catalog is read again only if it has changed.
  Node document(const std::filesystem::path&) const;
  const std::filesystem::path& root() const { return root_; }
  bool holds(const Place&) const;  ///< is the place in a file of the catalog?

  /// Returns the entry that `part` names as its `type`. Those of `figures` that `part` states itself replace the
  /// entry's. A figure is ignored if it comes from a catalog entry but the `type` comes from a scenario laid on that
  /// entry: the figure belongs to the device that the type replaces. Throws UserError with the place.
  Node resolve_typed(std::string_view kind, const Node& part, std::span<const std::string_view> figures) const;

 private:
  std::filesystem::path root_;

  std::filesystem::path file_of(std::string_view kind, std::string_view name, const Place& where) const;
};

/// Returns the name of an entry in errors and sources: "gpu a100-sxm4-80gb", or "gpu custom-gpu" if it has no name.
std::string entry_title(const std::string& kind, const Node& entry);
/// Reads the keys of every entry (name, description, sources) and returns the name, or "custom-KIND".
std::string read_entry_name(Fields&, const std::string& kind);
/// Returns every figure of `entry` with the full text of its source, as the entry's `sources: {key: text}` has it. A
/// figure without a source has the source "" (a test refuses that in the catalog). A figure that a scenario overrides
/// has the source "given in FILE:LINE".
Sources figure_sources(const Node& entry, const std::string& what);

/// Reads a complete entry: its name, the figures that `read` reads into it, and their sources. Refuses unknown keys.
template <class Entry, class Read>
Entry read_entry(const std::string& kind, const Node& node, const Read& read) {
  Fields fields(node, entry_title(kind, node));
  Entry entry;
  entry.name = read_entry_name(fields, kind);
  read(entry, fields);
  fields.finish();
  entry.sources = figure_sources(node, fields.what());
  return entry;
}

}  // namespace trainyard
