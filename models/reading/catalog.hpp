#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "models/reading/document.hpp"
#include "models/reading/figure.hpp"

namespace trainyard {

/// The folder of datasheet and fitted figures: one YAML file an entry, `<folder>/<kind>s/<name>.yaml`
/// (kinds: gpu, cpu, storage, hca, node, switch, fabric, network, stack, nccl,
/// nccl-network, attention, batch-error, dispatcher; the folder of switch is `switches`).
/// TRAINYARD_CATALOG, or the one that comes with the program; and before that the user's own (see `own_roots`).
class Catalog {
 public:
  Catalog();
  explicit Catalog(std::filesystem::path root);

  std::vector<std::string> names(std::string_view kind) const;  ///< sorted
  /// The entry as a document. Throws UserError at `where` naming the nearest entry. '-' and '_' are the same in names.
  Node entry(std::string_view kind, std::string_view name, const Place& where) const;
  /// A scalar is the name of an entry, or of a file beside the one that it stands in (.yaml, .json); a map stands for
  /// itself, laid on its `base` entry if it names one. The result has a field `name` and never a `base`.
  Node resolve(std::string_view kind, const Node& reference) const;
  /// A file anywhere; of the catalog's own, what was read last, unless it has changed.
  Node document(const std::filesystem::path&) const;
  const std::filesystem::path& root() const { return root_; }
  bool holds(const Place&) const;  ///< was it written in a file of the catalog?

  /// The entry that `part` takes by its `type`, with those of `figures` that `part` gives itself laid on it. A figure that
  /// a catalog entry gives while the type was named elsewhere, in a scenario laid on that entry, is of what the type
  /// replaces: left out. Throws UserError with the place.
  Node typed(std::string_view kind, const Node& part, std::span<const std::string_view> figures) const;

 private:
  std::filesystem::path root_;

  std::filesystem::path file_of(std::string_view kind, std::string_view name, const Place& where) const;
};

/// Every figure below `entry` with its source: the entry's `sources: {key: text}` resolved. A figure without a source
/// has the source "" (a test refuses that in the catalog); a figure overridden in a scenario has "given in FILE:LINE".
Sources figure_sources(const Node& entry, const std::string& what);

/// The fields of an entry, which errors call by its kind and name ("hca connectx-6"). Its `name`, `description` and
/// `sources` are known.
class EntryFields : public Fields {
 public:
  EntryFields(const Node& entry, std::string_view kind);
  const std::string& name() const { return name_; }  ///< "custom-hca" where it has none
  const std::string& description() const { return description_; }
  Sources finish() const;  ///< refuses what nobody read; where the figures come from

 private:
  const Node& entry_;
  std::string name_, description_;
};

}  // namespace trainyard
